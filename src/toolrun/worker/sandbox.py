"""Puts this process behind walls, before anything of the script or of its environment runs.

Carries out a plan that the host made (`processes/sandbox/plan.py`), and decides nothing. Standard library only, Python
3.9 or newer; imports as little as possible, because it runs at every start. All of it happens to this process itself,
while it has one thread: nothing is left to do for the host, which could not do it without a second interpreter.

The process that the host has started, *outer*, stays outside and waits. With a PID namespace it starts two children:
the first is PID 1 there, which only waits, because the kernel ends everything in a namespace with its PID 1 and gives
it the orphans; the second is the worker. They are siblings because signals to PID 1 are ignored, and because outer then
knows exactly how the worker ended, and ends in the same way. PID 1 also makes the mounts, in a namespace that the
worker joins: meanwhile the worker imports modules of ours and of the standard library. Without a PID namespace, outer
is the subreaper: the orphans of the worker become its children, and it kills them until it has none.

The order matters: namespaces, forks, mounts, capabilities, Landlock (after which nothing can be mounted), seccomp last.
"""

from __future__ import annotations

import errno
import os
import sys
from _ctypes import call_function, dlopen, dlsym
from _signal import (  # type: ignore[import-not-found]  # importing `signal` takes 4 ms, for its enums
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGTERM,
    pause,
    signal,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWNET = 0x20000, 0x20000000, 0x40000000
_SECCOMP_MODE_FILTER = 2
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442  # the same everywhere, as are the next three
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 4
_RESOLVE_NO_SYMLINKS = 4
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 1 << 18
_READ_ONLY = 1
_CAPABILITIES = 0x20080522
_MOUNTED = b"\n"

_program = dlopen(None, 0)  # type: ignore[arg-type]  # None is what ctypes itself passes


policy: dict[str, Any] | None = None
"""What this process may do, for `denial.py`. None: there are no walls."""


class SandboxError(Exception):
    """The walls cannot be put up."""


def enter(plan: dict[str, Any], prepare: Callable[[], object]) -> None:
    """Return in the process that the plan allows to go on; the one that called this waits for its end, and ends.

    `prepare` is done outside of the walls, while another process builds some of them.
    """
    global policy
    policy = plan["policy"]
    if plan["memory"]:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (plan["memory"], plan["memory"]))
    namespaces = plan["namespaces"]
    if namespaces:
        _unshare(namespaces & ~_CLONE_NEWNS)
    if plan["supervised"]:
        _leave_outer_behind(plan["mounts"] if namespaces & _CLONE_NEWPID else None, prepare)
    if namespaces & _CLONE_NEWNET:
        _open_network()
    if plan["directory"]:
        os.chdir(plan["directory"])
    os.environ.update(plan["variables"])
    if plan["landlock"] or plan["seccomp"]:
        _drop_capabilities()
    if plan["landlock"]:
        _landlock(**plan["landlock"])
    if plan["seccomp"]:
        _seccomp(bytes.fromhex(plan["seccomp"]))
    # As Python itself would have done, had it been safe to start with them.
    os.environ.update(plan["late"])
    sys.path[:0] = [path for path in plan["late"].get("PYTHONPATH", "").split(os.pathsep) if path]


def _leave_outer_behind(mounts: list[list[Any]] | None, prepare: Callable[[], object]) -> None:
    """Go on in a child, for which this process waits. None: it is not in a PID namespace."""
    # Before the forks: what one process imports after them is memory that it shares with no other, page by page.
    from .supervise import supervise

    host, outer, init, mounted = os.getppid(), os.getpid(), 0, -1
    if mounts is None:
        _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    else:
        init, mounted = _start_init(mounts)
    worker = os.fork()
    if worker:
        for number in (SIGTERM, SIGINT, SIGHUP):
            signal(number, SIG_IGN)
        supervise(worker, init, host, _call)
    _die_with(0 if init else outer)
    prepare()
    if mounts is not None:
        _join_mounts(mounted)


def _join_mounts(mounted: int) -> None:
    """Go on in the file system that PID 1 has made, once it says so."""
    problem = os.read(mounted, 4096)
    if problem != _MOUNTED:
        raise SandboxError(problem.decode() or "PID 1 of the namespace has ended")
    os.close(mounted)
    init = os.pidfd_open(1)
    _call("setns", init, _CLONE_NEWNS)
    os.close(init)


