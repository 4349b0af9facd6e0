"""The volume of the loudspeakers, through the mixer that the system has. The handler behind `control_speaker_volume`.

A mixer is data: its commands, and a parser for its output. The first installed mixer that reaches a sound server is
used. After a change the volume is read back, so that the answer reports the actual volume and not the requested one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolrun.errors import InvalidArgumentsError, SideEffects, ToolError, UnavailableError
from toolrun.json import JSON
from toolrun.processes.external_program import run_program
from toolrun.text import suggestion
from toolrun.tools.context import ToolContext

ACTIONS: Final = ("get", "set", "up", "down", "mute", "unmute")
STEP: Final = 10
"""How many percent `up` and `down` change."""
TIMEOUT: Final = 5.0
"""Seconds for one run of a mixer."""
_ENGLISH: Final = {"LC_ALL": "C"}  # pactl and amixer translate what they print


@dataclass(frozen=True, slots=True)
class VolumeState:
    """The state of the loudspeakers."""

    volume: int
    """Percent."""
    muted: bool


@dataclass(frozen=True, slots=True)
class Mixer:
    """The command lines of one mixer. `{device}`, `{percent}`, `{fraction}` and `{switch}` are placeholders."""

    program: str
    device: str
    """The default, if none is configured."""
    get: tuple[str, ...]
    """Commands whose combined output has volume and mute."""
    set: str
    mute: str
    switches: tuple[str, str]
    """The values of `{switch}` for muted and not muted."""
    parse: Callable[[str], VolumeState | None]
    """Parses the output of `get`; None if it has no volume."""

    def command(self, template: str, percent: int = 0, muted: bool = False) -> list[str]:
        values = {
            "device": self.device,
            "percent": str(percent),
            "fraction": f"{percent / 100:.2f}",
            "switch": self.switches[not muted],
        }
        return [self.program, *(part.format(**values) for part in template.split("\t"))]


def _pattern_parser(volume: str, muted: str, *, scale: float = 1.0) -> Callable[[str], VolumeState | None]:
    """A parser by two patterns: the first finds the number, the second matches if the device is muted."""

    def parse(output: str) -> VolumeState | None:
        number = re.search(volume, output)
        return number and VolumeState(round(float(number[1]) * scale), re.search(muted, output) is not None)

    return parse


MIXERS: Final = (
    Mixer(
        "wpctl",
        "@DEFAULT_AUDIO_SINK@",
        ("get-volume\t{device}",),
        "set-volume\t{device}\t{fraction}",
        "set-mute\t{device}\t{switch}",
        ("1", "0"),
        _pattern_parser(r"Volume: (\d+(?:\.\d+)?)", r"\[MUTED\]", scale=100),
    ),
    Mixer(
        "pactl",
        "@DEFAULT_SINK@",
        ("get-sink-volume\t{device}", "get-sink-mute\t{device}"),
        "set-sink-volume\t{device}\t{percent}%",
        "set-sink-mute\t{device}\t{switch}",
        ("1", "0"),
        _pattern_parser(r"(\d+)%", r"Mute: yes"),
    ),
    Mixer(
        "amixer",
        "Master",
        ("-M\tsget\t{device}",),
        "-M\t-q\tsset\t{device}\t{percent}%",
        "-q\tsset\t{device}\t{switch}",
        ("mute", "unmute"),
        _pattern_parser(r"\[(\d+)%\]", r"\[off\]"),
    ),
    Mixer(
        "osascript",
        "",
        ("-e\tget volume settings",),
        "-e\tset volume output volume {percent}",
        "-e\tset volume output muted {switch}",
        ("true", "false"),
        _pattern_parser(r"output volume:(\d+)", r"output muted:true"),
    ),
)


async def control_volume(action: str, level: int | None, context: ToolContext) -> JSON:
    """Perform the action, and return the state of the loudspeakers after it."""
    name = action.strip().lower()
    if name not in ACTIONS:
        raise InvalidArgumentsError(f"Invalid parameters: unknown action '{action:.40}'; {suggestion(name, ACTIONS)}")
    if name == "set" and level is None:
        raise InvalidArgumentsError("Invalid parameters: missing 'level'; 'set' needs the percentage, 0 to 100")
    if level is not None and not 0 <= level <= 100:
        raise InvalidArgumentsError(f"Invalid parameters: 'level' is a percentage, 0 to 100; got {level}")
    step = context.config.get("step", STEP)
    if not isinstance(step, int) or isinstance(step, bool) or not 1 <= step <= 100:
        raise ToolError("[tool] config: 'step' must be a whole number of percent, 1 to 100. Correct toolrun.toml.")
    mixer, before = await _first_mixer(_candidates(context.config))
    target = _target(name, before, level if level is not None else step)
    if target.volume != before.volume:
        await _run(mixer, mixer.command(mixer.set, percent=target.volume))
    if target.muted != before.muted:
        await _run(mixer, mixer.command(mixer.mute, muted=target.muted))
    now = before if target == before else await _read(mixer)
    return {"volume": now.volume, "muted": now.muted}


def _target(action: str, now: VolumeState, amount: int) -> VolumeState:
    """The state to set. Asking for a volume, or for more, also unmutes."""
    match action:
        case "set":
            return VolumeState(amount, muted=now.muted if amount == 0 else False)
        case "up":
            return VolumeState(max(now.volume, min(100, now.volume + amount)), muted=False)
        case "down":
            return replace(now, volume=max(0, now.volume - amount))
        case "mute" | "unmute":
            return replace(now, muted=action == "mute")
    return now


def _candidates(config: Mapping[str, JSON]) -> list[Mixer]:
    """The installed mixers that the configuration of the tool allows."""
    name, device = config.get("mixer", ""), config.get("device", "")
    names = [mixer.program for mixer in MIXERS]
    if name and name not in names:
        raise ToolError(
            f"[tool] config: 'mixer' must be one of {', '.join(names)}; got {name!r:.40}. Correct toolrun.toml."
        )
    mixers = [mixer for mixer in MIXERS if not name or mixer.program == name]
    installed = [mixer for mixer in mixers if shutil.which(mixer.program) is not None]
    if not installed:
        raise UnavailableError(
            f"The speaker volume cannot be controlled here: {_none_of([mixer.program for mixer in mixers])}. "
            "Install the tools of the sound system (wireplumber, pulseaudio-utils or alsa-utils)."
        )
    return [replace(mixer, device=str(device)) if device else mixer for mixer in installed]


def _none_of(names: Sequence[str]) -> str:
    return f"{names[0]} is not installed" if len(names) == 1 else f"none of {', '.join(names)} is installed"


async def _first_mixer(mixers: Sequence[Mixer]) -> tuple[Mixer, VolumeState]:
    """The first mixer that works, and the present state."""
    failures: list[str] = []
    for mixer in mixers:
        try:
            return mixer, await _read(mixer)
        except UnavailableError as error:
            failures.append(str(error))
    raise UnavailableError(
        f"The speaker volume cannot be controlled: {'; '.join(failures)}. Is a sound server running for this user?"
    )


async def _read(mixer: Mixer) -> VolumeState:
    output = "\n".join([await _run(mixer, mixer.command(template)) for template in mixer.get])
    found = mixer.parse(output)
    if found is None:
        raise UnavailableError(f"{mixer.program} printed no volume: {output.strip()[:80]!r}")
    return found


async def _run(mixer: Mixer, command: Sequence[str]) -> str:
    try:
        finished = await run_program(command, timeout=TIMEOUT, variables=_ENGLISH)
    except TimeoutError:
        problem = f"{mixer.program} did not answer within {TIMEOUT:g} s"
        raise UnavailableError(problem, side_effects=SideEffects.UNKNOWN) from None
    except OSError as error:
        raise UnavailableError(f"{mixer.program} cannot be run: {error.strerror}") from None
    if finished.code != 0:
        raise UnavailableError(f"{mixer.program} failed: {finished.complaint}")
    return finished.output.decode("utf-8", "replace")
