"""What the filter of system calls says to each of them, found by running the program as the kernel does."""

from __future__ import annotations

import errno
import struct

import pytest

from toolrun.processes.sandbox import seccomp

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}
IOCTL = {"x86_64": 16, "aarch64": 29}
FCHMOD = {"x86_64": 91, "aarch64": 52}
NEVER = {
    "x86_64": (
        *(101, 103, 153, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 180, 212),
        *(227, 246, 248, 249, 250, 256, 272, 279, 298, 300, 304, 305, 308, 310, 311, 312, 313, 320, 321, 323),
    ),
    "aarch64": (
        *(18, 39, 40, 41, 42, 51, 58, 60, 89, 97, 104, 105, 106, 112, 116, 117, 142, 161, 162, 170, 171),
        *(217, 218, 219, 224, 225, 238, 239, 241, 262, 265, 266, 268, 270, 271, 272, 273, 280, 282, 294),
    ),
}
"""ptrace, mounts, chroot, unshare, setns, keys, perf, fanotify, handles, memory of others, bpf, userfaultfd, modules,
kexec, swap, clocks, names of the machine, ports, quotas, the log of the kernel."""
NEWER = (*range(425, 434), 438, 440, 442, 447, 467)
"""io_uring, the newer calls for mounts, pidfd_getfd, process_madvise, memfd_secret."""
MACHINE = pytest.mark.parametrize("machine", MACHINES)


def judge(
    machine: str, number: int, *arguments: int, name: int = 0, has_network: bool = True, refuses_truncate: bool = False
) -> int:
    """What the kernel does with a call: ALLOWED, KILLED, or the number of an error."""
    program = seccomp.program(machine, has_network=has_network, refuses_truncate=refuses_truncate)
    code = list(struct.iter_unpack("=HBBI", program))
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, name or MACHINES[machine], 0, *values)
    loaded = place = 0
    while True:
        kind, if_so, if_not, value = code[place]
        place += 1
        if kind == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif kind == 0x05:
            place += value
        elif kind == 0x06:
            return int(value if value in (ALLOWED, KILLED) else value & 0xFFFF)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            place += if_so if holds else if_not


@MACHINE
def test_exactly_the_listed_calls_are_refused(machine: str) -> None:
    known = seccomp._MACHINES[machine]
    for number in range(600):
        expected = ALLOWED
        if number in (known.clone3, 437):
            expected = errno.ENOSYS
        elif number in NEVER[machine] or number in NEWER:
            expected = errno.EPERM
        elif number in (known.socket, known.socketpair):
            expected = errno.EAFNOSUPPORT  # of family 0
        assert judge(machine, number) == expected, number


@MACHINE
def test_a_call_of_another_architecture_ends_the_process(machine: str) -> None:
    assert judge(machine, 0, name=0x40000003) == KILLED


def test_calls_of_x32_are_refused() -> None:
    assert judge("x86_64", 0x40000000 | 59) == errno.EPERM


@MACHINE
@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_is_made_by_clone(machine: str, flag: int) -> None:
    assert judge(machine, CLONE[machine], flag | 17) == errno.EPERM
    assert judge(machine, CLONE[machine], 0x003D0F00) == ALLOWED, "a thread"


@MACHINE
def test_nothing_is_typed_into_a_terminal(machine: str) -> None:
    assert [judge(machine, IOCTL[machine], 0, it) for it in (0x5412, 0x541C)] == [errno.EPERM] * 2
    assert judge(machine, IOCTL[machine], 0, 0x5413) == ALLOWED


@MACHINE
def test_sockets_are_those_that_a_level_has(machine: str) -> None:
    number = SOCKET[machine]
    assert [judge(machine, number, family) for family in (1, 2, 10)] == [ALLOWED] * 3
    assert [judge(machine, number, 16, 3, protocol) for protocol in (0, 9)] == [ALLOWED, errno.EAFNOSUPPORT]
    assert [judge(machine, number, family) for family in (17, 38, 40)] == [errno.EAFNOSUPPORT] * 3
    assert judge(machine, number, 1, has_network=False) == ALLOWED
    assert [judge(machine, number, family, has_network=False) for family in (2, 10, 16, 17)] == [errno.EACCES] * 4


@MACHINE
def test_no_file_gets_the_rights_of_its_owner(machine: str) -> None:
    assert judge(machine, FCHMOD[machine], 3, 0o4755) == errno.EPERM
    assert judge(machine, FCHMOD[machine], 3, 0o2755) == ALLOWED


@MACHINE
def test_files_are_not_cut_where_landlock_does_not_know_of_that(machine: str) -> None:
    number = {"x86_64": 76, "aarch64": 45}[machine]
    assert judge(machine, number) == ALLOWED
    assert judge(machine, number, refuses_truncate=True) == errno.EPERM
