"""`control_speaker_volume`, with mixers that are real programs on PATH and keep their state in a file."""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolrun import ErrorKind, Runtime, SideEffects
from toolrun.config.model import Config, ToolSettings
from toolrun.json import JSON

# Each understands exactly the commands of the real program and prints what that prints; everything else fails.
FAKES = {
    "wpctl": r"""
case "$1 $2" in
  "get-volume @DEFAULT_AUDIO_SINK@") printf 'Volume: %s.%02d' $((volume / 100)) $((volume % 100))
    [ "$muted" = 1 ] && printf ' [MUTED]'; echo ;;
  "set-volume @DEFAULT_AUDIO_SINK@") volume=$(printf '%s' "$3" | sed 's/\.//; s/^0*//'); volume=${volume:-0} ;;
  "set-mute @DEFAULT_AUDIO_SINK@") muted=$3 ;;
  *) exit 2 ;;
esac
""",
    "pactl": r"""
[ "$LC_ALL" = C ] || exit 3
case "$1 $2" in
  "get-sink-volume @DEFAULT_SINK@")
    echo "Volume: front-left: 26214 /  $volume% / -23.88 dB,   front-right: 26214 /  $volume% / -23.88 dB" ;;
  "get-sink-mute @DEFAULT_SINK@") [ "$muted" = 1 ] && echo "Mute: yes" || echo "Mute: no" ;;
  "set-sink-volume @DEFAULT_SINK@") volume=${3%\%} ;;
  "set-sink-mute @DEFAULT_SINK@") muted=$3 ;;
  *) exit 2 ;;
esac
""",
    "amixer": r"""
while [ "${1#-}" != "$1" ]; do shift; done
[ "$2" = Master ] || { echo "amixer: Unable to find simple control '$2',0" >&2; exit 1; }
case "$1 $3" in
  "sget ") state=on; [ "$muted" = 1 ] && state=off
    echo "Simple mixer control 'Master',0"; echo "  Front Left: Playback 26214 [$volume%] [-23.88dB] [$state]" ;;
  "sset mute") muted=1 ;;
  "sset unmute") muted=0 ;;
  "sset "*%) volume=${3%\%} ;;
  *) exit 2 ;;
esac
""",
    "osascript": r"""
[ "$1" = -e ] || exit 2
case "$2" in
  "get volume settings") word=false; [ "$muted" = 1 ] && word=true
    echo "output volume:$volume, input volume:75, alert volume:100, output muted:$word" ;;
  "set volume output volume "*) volume=${2##* } ;;
  "set volume output muted true") muted=1 ;;
  "set volume output muted false") muted=0 ;;
  *) exit 2 ;;
esac
""",
}