def _unshare(namespaces: int) -> None:
    """New namespaces, with this user in them under its own number, and nobody else."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", namespaces)
    for name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        _write(f"/proc/self/{name}", content)


def _start_init(mounts: list[list[Any]]) -> tuple[int, int]:
    """PID 1 of the new namespace, and a descriptor from which to read how its mounts went.

    Its orphans are reaped by the kernel, as it ignores their end.
    """
    mounted, report = os.pipe()
    init = os.fork()
    if init:
        os.close(report)
        return init, mounted
    try:
        _die_with(0)
        signal(SIGCHLD, SIG_IGN)
        signal(SIGINT, SIG_DFL)  # which means for PID 1 that it is ignored
        os.write(report, _mount(mounts))
        os.closerange(0, 256)
        while True:
            pause()
    finally:
        os._exit(1)


def _mount(mounts: list[list[Any]]) -> bytes:
    """What went wrong, if anything."""
    try:
        _call("unshare", _CLONE_NEWNS)
        for name, *details in mounts:
            _STEPS[name](*details)
    except Exception as error:  # noqa: BLE001  the worker raises it
        return str(error).encode("utf-8", "replace") or b"it cannot be mounted"
    return _MOUNTED


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. A parent outside of the PID namespace is 0."""
    _call("prctl", _PR_SET_PDEATHSIG, int(SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


# What a plan does with the file system.


def _own_mounts() -> None:
    """What is mounted from now on is seen by nobody else."""
    _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


_kept: dict[str, int] = {}
"""Directories and files that are about to be covered, by their path."""


def _keep(path: str, is_exposed: bool) -> None:
    """Remember a directory or file, with its rights of now."""
    try:
        place = _open_place(path, is_exposed)
    except FileNotFoundError:
        return  # it was there when the plan was made
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH
    _kept[path] = _call("syscall", _OPEN_TREE, place, b"", flags)
    os.close(place)


def _open_place(path: str, is_exposed: bool) -> int:
    """A descriptor to name it by. No symbolic link is followed where a script may have made it since the plan."""
    flags = os.O_PATH | os.O_CLOEXEC
    if not is_exposed:
        return os.open(path, flags)
    how = b"".join(part.to_bytes(8, sys.byteorder) for part in (flags, 0, _RESOLVE_NO_SYMLINKS))
    try:
        return _call("syscall", _OPENAT2, _AT_FDCWD, os.fsencode(path), how, len(how))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SandboxError(f"a symbolic link is in the way to {path}") from None
        raise


def _make_read_only(path: str) -> None:
    """All that is mounted at and below a path."""
    _set_read_only(_AT_FDCWD, os.fsencode(path), _AT_RECURSIVE)


def _set_read_only(place: int, path: bytes, flags: int) -> None:
    attributes = _READ_ONLY.to_bytes(8, sys.byteorder) + bytes(24)
    _call("syscall", _MOUNT_SETATTR, place, path, flags, attributes, len(attributes))


def _mount_proc(path: str) -> None:
    """The processes of the own namespace, and no others."""
    _call("mount", b"proc", os.fsencode(path), b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)


def _cover(path: str) -> None:
    """An empty directory in memory instead of what is there."""
    if os.path.isdir(path):
        _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=0755")


def _stand_in(path: str) -> None:
    """An empty directory that nobody writes to, in a covered place."""
    os.makedirs(path, exist_ok=True)
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", _READ_ONLY | _MS_NOSUID | _MS_NODEV, b"mode=0555")


def _mask(path: str) -> None:
    """An empty file instead of what is there."""
    if os.path.exists(path):
        _call("mount", b"/dev/null", os.fsencode(path), None, _MS_BIND, None)


def _put_back(path: str, at: str, is_writable: bool) -> None:
    """Something that was kept, where it was or elsewhere."""
    tree = _kept.pop(path, -1)
    if tree < 0:
        return
    if not is_writable:
        _set_read_only(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE)
    if not os.path.exists(at):
        os.makedirs(os.path.dirname(at), exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{tree}"):
            os.mkdir(at)
        else:
            os.close(os.open(at, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    _call("syscall", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(at), _MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def _link(target: str, path: str) -> None:
    """A symbolic link that was covered."""
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


_STEPS: dict[str, Any] = {
    "own mounts": _own_mounts,
    "keep": _keep,
    "read-only": _make_read_only,
    "proc": _mount_proc,
    "cover": _cover,
    "stand in": _stand_in,
    "mask": _mask,
    "put back": _put_back,
    "link": _link,
}


# What the kernel refuses from then on.


def _drop_capabilities() -> None:
    """Also after an exec: without them root is a user whose files are root's."""
    _call("capset", _CAPABILITIES.to_bytes(4, sys.byteorder) + bytes(4), bytes(24))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _landlock(size: int, files: int, scopes: int, rules: list[list[Any]]) -> None:
    """Allow what the rules name: rights below a path. `size` is how much the kernel knows of the attributes."""
    attributes = b"".join(part.to_bytes(8, sys.byteorder) for part in (files, 0, scopes))[:size]
    ruleset = _call("syscall", _LANDLOCK_CREATE, attributes, size, 0)
    for path, rights, is_exposed in rules:
        try:
            place = _open_place(path, is_exposed)
        except FileNotFoundError:
            continue  # as it is not there, nobody can use it
        rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        _call("syscall", _LANDLOCK_ADD, ruleset, 1, rule, 0)
        os.close(place)
    _call("syscall", _LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _seccomp(program: bytes) -> None:
    """Filter system calls by a BPF program."""
    address = id(program) + bytes.__basicsize__ - 1
    fields = (len(program) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, fields, 0, 0)


# The network of a worker that may reach some hosts.


def _open_network() -> None:
    """A listening socket in the own network, for the proxy of the host, which has the other end of a socket pair."""
    channel = int(os.environ.pop("TOOLRUN_PROXY", "-1"))
    if channel < 0:
        return
    import fcntl
    from _socket import AF_INET, AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

    listening = socket(AF_INET, SOCK_STREAM)
    is_up = b"lo".ljust(16, b"\0") + (1).to_bytes(2, sys.byteorder) + bytes(22)
    fcntl.ioctl(listening.fileno(), 0x8914, is_up)  # SIOCSIFFLAGS, IFF_UP
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    address = "http://127.0.0.1:{}".format(listening.getsockname()[1])
    pair = socket(AF_UNIX, SOCK_STREAM, 0, channel)
    pair.sendmsg([b"\n"], [(SOL_SOCKET, SCM_RIGHTS, listening.fileno().to_bytes(4, sys.byteorder))])
    pair.close()
    listening.close()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = address


def _call(name: str, *arguments: Any) -> int:
    """A function of the C library. Numbers must fit into 32 bits; bytes are passed as a pointer."""
    result = int(call_function(dlsym(_program, name), arguments))
    if result >= 0:
        return result
    import ctypes  # takes 3 ms, and only its functions tell the error

    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) >= 0:
        raise SandboxError(f"{name} worked only at the second attempt")
    number = ctypes.get_errno()
    raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, content: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, content.encode())
    finally:
        os.close(file)
