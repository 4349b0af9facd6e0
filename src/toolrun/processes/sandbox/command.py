"""The command that starts a process behind walls: the worker's interpreter, or bubblewrap in front of it.

The plan is not part of it, apart from what bubblewrap needs to know, but is the first thing in the process's input: so
it is made while the interpreter starts, it may be of any length, and no list of processes shows it.

The walls are put up by `worker/sandbox.py`, which the interpreter runs first: with `-S`, so that the `.pth` files and
`sitecustomize` of an environment, which anybody may have written who could write to it, run behind them. A wrapper
would need an interpreter of its own, and take as long again as the start of the worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from toolrun.json import dumps
from toolrun.processes.sandbox import landlock
from toolrun.processes.sandbox.imported_files import imported_files
from toolrun.processes.sandbox.plan import TEMPORARY, Plan, about, bare_plan, make_plan, needs_stand_in, pinned
from toolrun.processes.sandbox.policy import OFF, Policy
from toolrun.processes.sandbox.private_files import private_files
from toolrun.worker import DIRECTORY

_MAIN: Final = f"{DIRECTORY}/__main__.py"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def worker_command(policy: Policy, rung: str, arguments: Sequence[str], temporary: Path | None) -> list[str]:
    """Start `policy.program`, an interpreter, with these arguments for the worker."""
    command = [str(policy.program), "-S", _MAIN]
    if rung == "sandbox-exec":
        from toolrun.processes.sandbox.mac_profile import profile

        return ["sandbox-exec", "-p", profile(_own(policy), _place(temporary)), *command, *arguments]
    command += ["--sandbox", *arguments]
    if rung == "bubblewrap" and policy.level != OFF:
        return [*_bubblewrap(_pinned(_own(policy)), _place(temporary)), "--", *command]
    return command


def worker_plan(
    policy: Policy,
    rung: str,
    abi: int,
    memory: int | None,
    temporary: Path | None,
    variables: Mapping[str, str] = _NONE,
) -> bytes:
    """What that worker reads first: how many bytes follow, and the plan. It gets the variables behind its walls."""
    if rung == "sandbox-exec":
        return b""
    made = _make_plan(policy, rung, abi, memory, temporary)
    plan = dumps(made | {"late": dict(variables)})
    return b"%08d" % len(plan) + plan


def covered_paths(policy: Policy) -> tuple[Path, ...]:
    """What is hidden or protected by mounts: replaced by somebody outside, it is neither any more."""
    return (*policy.hidden, *policy.protected, *_imported(policy), *private_files())


def _make_plan(policy: Policy, rung: str, abi: int, memory: int | None, temporary: Path | None) -> Plan:
    if rung == "none" or policy.level == OFF:
        return bare_plan(memory)
    policy = _own(policy)
    if rung == "bubblewrap":
        policy = _pinned(policy)
        plan = make_plan(policy, abi, TEMPORARY, memory, has_namespaces=False, is_hiding=True)
        return plan | {"supervised": False, "policy": about(policy, TEMPORARY, ["/", TEMPORARY])}
    has_namespaces = rung == "namespaces"
    policy = _pinned(policy) if has_namespaces else policy
    return make_plan(policy, abi, _place(temporary), memory, has_namespaces=has_namespaces, is_hiding=has_namespaces)


def _own(policy: Policy) -> Policy:
    """With the worker's own modules, without what the system keeps from everybody but root and without changes to ours.

    For a plan the latter two are looked for while the interpreter starts, which takes longer.
    """
    return replace(
        policy,
        read=(*policy.read, Path(DIRECTORY)),
        hidden=(*policy.hidden, *private_files()),
        protected=(*policy.protected, *_imported(policy)),
    )


def _imported(policy: Policy) -> tuple[Path, ...]:
    """What this program has imported out of the project. `exposed` begins with that."""
    return imported_files(policy.exposed[0], policy.protected) if policy.exposed else ()


def _pinned(policy: Policy) -> Policy:
    return replace(policy, write=(*policy.write, *pinned(policy)))


def _place(temporary: Path | None) -> Path:
    assert temporary is not None, "every rung with walls has a temporary directory"
    return temporary


def _bubblewrap(policy: Policy, temporary: Path) -> Iterator[str]:
    """The walls of the namespaces rung in the words of bubblewrap."""
    yield from ("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--disable-userns")
    yield from ("--cap-drop", "ALL")
    if policy.net is False:
        yield "--unshare-net"
    yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm")
    for name in _LINKS:
        if os.path.islink(f"/{name}"):  # noqa: PTH114  short
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")  # noqa: PTH115  as it is, not resolved
        elif os.path.isdir(f"/{name}"):  # noqa: PTH112  short
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for name in ("/opt", "/nix", "/gnu", *landlock.readable_system(policy)):
        if not name.startswith(("/proc", "/dev")):
            yield from ("--ro-bind-try", name, name)
    yield from ("--bind", str(temporary), str(TEMPORARY))
    if needs_stand_in(policy, [str(TEMPORARY)]):
        yield from ("--tmpfs", str(policy.directory), "--remount-ro", str(policy.directory))
    else:
        yield from ("--dir", str(policy.directory))
    for path in sorted({*policy.read, *policy.write, *policy.hidden, *policy.protected} - {Path("/")}):
        yield from _bind(path, policy)  # a directory before what is in it
    yield from ("--remount-ro", "/", "--chdir", str(policy.directory))


def _bind(path: Path, policy: Policy) -> Iterator[str]:
    if path in policy.hidden:
        if path.is_dir():
            yield from ("--tmpfs", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))
    if path in policy.write:
        yield from ("--bind-try", str(path), str(path))
    elif path in policy.read and path.is_symlink():
        yield from ("--symlink", os.readlink(path), str(path))  # noqa: PTH115  as above
    elif path in policy.read or (path in policy.protected and any(map(path.is_relative_to, policy.write))):
        yield from ("--ro-bind-try", str(path), str(path))