def program(directory: Path, name: str, body: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


class Machine:
    """A machine with some mixers, and what its loudspeakers are set to."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.programs = root / "bin"
        self.programs.mkdir()
        (root / "tools").mkdir()
        for tool in ("sh", "sed", "cat", "sleep", "printf"):
            found = next(Path(it, tool) for it in ("/bin", "/usr/bin") if Path(it, tool).exists())
            (self.programs / tool).symlink_to(found)
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setattr("toolrun.builtins.volume.TIMEOUT", 30.0)  # machines may be busy
        declared = {
            "name": "control_speaker_volume",
            "description": "Control the volume.",
            "parameters": {"type": "object", "additionalProperties": True},
            "implementation": {"type": "builtin", "handler": "control_speaker_volume"},
        }
        (root / "tools" / "volume.json").write_text(json.dumps(declared))

    def install(self, name: str, volume: int = 40, muted: bool = False) -> None:
        self.set(volume, muted)
        state = self.root / "state"
        body = f'. "{state}"\necho "{name} $*" >> "{self.root}/log"\n{FAKES[name]}'
        program(self.programs, name, body + f'echo "volume=$volume muted=$muted" > "{state}"')

    def set(self, volume: int, muted: bool) -> None:
        (self.root / "state").write_text(f"volume={volume} muted={int(muted)}\n")

    @property
    def log(self) -> list[str]:
        path = self.root / "log"
        return path.read_text().splitlines() if path.exists() else []

    @asynccontextmanager
    async def opened(self, **config: Any) -> AsyncIterator[Runtime]:
        settings = {"control_speaker_volume": ToolSettings(config=config)}
        async with Runtime.open(Config(None, self.root, tool=settings)) as runtime:
            yield runtime

    async def call(self, *, config: dict[str, Any] | None = None, **arguments: Any) -> Any:
        async with self.opened(**(config or {})) as runtime:
            return await runtime.executor.execute("control_speaker_volume", arguments)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("mixer", FAKES)
async def test_every_action_works_with_every_mixer(machine: Machine, mixer: str) -> None:
    machine.install(mixer)
    steps: list[tuple[dict[str, JSON], tuple[int, bool]]] = [
        ({"action": "get"}, (40, False)),
        ({"action": "set", "level": 55}, (55, False)),
        ({"action": "up"}, (65, False)),
        ({"action": "up", "level": 50}, (100, False)),
        ({"action": "up"}, (100, False)),
        ({"action": "down", "level": 95}, (5, False)),
        ({"action": "down"}, (0, False)),
        ({"action": "set", "level": 7}, (7, False)),
        ({"action": "mute"}, (7, True)),
        ({"action": "get"}, (7, True)),
        ({"action": "unmute"}, (7, False)),
        ({"action": " Mute "}, (7, True)),
        ({"action": "up"}, (17, False)),
    ]
    async with machine.opened() as runtime:
        for arguments, (volume, muted) in steps:
            result = await runtime.executor.execute("control_speaker_volume", arguments)
            assert result.result == {"volume": volume, "muted": muted}, (arguments, result)
    assert (machine.root / "state").read_text() == "volume=17 muted=0\n"


async def test_what_is_already_so_is_not_set_again(machine: Machine) -> None:
    machine.install("wpctl", volume=40, muted=True)
    assert (await machine.call(action="mute")).result == {"volume": 40, "muted": True}
    assert machine.log == ["wpctl get-volume @DEFAULT_AUDIO_SINK@"]


async def test_a_mixer_that_cannot_reach_a_sound_server_is_passed_over(machine: Machine) -> None:
    program(machine.programs, "wpctl", 'echo "Could not connect to PipeWire" >&2; exit 1')
    program(machine.programs, "pactl", "echo nonsense")
    machine.install("amixer", volume=30)
    assert (await machine.call(action="up")).result == {"volume": 40, "muted": False}


async def test_without_a_mixer_the_error_says_what_to_install(machine: Machine) -> None:
    result = await machine.call(action="get")
    assert result.error_kind is ErrorKind.UNAVAILABLE
    assert "none of wpctl, pactl, amixer, osascript is installed" in result.error
    assert "alsa-utils" in result.error


async def test_if_no_mixer_answers_the_error_has_what_each_said(machine: Machine) -> None:
    program(machine.programs, "wpctl", 'echo "Could not connect to PipeWire" >&2; exit 1')
    program(machine.programs, "pactl", "exit 4")
    result = await machine.call(action="up")
    assert result.error_kind is ErrorKind.UNAVAILABLE
    assert "wpctl failed: Could not connect to PipeWire; pactl failed: it ended with exit code 4" in result.error
    assert "Is a sound server running" in result.error


async def test_a_mixer_that_hangs_is_ended_with_what_it_started(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.builtins.volume.TIMEOUT", 0.3)
    program(
        machine.programs,
        "wpctl",
        f'echo $$ > "{machine.root}/parent"; sleep 60 & echo $! > "{machine.root}/child"; wait',
    )
    result = await machine.call(action="get")
    assert result.error_kind is ErrorKind.UNAVAILABLE
    assert "wpctl did not answer within 0.3 s" in result.error
    wait_until_ended(machine.root / "parent")
    wait_until_ended(machine.root / "child")


async def test_a_call_that_is_given_up_ends_the_mixer(machine: Machine) -> None:
    started = machine.root / "started"
    os.mkfifo(started)
    program(machine.programs, "wpctl", f'echo $$ > "{machine.root}/pid"; echo go > "{started}"; exec sleep 60')
    async with machine.opened() as runtime:
        call = asyncio.create_task(runtime.executor.execute("control_speaker_volume", {"action": "get"}))
        assert await asyncio.wait_for(asyncio.to_thread(started.read_text), 30) == "go\n"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(wait_until_ended, machine.root / "pid")


async def test_a_change_of_which_nobody_knows_whether_it_was_made_says_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.builtins.volume.TIMEOUT", 3.0)  # long enough for the answer before
    program(machine.programs, "wpctl", 'case "$1" in get-volume) echo "Volume: 0.40" ;; *) exec sleep 60 ;; esac')
    result = await machine.call(action="up")
    assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)


async def test_step_mixer_and_device_can_be_configured(machine: Machine) -> None:
    machine.install("wpctl", volume=40)
    machine.install("amixer", volume=40)
    config = {"mixer": "amixer", "step": 3}
    assert (await machine.call(config=config, action="down")).result == {"volume": 37, "muted": False}
    assert all(line.startswith("amixer ") for line in machine.log)
    other = await machine.call(config={**config, "device": "PCM"}, action="get")
    assert "Unable to find simple control 'PCM',0" in other.error


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"mixer": "audacity"}, "'mixer' must be one of wpctl, pactl, amixer, osascript; got 'audacity'"),
        ({"step": 0}, "'step' must be a whole number of percent, 1 to 100"),
        ({"step": "loud"}, "'step' must be"),
    ],
)
async def test_a_wrong_setting_is_named(machine: Machine, config: dict[str, Any], words: str) -> None:
    machine.install("wpctl")
    result = await machine.call(config=config, action="get")
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert words in result.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "louder"}, "unknown action 'louder'"),
        ({"action": "unmut"}, "did you mean 'unmute'?"),
        ({"action": "set"}, "missing 'level'"),
        ({"action": "set", "level": 101}, "0 to 100; got 101"),
        ({"action": "up", "level": -5}, "0 to 100; got -5"),
        ({"action": "set", "level": 1.5}, "'level' must be a whole number"),
        ({"action": "set", "level": True}, "'level' must be a whole number"),
        ({}, "missing 'action'"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_runs(
    machine: Machine, arguments: dict[str, Any], words: str
) -> None:
    machine.install("wpctl")
    result = await machine.call(**arguments)
    assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
    assert words in result.error
    assert machine.log == []


def wait_until_ended(file: Path) -> None:
    """Return when the process whose number is in the file has ended. One that was ended early wrote none."""
    if not file.exists() or not file.read_text():
        return
    try:
        descriptor = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], "the process still runs"
    finally:
        os.close(descriptor)
