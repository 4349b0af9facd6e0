"""Words become sound: espeak-ng and players, as real processes."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from pathlib import Path

import pytest

from support.speaking import spoken
from toolrun.errors import SpeechError
from toolrun.voice.speech.espeak import EspeakSpeaker
from toolrun.voice.speech.piper import PiperSpeaker
from toolrun.voice.speech.player import find_player, play
from toolrun.voice.speech.wav import read_wav, seconds


def program(directory: Path, name: str, body: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


async def test_a_sentence_becomes_a_wav_file() -> None:
    short, long = await spoken("Hello."), await spoken("The light in the hall is on now, and it will stay on.")
    assert 0.3 < seconds(read_wav(short)) < seconds(read_wav(long)) < 10
    assert max(read_wav(short)) > 0


async def test_text_is_never_taken_for_an_option_of_the_program() -> None:
    assert seconds(read_wav(await spoken("--version and -h"))) > 0.5


async def test_nothing_to_say_is_no_sound() -> None:
    assert await spoken("  \0 \n") == b""


async def test_a_voice_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SpeechError, match="Does it have this voice"):
        await spoken("Hello.", voice="klingon-nowhere")


async def test_a_speaker_that_is_given_up_is_ended(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    slow = program(tmp_path, "espeak-ng", f'echo $$ > "{started}"; exec sleep 60')
    task = asyncio.create_task(EspeakSpeaker(program=str(slow)).speak("Hello."))
    pid = int(await asyncio.to_thread(started.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_until_ended(pid)


async def test_a_speaker_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolrun.voice.speech.espeak._TIMEOUT", 0.3)
    slow = program(tmp_path, "espeak-ng", "exec sleep 60")
    with pytest.raises(SpeechError, match=r"did not finish within 0\.3 s"):
        await EspeakSpeaker(program=str(slow)).speak("Hello.")


def test_without_the_program_the_error_says_what_to_install() -> None:
    with pytest.raises(SpeechError, match="apt install espeak-ng"):
        EspeakSpeaker(program="espeak-nowhere")


def test_without_piper_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "piper", None)
    with pytest.raises(SpeechError, match="pip install piper-tts"):
        PiperSpeaker(tmp_path / "voice.onnx")


async def test_a_player_gets_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "aplay", f'[ "$1" = -q ] && /bin/cat "$2" > "{tmp_path}/played"')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_player() == (str(tmp_path / "aplay"), "-q")
    await play(b"RIFF of a sound")
    assert (tmp_path / "played").read_bytes() == b"RIFF of a sound"


async def test_a_player_that_is_stopped_is_ended(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    player = program(tmp_path, "aplay", f'echo $$ > "{started}"; exec sleep 60')
    task = asyncio.create_task(play(b"sound", (str(player),)))
    pid = int(await asyncio.to_thread(started.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_until_ended(pid)


async def test_a_player_without_a_sound_server_says_so(tmp_path: Path) -> None:
    player = program(tmp_path, "aplay", 'echo "audio open error: No such device" >&2; exit 1')
    with pytest.raises(SpeechError, match=r"failed: audio open error: No such device\. Is a sound server"):
        await play(b"sound", (str(player),))


async def test_without_a_player_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_player() is None
    with pytest.raises(SpeechError, match="none of pw-play, paplay, aplay, afplay is installed"):
        await play(b"sound")


def wait_until_ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], "the process still runs"
    finally:
        os.close(descriptor)
