"""A policy as a profile for `sandbox-exec` of macOS. Pure. Nobody has tested it: it follows the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolrun.processes.sandbox.policy import Policy

_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/opt", "/System", "/Library", "/private/etc", "/private/var/db", "/etc", "/dev"),
    *("/Applications/Xcode.app", "/private/var/select", "/var/select"),
)


def profile(policy: Policy, temporary: Path) -> str:
    """The profile. What no line allows is refused; the last line that fits decides."""
    return "\n".join(_lines(policy, temporary))


def _lines(policy: Policy, temporary: Path) -> Iterator[str]:
    yield "(version 1)"
    yield "(deny default)"
    yield "(allow process-fork sysctl-read mach-lookup ipc-posix-shm ipc-posix-sem signal (target same-sandbox))"
    yield '(allow file-read-metadata (subpath "/"))'
    yield f"(allow file-read* {_paths((*map(Path, _SYSTEM), *policy.read, *policy.write, temporary))})"
    devices = map(Path, ("/dev/null", "/dev/tty", "/dev/dtracehelper"))
    yield f"(allow file-write* {_paths((*policy.write, temporary, *devices))})"
    for path in policy.protected:
        yield f"(deny file-write* {_paths((path,))})"
    for path in policy.hidden:
        yield f"(deny file-read* file-write* {_paths((path,))})"
    if policy.net is True:
        yield "(allow network*)"
    if policy.run is True:
        yield "(allow process-exec*)"
    else:
        programs = policy.run if isinstance(policy.run, tuple) else ()
        yield f"(allow process-exec* {_paths((policy.program, policy.program.resolve(), *programs))})"


def _paths(paths: tuple[Path, ...]) -> str:
    return " ".join(f'(subpath "{_quoted(path)}")' for path in dict.fromkeys(paths))


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')
