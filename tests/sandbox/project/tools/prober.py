# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""System calls that no tool needs, made as a program in C would make them: each function says how far it got.

All of them have arguments with which they would do nothing. For x86-64.
"""

import ctypes
import errno
import mmap
import os
import socket
import sys
import time
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_CALLS = {
    **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438},
    **{"process_madvise": 440, "move_pages": 279, "migrate_pages": 256, "perf_event_open": 298, "bpf": 321},
    **{"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428, "move_mount": 429},
    **{"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "open_tree_attr": 467},
    **{"unshare": 272, "setns": 308, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250, "memfd_secret": 447},
    **{"open_by_handle_at": 304, "fanotify_init": 300, "quotactl": 179, "syslog": 103, "acct": 163, "vhangup": 153},
    **{"init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320},
    **{"swapon": 167, "swapoff": 168, "iopl": 172, "ioperm": 173, "sethostname": 170, "setdomainname": 171},
    **{"settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "reboot": 169},
    **{"clone3": 435, "openat2": 437, "x32": 0x40000000 | 39},
}


def _call(number: int, *arguments: object) -> str:
    ctypes.set_errno(0)
    done = _libc.syscall(ctypes.c_long(number), *arguments)
    return "ok" if done >= 0 else errno.errorcode[ctypes.get_errno()]


def calls() -> dict[str, str]:
    """Calls that reach other processes, mounts, namespaces and the kernel. -1 is no address and no descriptor."""
    nothing = [ctypes.c_long(-1)] * 6
    return {name: _call(number, *nothing) for name, number in _CALLS.items()}


def namespaces() -> dict[str, str]:
    """New namespaces, also with flags that only the upper half of a number has beside them."""
    found = {}
    for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        found[f"unshare {flag:x}"] = _call(272, ctypes.c_ulong(flag))
        if flag != 0x80:  # a signal, for clone
            # With CLONE_SIGHAND and without CLONE_VM, which the kernel refuses later: with EINVAL.
            found[f"clone {flag:x}"] = _call(56, ctypes.c_ulong(1 << 32 | 0x800 | flag), 0, 0, 0, 0)
    return found


def other_architecture() -> int:
    """Ask for the process number as a program for 32 bits does. How a child that tries it ends."""
    child = os.fork()
    if child == 0:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def families() -> list[int]:
    """The families of sockets that can be made, by their numbers; also with bits in the upper half."""
    found = set()
    for family in range(1, 46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            for more in (0, 1 << 32):
                made = _libc.syscall(ctypes.c_long(41), ctypes.c_ulong(more | family), kind, 0)
                if made >= 0:
                    os.close(made)
                    found.add(family)
    return sorted(found)


def typing() -> dict[str, str]:
    """Type into a terminal: with no descriptor of one, which would be the error otherwise."""
    letter = ctypes.create_string_buffer(b"x")
    return {
        "TIOCSTI": _call(16, -1, ctypes.c_ulong(0x5412), letter),
        "TIOCSTI with more bits": _call(16, -1, ctypes.c_ulong(1 << 32 | 0x5412), letter),
        "TIOCLINUX": _call(16, -1, ctypes.c_ulong(0x541C), letter),
    }


def opened(paths: list[str], flags: int) -> dict[str, str]:
    """Open files of the kernel and devices."""
    found = {}
    for path in paths:
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
            found[path] = "ok"
        except OSError as error:
            found[path] = errno.errorcode[error.errno or 0]
    return found


def begun() -> dict[str, str]:
    """What files of the environment have seen when they were run."""
    return getattr(sys, "seen_at_start", {})


def orphans(count: int) -> int:
    """Leave processes behind that have ended. How many of them nobody has buried."""
    for _ in range(count):
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.waitpid(child, 0)
    end = time.monotonic() + 10
    while (left := _ended()) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def _ended() -> int:
    """Processes of this one's session that are no more than a number."""
    own, found = os.getsid(0), 0
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        found += state == "Z" and int(session) == own
    return found
