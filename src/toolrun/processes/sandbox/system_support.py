"""Which rungs of the sandbox this system supports: tried once per boot, in a process that is thrown away.

    rung          walls                                                     gaps
    namespaces    user, mount, PID and IPC namespaces, Landlock, seccomp    those of an old kernel
    bubblewrap    the same, made by `bwrap`, where only that is allowed     those of an old kernel
    landlock      Landlock and seccomp                                      see `gaps`
    sandbox-exec  the profile of macOS; nobody has tested it                processes are seen
    none          none                                                      all

One cannot go back after a namespace was refused half-way (AppArmor on Ubuntu lets a process in and then takes all its
rights), so a worker never finds out by itself. The result is kept in a file until the next boot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolrun.config.model import Permissions
from toolrun.processes.engine import describe_exit
from toolrun.processes.sandbox.command import worker_command, worker_plan
from toolrun.processes.sandbox.policy import STANDARD, Policy, ProjectPaths, interpreter_roots, make_policy
from toolrun.version import __version__

NAMESPACES: Final = "namespaces"
BUBBLEWRAP: Final = "bubblewrap"
LANDLOCK: Final = "landlock"
SEATBELT: Final = "sandbox-exec"
NONE: Final = "none"
RUNGS: Final = (NONE, SEATBELT, LANDLOCK, BUBBLEWRAP, NAMESPACES)
"""From the lowest to the highest."""

_TIMEOUT: Final = 10.0
_PAUSES: Final = (0.1, 0.5, 0.0)
"""Seconds after each try of a rung that fails for no lasting reason."""
_LASTING: Final = re.compile(
    r"not permitted|[Pp]ermission|No space left|not implemented|Invalid argument|no Landlock|not installed"
)
_PASSING: Final = re.compile("temporarily unavailable|Cannot allocate memory|Too many open files|timed out|MemoryError")
"""What too many processes, too much memory in use and the like lead to."""
_MOVES_SINCE: Final = 2
_SCOPES_SINCE: Final = 6
_LANDLOCK_CREATE: Final = 444
_ASK_FOR_ABI: Final = 1


@dataclass(frozen=True, slots=True)
class SystemSupport:
    """The highest rung that works here."""

    rung: str = NONE
    abi: int = 0
    """The version of the kernel's Landlock; 0 if it has none."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """The rungs that do not work here, with the reason."""

    def gaps(self) -> tuple[str, ...]:
        """What a sandboxed process can do here that it could not do on the highest rung."""
        return gaps(self.rung, self.abi)


_OF_LANDLOCK: Final = (
    "sees the command lines of other processes, whose limits it can change, and the names of files that it cannot read",
    "can connect to sockets in the file system, such as Docker's or the SSH agent's",
    "can attach shared memory of other programs",
    "can change the modes, owners and times of your files, and read and write your terminals",
    "on the level standard, can read and write the project's journal, secret files, toolrun.toml, tool files and git "
    "hooks",
)
"""What it does not know of, on any kernel."""


def gaps(rung: str, abi: int) -> tuple[str, ...]:
    """What the walls of a rung leave open."""
    if rung == SEATBELT:
        return ("this rung is untested", "sees other processes")
    if rung == NONE:
        return ("nothing is walled off: a script can do whatever you can",)
    found = [*(_OF_LANDLOCK if rung == LANDLOCK else ())]
    if abi < _SCOPES_SINCE:
        signals = "can send signals to your other processes and connect" if rung == LANDLOCK else "can connect"
        found.append(f"{signals} to abstract sockets{'' if rung == LANDLOCK else ', if it has the network'}")
    if not abi:
        devices = ", and open the devices that you can open" if rung == NAMESPACES else ""
        found.append(f"can start any program{devices}, as the kernel has no Landlock")
    elif abi < _MOVES_SINCE:
        found.append("cannot move files from one directory to another")
    return tuple(found)


