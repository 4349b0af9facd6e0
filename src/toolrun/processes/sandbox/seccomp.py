"""seccomp, the kernel's filter of system calls: the program that refuses what no tool needs. Pure.

Refused are calls that reach other processes, mounts, namespaces, kernel modules, clocks and the like, and calls by
which one could get around the other walls (io_uring opens sockets without `socket`). `clone3` is said not to exist,
because its flags are out of a filter's sight; the C library then takes `clone`. So is `openat2`, whose mode is out of
sight: no file may become one that runs with the rights of its owner (set-user-ID), since whoever starts it would run
the script's code outside of the walls. A level without network refuses sockets except those of Unix, which need no
network; the others also have those of netlink that tell addresses and routes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_EPERM, _EACCES, _ENOSYS, _EAFNOSUPPORT = 1, 13, 38, 97
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40
"""Offsets in what a filter sees of a call: its number, the machine, its arguments (the lower half of each)."""
_NEW_NAMESPACES: Final = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ROUTE = 0
_SET_USER_ID = 0o4000
_AT_A_TIME: Final = 8

_Instruction: TypeAlias = tuple[int, int, int, int]
"""What to do, how far to jump if it is so, and if not, and with which number."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """A processor architecture: its name for the kernel, and the numbers of the calls in question."""

    name: int
    refused: tuple[int, ...]
    clone: int
    clone3: int
    ioctl: int
    socket: int
    socketpair: int
    truncate: int
    modes: tuple[tuple[int, int], ...]
    """Calls that give a file its mode, and where the mode is."""
    highest: int | None = None
    """Numbers from here on belong to another interface (x32)."""


_NEWER: Final = (*range(425, 434), 438, 440, 442, 447, 467)
"""The same numbers everywhere: io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount, fsopen,
fsconfig, fsmount, fspick, pidfd_getfd, process_madvise, mount_setattr, memfd_secret, open_tree_attr."""
_OPENAT2: Final = 437
_FCHMODAT2: Final = (452, _THIRD)

# ptrace, process_vm_readv, process_vm_writev, kcmp, mount, umount2, pivot_root, chroot, unshare, setns, kexec_load,
# kexec_file_load, init_module, finit_module, delete_module, reboot, bpf, perf_event_open, userfaultfd, add_key,
# request_key, keyctl, open_by_handle_at, swapon, swapoff, settimeofday, clock_settime, adjtimex,
# clock_adjtime, acct, iopl, ioperm, move_pages, migrate_pages, quotactl, syslog, sethostname, setdomainname, vhangup,
# fanotify_init, lookup_dcookie, nfsservctl
_X86_64: Final = _Machine(
    name=0xC000003E,
    refused=(
        *(101, 310, 311, 312, 165, 166, 155, 161, 272, 308, 246, 320, 175, 313, 176, 169, 321, 298, 323, 248, 249, 250),
        *(304, 167, 168, 164, 227, 159, 305, 163, 172, 173, 279, 256, 179, 103, 170, 171, 153, 300, 212, 180),
    ),
    clone=56,
    clone3=435,
    ioctl=16,
    socket=41,
    socketpair=53,
    truncate=76,
    # open, creat, chmod, fchmod, mknod, openat, mknodat, fchmodat
    modes=(
        *((2, _THIRD), (85, _SECOND), (90, _SECOND), (91, _SECOND), (133, _SECOND)),
        *((257, _FOURTH), (259, _THIRD), (268, _THIRD), _FCHMODAT2),
    ),
    highest=0x40000000,
)
_AARCH64: Final = _Machine(
    name=0xC00000B7,
    refused=(
        *(117, 270, 271, 272, 40, 39, 41, 51, 97, 268, 104, 294, 105, 273, 106, 142, 280, 241, 282, 217, 218, 219),
        *(265, 224, 225, 170, 112, 171, 266, 89, 239, 238, 60, 116, 161, 162, 58, 262, 18, 42),
    ),
    clone=220,
    clone3=435,
    ioctl=29,
    socket=198,
    socketpair=199,
    truncate=45,
    modes=((33, _THIRD), (52, _SECOND), (53, _THIRD), (56, _FOURTH), _FCHMODAT2),  # mknodat, fchmod, fchmodat, openat
)
_MACHINES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}


def is_known(machine: str) -> bool:
    """Whether there is a program for this architecture, as `os.uname` names it."""
    return machine in _MACHINES


def program(machine: str, *, has_network: bool, refuses_truncate: bool) -> bytes:
    """The filter. `refuses_truncate`: the kernel's Landlock does not know that right."""
    known = _MACHINES[machine]
    refused = {*_NEWER, *known.refused, *([known.truncate] if refuses_truncate else [])}
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, known.name),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if known.highest is not None:
        code += [(_AT_LEAST, 0, 1, known.highest), (_RETURN, 0, 0, _ERROR | _EPERM)]
    for number, place in known.modes:
        code += _if_call(number, [(_LOAD, 0, 0, place), (_ANY_BIT, 0, 1, _SET_USER_ID), _error(_EPERM)])
    code += [(_EQUAL, 1, 0, known.clone3), (_EQUAL, 0, 1, _OPENAT2), _error(_ENOSYS)]
    code += _refuse(sorted(refused))
    code += _if_call(known.clone, [(_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(_EPERM)])
    code += _if_call(known.ioctl, [(_LOAD, 0, 0, _SECOND), *_refuse([_TIOCSTI, _TIOCLINUX])])
    families = (_UNIX, _INET, _INET6) if has_network else (_UNIX,)
    error = _EAFNOSUPPORT if has_network else _EACCES
    netlink = [(_EQUAL, 0, 3, _NETLINK), (_LOAD, 0, 0, _THIRD), (_EQUAL, 0, 1, _ROUTE), (_RETURN, 0, 0, _ALLOW)]
    for number in (known.socket, known.socketpair):
        steps = [(_LOAD, 0, 0, _FIRST), *_allow(families), *(netlink if has_network else []), _error(error)]
        code += _if_call(number, steps)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _error(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERROR | number)


def _refuse(values: Sequence[int]) -> list[_Instruction]:
    """An error for these values, in ascending order. One at a time they would be compared with every system call."""
    if len(values) > _AT_A_TIME:
        middle = len(values) // 2
        lower, upper = _refuse(values[:middle]), _refuse(values[middle:])
        return [(_AT_LEAST, len(lower) + 1, 0, values[middle]), *lower, (_JUMP, 0, 0, len(upper)), *upper]
    *others, last = values
    jumps = [(_EQUAL, len(others) - index, 0, value) for index, value in enumerate(others)]
    return [*jumps, (_EQUAL, 0, 1, last), _error(_EPERM)]


def _allow(values: tuple[int, ...]) -> list[_Instruction]:
    return [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]


def _if_call(number: int, steps: list[_Instruction]) -> list[_Instruction]:
    """Steps for one system call. They see the argument that they loaded; afterwards the number is loaded again."""
    return [(_EQUAL, 0, len(steps) + 1, number), *steps, (_RETURN, 0, 0, _ALLOW)]
