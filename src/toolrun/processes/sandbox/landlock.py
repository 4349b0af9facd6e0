"""Landlock, the kernel's rules about files: which rights exist, and which of them a policy grants where. Pure.

A rule gives rights to everything below a path; what no rule names is refused. The kernel's version (ABI) says which
rights it knows: an unknown one is an error, and what it does not know it does not refuse.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from toolrun.json import JSON
from toolrun.processes.sandbox.policy import Policy, is_below

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_SCOPES: Final = 0b11
"""Signals and abstract sockets do not leave the sandbox."""
_READ: Final = _READ_FILE | _READ_DIR
_ALL: Final = (1 << 16) - 1 & ~(_MAKE_CHAR | _MAKE_BLOCK)
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_ADDED: Final = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""The rights that came later, by the ABI that brought them."""
_SCOPES_SINCE: Final = 6
_SIZES: Final = ((6, 24), (4, 16), (1, 8))
"""How large the attributes of a ruleset are, since which ABI."""

SYSTEM: Final = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/nix", "/gnu")
"""Programs and libraries."""
_READABLE: Final = (
    "/etc",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/var/lib/ca-certificates",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
)
_RESOLVERS: Final = ("/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf")
"""Where /etc/resolv.conf may lead to. Besides files there are sockets, which look up names for whoever connects."""
_LOADERS: Final = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)
"""What the kernel executes together with a program. One can name any readable program to it, so that `run` keeps order
among the programs of a tool; they all have the same walls."""
DEVICES: Final = ("/dev/null", "/dev/ptmx", "/dev/pts")


def rules(policy: Policy, abi: int, temporary: Path, hidden: Collection[Path] = ()) -> JSON:
    """The plan of `worker/sandbox.py` for Landlock. `hidden` is what nothing else hides, in what may not be written."""
    known = known_rights(abi)
    granted: dict[str, int] = {}
    for path, rights in _grants(policy, temporary, hidden):
        granted[str(path)] = granted.get(str(path), 0) | rights
    exposed = [str(path) for path in policy.exposed]
    found: list[JSON] = []
    for path, rights in granted.items():
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116  quick
        except OSError:
            continue  # as it is not there, nobody can use it
        is_exposed = any(is_below(path, root) for root in exposed)
        found.append([path, rights & known & (_ALL if is_directory else _OF_A_FILE), is_exposed])
    return {
        "size": next((size for since, size in _SIZES if abi >= since), 8),
        "files": known,
        "scopes": _SCOPES if abi >= _SCOPES_SINCE else 0,
        "rules": found,
    }


def readable_system(policy: Policy) -> tuple[str, ...]:
    """What of the system is read besides programs and libraries. Who has no network has nobody to ask for names."""
    return (*_READABLE, *_RESOLVERS) if policy.net is True else _READABLE


def known_rights(abi: int) -> int:
    """The rights that a kernel knows."""
    later = sum(right for since, right in _ADDED.items() if abi < since)
    return (1 << 16) - 1 & ~later


def _grants(policy: Policy, temporary: Path, hidden: Collection[Path]) -> Iterator[tuple[str | Path, int]]:
    run = _EXECUTE if policy.run is True else 0
    names = {str(path) for path in hidden}
    for path in _system():
        yield path, _READ | run
    for path in readable_system(policy):
        for part in _parts_without(path, names):
            yield part, _READ
    for path in DEVICES:
        yield path, _READ | _WRITE_FILE | _IOCTL_DEV
    for root in policy.read:
        others = names - {str(root)}  # a permission for what is hidden shows it
        for part in _parts_without(str(root), others):
            yield part, _READ | run
        if any(is_below(it, str(root)) for it in others):
            yield root, _READ_DIR  # names are no secret, and what is there later is seen by name only
    for program in (policy.program.resolve(), *(() if run else _LOADERS)):
        yield program, _READ | _EXECUTE
    for program in policy.run if isinstance(policy.run, tuple) else ():
        yield program, _READ | _EXECUTE
    for root in (*policy.write, temporary, Path("/dev/shm")):
        yield root, _ALL & ~_EXECUTE | run


@lru_cache(maxsize=1)
def _system() -> tuple[str, ...]:
    """Without links into what is in it anyway: /bin leads to /usr/bin on most systems. Each rule takes time."""
    is_link = os.path.islink
    return tuple(path for path in SYSTEM if not (is_link(path) and os.path.realpath(path).startswith("/usr/")))


def _parts_without(path: str, hidden: Collection[str]) -> Iterator[str]:
    """A directory, or what is in it apart from the hidden: no rule can take back what another one gives."""
    if path in hidden:
        return
    if not any(is_below(it, path) for it in hidden):
        yield path
        return
    for entry in sorted(os.listdir(path)):  # noqa: PTH208  quick
        part = f"{path.rstrip('/')}/{entry}"
        if not os.path.islink(part):  # noqa: PTH114  quick; rights belong to what it leads to
            yield from _parts_without(part, hidden)
