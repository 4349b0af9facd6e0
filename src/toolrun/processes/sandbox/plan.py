"""A policy as the plan that `worker/sandbox.py` carries out: mounts, Landlock rules, a filter of system calls.

Pure, apart from a look at what a path is. The steps on mounts are for the namespaces rung: everything becomes
read-only, the home and other places are covered with empty directories, and what the policy allows is put back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from toolrun.json import JSON
from toolrun.processes.sandbox import landlock, seccomp
from toolrun.processes.sandbox.policy import OFF, Policy, is_below

Plan: TypeAlias = dict[str, JSON]

_NEWNS, _NEWUSER, _NEWPID, _NEWIPC, _NEWNET = 0x20000, 0x10000000, 0x20000000, 0x08000000, 0x40000000
TEMPORARY: Final = Path("/tmp")
_SCOPES_SINCE: Final = 6
_TRUNCATE_SINCE: Final = 3
_KERNEL: Final = ("/dev", "/etc", "/proc", "/sys")
"""What else of the root of the file system is seen, as far as Landlock lets it be read."""
_COVERED: Final = ("/run", "/dev/shm")
"""Sockets of services and of other programs; memory that is shared with other programs."""


def bare_plan(memory: int | None = None) -> Plan:
    """No walls; but what the process starts ends with it."""
    return {
        "memory": memory,
        "supervised": True,
        "namespaces": 0,
        "mounts": [],
        "directory": "",
        "variables": {},
        "late": {},
        "landlock": None,
        "seccomp": "",
        "policy": None,
    }


def make_plan(
    policy: Policy, abi: int, temporary: Path, memory: int | None, *, has_namespaces: bool, is_hiding: bool
) -> Plan:
    """The plan for a kernel with this ABI of Landlock. `is_hiding`: mounts hide what is hidden, whoever makes them."""
    if policy.level == OFF:
        return bare_plan(memory)
    inside = TEMPORARY if has_namespaces else temporary
    covered = _covered(policy) if has_namespaces else []
    return bare_plan(memory) | {
        "namespaces": _namespaces(policy, abi) if has_namespaces else 0,
        "mounts": list(_mounts(policy, temporary, covered)) if has_namespaces else [],
        "directory": str(policy.directory),
        "variables": {"TMPDIR": str(inside), **({} if has_namespaces else _git_variables(policy))},
        "landlock": landlock.rules(policy, abi, inside, () if is_hiding else policy.hidden) if abi else None,
        "seccomp": filter_program(policy, abi).hex(),
        "policy": about(policy, inside, covered, has_proxy=has_namespaces),
    }


def _git_variables(policy: Policy) -> dict[str, JSON]:
    """git gives up at a configuration that is there and cannot be read. In a namespace it is not there."""
    is_readable = _is_below(str(policy.home / ".gitconfig"), map(str, (*policy.read, *policy.write)))
    return {} if is_readable else {"GIT_CONFIG_GLOBAL": os.devnull}


def filter_program(policy: Policy, abi: int) -> bytes:
    """The filter of system calls; empty for a machine that there is none for."""
    machine = os.uname().machine
    if not seccomp.is_known(machine):
        return b""
    return _program(machine, has_network=policy.net is not False, refuses_truncate=abi < _TRUNCATE_SINCE)


_program = lru_cache(seccomp.program)


def about(policy: Policy, temporary: Path, covered: Iterable[str | Path] = (), *, has_proxy: bool = False) -> JSON:
    """What `worker/denial.py` needs to explain to a person why something was refused.

    `covered` are the places that look empty. `has_proxy`: `net` may list hosts here.
    """
    return {
        "section": policy.section,
        "given": {key: list(getattr(policy.given, key)) for key in ("read", "write", "env")},
        "level": policy.level,
        "read": [*map(str, policy.read), *landlock.SYSTEM, *landlock.readable_system(policy)],
        "write": [*map(str, policy.write), str(temporary), *landlock.DEVICES],
        "hidden": [str(path) for path in policy.hidden],
        "protected": [str(path) for path in policy.protected],
        "covered": [str(path) for path in covered],
        "home": str(policy.home),
        "net": bool(policy.net),
        "hosts": list(policy.net) if isinstance(policy.net, tuple) else None,
        "has_proxy": has_proxy,
        "run": policy.run is True,
        "programs": [str(path) for path in policy.run] if isinstance(policy.run, tuple) else [],
    }


def _namespaces(policy: Policy, abi: int) -> int:
    """A network of its own for a process that may reach some hosts; or none, if the kernel does not scope sockets."""
    needs_own_network = isinstance(policy.net, tuple) or (policy.net is False and abi < _SCOPES_SINCE)
    return _NEWUSER | _NEWNS | _NEWPID | _NEWIPC | (_NEWNET if needs_own_network else 0)


def _covered(policy: Policy) -> list[Path]:
    """What looks empty, apart from what is put back. The last one is where temporary files are."""
    if Path("/") in policy.write:
        return [TEMPORARY]
    is_project = _is_below(str(policy.home), map(str, policy.write + policy.read))
    home = [] if is_project else [policy.home]
    return [*([] if Path("/") in policy.read else _foreign()), *home, *map(Path, _COVERED), TEMPORARY]


def _foreign() -> Iterator[Path]:
    """What is in the root of the file system and not the system's: homes, data, /var. There are sockets in it, too."""
    kept = (*landlock.SYSTEM, *_KERNEL, *_COVERED, str(TEMPORARY))
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.path not in kept and entry.is_dir(follow_symlinks=False) and not _is_empty(entry.path):
                yield Path(entry.path)