class SandboxProbeError(Exception):
    """What the system allows cannot be found out now."""


def find_support(cache: Path) -> SystemSupport:
    """What was found since the last boot, or else what is found now. Blocks for some tens of milliseconds then.

    Raises SandboxProbeError.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(_file(cache).read_text())
        if found["rung"] in RUNGS:
            return SystemSupport(found["rung"], int(found["abi"]), dict(found["refused"]))
    support = probe()
    with suppress(OSError):  # it is found again by the next program
        remember_support(cache, support)
    return support


def remember_support(cache: Path, support: SystemSupport) -> None:
    """Have it found until the next boot."""
    file = _file(cache)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in file.parent.glob("*.json"):
        old.unlink(missing_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({"rung": support.rung, "abi": support.abi, "refused": dict(support.refused)}))
    partial.replace(file)


def forget_support(cache: Path) -> None:
    """Have it found out anew: a start has failed."""
    with suppress(OSError):
        _file(cache).unlink(missing_ok=True)


def probe() -> SystemSupport:
    """Try the rungs, the highest first. Raises SandboxProbeError if one fails for a reason that will pass.

    Otherwise a script that takes all processes for a moment would have the next workers run with fewer walls.
    """
    if sys.platform == "darwin":
        return SystemSupport(SEATBELT if shutil.which("sandbox-exec") else NONE)
    if sys.platform != "linux":
        return SystemSupport(NONE, refused={NAMESPACES: f"toolrun has no sandbox for {sys.platform}"})
    abi = landlock_abi()
    refused: dict[str, str] = {}
    for rung in (NAMESPACES, BUBBLEWRAP, LANDLOCK):
        reason = _try_until_certain(rung)
        if not reason:
            return SystemSupport(rung, abi, refused)
        refused[rung] = reason
    return SystemSupport(NONE, abi, refused)


def _try_until_certain(rung: str) -> str:
    """As `try_rung`. What a plan names may be gone a moment later, so a rung has more than one try."""
    for pause in _PAUSES:
        reason = try_rung(rung)
        if not reason or _LASTING.search(reason):
            return reason
        time.sleep(pause)
    if _PASSING.search(reason):
        raise SandboxProbeError(f"the sandbox '{rung}' cannot be tried: {reason}")
    return reason


def landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 if there is none."""
    import ctypes

    found: int = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE, None, 0, _ASK_FOR_ABI)
    return max(0, found)


def try_rung(rung: str) -> str:
    """Why a rung does not work; empty if it does."""
    abi = landlock_abi()
    if not abi and (rung == LANDLOCK or os.getuid() == 0):
        return "the kernel has no Landlock" + ("" if rung == LANDLOCK else ", which keeps root from its settings")
    if rung == BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    with tempfile.TemporaryDirectory(prefix="toolrun-probe-") as directory:
        project, temporary = Path(directory, "project"), Path(directory, "temporary")
        project.mkdir()
        temporary.mkdir()
        policy = _sample(project)
        program = ["--", sys.executable, "-I", "-S", "-c", "print('toolrun')"]
        command = worker_command(policy, rung, program, temporary)
        plan = worker_plan(policy, rung, abi, None, temporary)
        try:
            result = subprocess.run(
                command, input=plan, capture_output=True, timeout=_TIMEOUT, cwd=project, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if result.returncode == 0 and result.stdout == b"toolrun\n":
        return ""
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else f"it {describe_exit(result.returncode)}"


def _sample(project: Path) -> Policy:
    interpreter = Path(sys.executable)
    packages = interpreter_roots(interpreter)
    return make_policy(STANDARD, Permissions(), "", ProjectPaths(project), interpreter, packages)


def _file(cache: Path) -> Path:
    return cache / "sandbox" / f"{_key()}.json"


def _key() -> str:
    """Changes with whatever the result depends on."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    parts = (boot, __version__, str(os.getuid()), str(shutil.which("bwrap")), sys.executable)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
