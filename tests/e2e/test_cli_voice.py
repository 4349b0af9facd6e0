"""`toolrun voice` without a broker: what it hears, says and needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.console import ROOT, toolrun
from support.speaking import need_program

RECORDING = ROOT / "examples/home/turn_on_switch_one.wav"
SCRIPT = """\
repeat = true
[[answer]]
text = "You said: **{question}**"
"""
PLAYER = """\
#!/bin/sh
cp "$1" "$PLAYED"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    (tmp_path / "toolrun.toml").write_text('[model]\nuse = "scripted:script.toml"\n[voice]\ndevices = ["Switch One"]\n')
    return tmp_path


def test_lines_are_answered_in_words_that_can_be_spoken(project: Path) -> None:
    done = toolrun("voice", cwd=project, stdin="hello\n  \ngood bye")
    assert (done.returncode, done.stdout) == (0, "You said: hello.\nYou said: good bye.\n")
    assert done.stderr == "Listening to stdin; 0 tools; model scripted:script.toml ([model] use)\n"


def test_what_is_said_in_a_file_is_answered(project: Path) -> None:
    done = toolrun("voice", "--audio", str(RECORDING), "--audio", str(RECORDING), cwd=project)
    assert (done.returncode, done.stdout) == (0, "You said: turn on Switch One.\n" * 2)
    assert "heard: turn on Switch One" in done.stderr


def test_files_come_before_lines(project: Path) -> None:
    done = toolrun("voice", "--audio", str(RECORDING), "--stdin", cwd=project, stdin="hello\n")
    assert done.stdout == "You said: turn on Switch One.\nYou said: hello.\n"


def test_devices_that_cannot_be_heard_are_told(project: Path) -> None:
    with (project / "toolrun.toml").open("a") as file:
        file.write('commands = "said.txt"\n')
    (project / "said.txt").write_text("turn on {device}\nturn on {place}\n")
    done = toolrun("voice", "--audio", str(RECORDING), cwd=project)
    assert done.stdout == "You said: turn on Switch One.\n"
    assert "toolrun: The command 'turn on {place}' has the unknown place {place}" in done.stderr


def test_answers_are_spoken_and_it_ends_when_they_are(project: Path) -> None:
    need_program("espeak-ng")
    player, played = project / "pw-play", project / "played.wav"
    player.write_text(PLAYER.replace("$PLAYED", str(played)))
    player.chmod(0o755)
    variables = {"PATH": f"{project}:{os.environ['PATH']}"}
    done = toolrun("voice", "--stdin", "--speak", cwd=project, stdin="hello\n", env=variables)
    assert (done.returncode, done.stdout) == (0, "You said: hello.\n"), done.stderr
    assert played.read_bytes()[:4] == b"RIFF"
    played.unlink()
    with (project / "toolrun.toml").open("a") as file:
        file.write('speech_out = "espeak"\n')
    toolrun("voice", "--stdin", "--no-speak", cwd=project, stdin="hello\n", env=variables)
    assert not played.exists()
    toolrun("voice", "--stdin", cwd=project, stdin="hello\n", env=variables)
    assert played.exists()


def test_a_phrase_of_the_users_own_is_said(project: Path) -> None:
    with (project / "toolrun.toml").open("a") as file:
        file.write('phrases = "phrases.toml"\n')
    (project / "phrases.toml").write_text('unexpected = "Oh dear."\n')
    (project / "script.toml").write_text('[[answer]]\ntext = "one"\n')
    done = toolrun("voice", cwd=project, stdin="one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "one.\nOh dear.\n")
    assert "no answer to 'two': The script has 1 answers" in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--mqtt", "localhost"],
            "the address of the MQTT broker needs the scheme mqtt or mqtts, and a host; write mqtt://HOST:1883",
        ),
        (["--model", "nonsense"], "--model is 'nonsense', which names no model"),
        (["--audio", "missing.wav"], "{project}/missing.wav cannot be read: No such file"),
        (["--audio", "toolrun.toml"], "{project}/toolrun.toml is not a usable WAV file"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(project: Path, options: list[str], complaint: str) -> None:
    done = toolrun("voice", *options, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"toolrun: {complaint.format(project=project)}" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_model_it_says_how_to_get_one(project: Path) -> None:
    (project / "toolrun.toml").write_text("")
    variables = {"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": "127.0.0.1:1"}
    done = toolrun("voice", cwd=project, stdin="hello\n", env=variables)
    assert done.returncode == 2
    assert "There is no model" in done.stderr
    assert "Any one of these will do" in done.stderr


def test_a_reader_that_goes_away_is_no_reason_to_complain(project: Path) -> None:
    from support.console import TOOLRUN, run

    done = run("bash", "-c", f"yes | {TOOLRUN} voice | head -1", cwd=project)
    assert done.stdout == "You said: y.\n"
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