def _is_empty(path: str) -> bool:
    """Each mount takes time. Nothing is mounted there later: mounts of others do not come into a namespace."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _mounts(policy: Policy, temporary: Path, places: Iterable[Path]) -> Iterator[JSON]:
    covered = [str(path) for path in places]
    granted = {str(path) for path in (*policy.read, *policy.write)}
    writable = {str(path): None for path in policy.write if path != Path("/")}
    readable = {
        path: None
        for path in _existing((*map(str, policy.read), *landlock.readable_system(policy)))
        if _is_below(path, (*covered, *writable, *map(str, policy.hidden)))
    }
    yield ["own mounts"]
    exposed = [str(path) for path in policy.exposed]
    for path in (*writable, *readable):
        yield ["keep", path, _is_below(path, exposed)]
    yield ["keep", str(temporary), False]
    if Path("/") not in policy.write:
        yield ["read-only", "/"]
        yield ["terminals", "/dev/pts", "/dev/ptmx"]
    yield ["proc", "/proc"]
    for path in covered[:-1]:
        yield ["cover", path]
    yield ["put back", str(temporary), str(TEMPORARY), True]
    if needs_stand_in(policy, covered):
        yield ["stand in", str(policy.directory)]
    protected = {
        path for path in _existing(map(str, policy.protected)) if path not in writable and _is_below(path, writable)
    }
    hidden = set(_existing(map(str, policy.hidden)))
    # A directory before what is in it, also where a sibling's name goes on with a sign that is before the slash.
    for path in sorted({*hidden, *protected, *writable, *readable}, key=lambda path: path.split("/")):
        if path in hidden:
            yield ["cover" if os.path.isdir(path) else "mask", path]  # noqa: PTH112  quick
        elif path in protected:
            yield ["keep", path, True]
        if path not in hidden or path in granted:
            yield ["put back", path, path, path in writable]
    for target, link in _links(map(str, policy.read), covered):
        yield ["link", target, link]


def needs_stand_in(policy: Policy, covered: Iterable[str]) -> bool:
    """Whether an empty directory takes the place of the working directory, which is not to be seen and must be there.

    One in which something else is put back is there anyway.
    """
    directory, granted = str(policy.directory), [str(path) for path in (*policy.read, *policy.write)]
    is_there = _is_below(directory, granted) or any(is_below(path, directory) for path in (*granted, *covered))
    return not is_there and _is_below(directory, covered)


def pinned(policy: Policy) -> list[Path]:
    """The directories between what may be written and what in it may not: to be mounted, so that none can be moved.

    What is mounted at `.git/config` moves with `.git`, and something else could then be put in its place.
    """
    apart = [str(path) for path in (*policy.hidden, *policy.protected, *policy.read)]
    roots = [str(path) for path in policy.write if path != Path("/")]
    found = {
        parent
        for path in _existing(map(str, (*policy.hidden, *policy.protected)))
        for root in roots
        if is_below(path, root)
        for parent in _parents(path, root)
        if not _is_below(parent, apart)
    }
    return [Path(path) for path in sorted(found - {*roots})]


def _parents(path: str, root: str) -> Iterator[str]:
    """The directories around a path, up to `root`, in which it is."""
    while path != root:
        path = path.rpartition("/")[0]
        yield path


def _is_below(path: str, roots: Iterable[str]) -> bool:
    for root in roots:  # noqa: SIM110  a generator would take twice as long, and this is asked often at each start
        if is_below(path, root):
            return True
    return False


def _links(roots: Iterable[str], covered: list[str]) -> Iterator[tuple[str, str]]:
    """Roots that are symbolic links in covered places: uv keeps an installation under such a name, too."""
    for root in roots:
        if _is_below(root, covered) and os.path.islink(root):  # noqa: PTH114  quick
            yield os.readlink(root), root  # noqa: PTH115  as it is, not resolved


def _existing(paths: Iterable[str]) -> Iterator[str]:
    """Those that exist, apart from symbolic links."""
    for path in paths:
        try:
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                yield path
        except OSError:
            continue
