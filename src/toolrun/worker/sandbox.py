"""Puts this process behind walls, before anything of the script or of its environment runs.

Carries out a plan that the host made (`processes/sandbox/plan.py`), and decides nothing. Standard library only, Python
3.9 or newer; imports as little as possible, because it runs at every start. All of it happens to this process itself,
while it has one thread: nothing is left to do for the host, which could not do it without a second interpreter.

The process that the host has started, *outer*, stays outside and waits. With a PID namespace it starts two children:
the first is PID 1 there, which only waits, because the kernel ends everything in a namespace with its PID 1 and gives
it the orphans; the second is the worker. They are siblings because signals to PID 1 are ignored, and because outer then
knows exactly how the worker ended, and ends in the same way. PID 1 also makes the mounts (`mounts.py`), in a namespace
that the worker joins: meanwhile the worker imports modules of ours and of the standard library. Without a PID
namespace, outer is the subreaper: the orphans of the worker become its children, and it kills them until it has none.

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
    SIGUSR2,
    pause,
    signal,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Mount = Callable[[list[list[Any]]], bytes]

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWNET = 0x20000, 0x20000000, 0x40000000
_SECCOMP_MODE_FILTER = 2
_OPENAT2 = 437  # the same everywhere, as are the next three
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_AT_FDCWD = -100
_RESOLVE_NO_SYMLINKS = 4
_CAPABILITIES = 0x20080522
MOUNTED = b"\n"
"""What PID 1 says when its mounts are there."""

_program = dlopen(None, 0)  # type: ignore[arg-type]  # None is what ctypes itself passes


policy: dict[str, Any] | None = None
"""What this process may do, for `denial.py`. None: there are no walls."""


class SandboxError(Exception):
    """The walls cannot be put up."""


def enter(plan: dict[str, Any], mount: Mount, prepare: Callable[[], object]) -> None:
    """Return in the process that the plan allows to go on; the one that called this waits for its end, and ends.

    `mount` is done by PID 1 of a new namespace; `prepare` meanwhile by the worker, before it is behind its walls.
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
        _leave_outer_behind(plan["mounts"] if namespaces & _CLONE_NEWPID else None, mount, prepare)
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


def _leave_outer_behind(mounts: list[list[Any]] | None, mount: Mount, prepare: Callable[[], object]) -> None:
    """Go on in a child, for which this process waits. None: it is not in a PID namespace."""
    host, outer, init, mounted = os.getppid(), os.getpid(), 0, -1
    if mounts is None:
        call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    else:
        init, mounted = _start_init(mounts, mount)
    worker = os.fork()
    if worker:
        for number in (SIGTERM, SIGINT, SIGHUP):
            signal(number, SIG_IGN)
        _supervise(worker, init, host)
    _die_with(0 if init else outer)
    prepare()
    if mounts is not None:
        _join_mounts(mounted)


def _join_mounts(mounted: int) -> None:
    """Go on in the file system that PID 1 has made, once it says so."""
    problem = os.read(mounted, 4096)
    if problem != MOUNTED:
        raise SandboxError(problem.decode() or "PID 1 of the namespace has ended")
    os.close(mounted)
    init = os.pidfd_open(1)
    call("setns", init, _CLONE_NEWNS)
    os.close(init)


def _unshare(namespaces: int) -> None:
    """New namespaces, with this user in them under its own number, and nobody else."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", namespaces)
    for name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        _write(f"/proc/self/{name}", content)


def _start_init(mounts: list[list[Any]], mount: Mount) -> tuple[int, int]:
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
        os.write(report, mount(mounts))
        os.closerange(0, 256)
        while True:
            pause()
    finally:
        os._exit(1)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. A parent outside of the PID namespace is 0."""
    call("prctl", _PR_SET_PDEATHSIG, int(SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


# What outer does for as long as its worker lives.


def _supervise(worker: int, init: int, host: int) -> NoReturn:
    """Wait until the worker has ended, end whatever it left behind, and end in the same way.

    Runs outside of the walls. `init` is PID 1 of the worker's namespace, or 0.
    """
    if not init:
        # Killed with the host, it could not kill the others. A worker that sends this signal only ends itself.
        signal(SIGUSR2, lambda *_: _kill(worker))
        call("prctl", _PR_SET_PDEATHSIG, int(SIGUSR2), 0, 0, 0)
        if os.getppid() != host:
            _kill(worker)
    os.closerange(0, 256)
    ended, status = 0, 0
    while ended != worker:
        ended, status = os.waitpid(-1, 0)
    if init:
        _kill(init)
        os.waitpid(init, 0)
    else:
        _kill_children()
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.WTERMSIG(status) != SIGKILL:
            signal(os.WTERMSIG(status), SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _kill_children() -> None:
    """Kill all children, and those that they leave to this process, until there is none: the kernel says so."""
    own = os.getpid()
    while True:
        for pid in _children(own):
            _kill(pid)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children(parent: int) -> list[int]:
    try:
        file = os.open(f"/proc/{parent}/task/{parent}/children", os.O_RDONLY)
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == parent]
    try:
        return [int(pid) for pid in b"".join(iter(lambda: os.read(file, 65536), b"")).split()]
    finally:
        os.close(file)


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        return


# What the kernel refuses from then on.


def _drop_capabilities() -> None:
    """Also after an exec: without them root is a user whose files are root's."""
    call("capset", _CAPABILITIES.to_bytes(4, sys.byteorder) + bytes(4), bytes(24))
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _landlock(size: int, files: int, scopes: int, rules: list[list[Any]]) -> None:
    """Allow what the rules name: rights below a path. `size` is how much the kernel knows of the attributes."""
    attributes = b"".join(part.to_bytes(8, sys.byteorder) for part in (files, 0, scopes))[:size]
    ruleset = call("syscall", _LANDLOCK_CREATE, attributes, size, 0)
    for path, rights, is_exposed in rules:
        try:
            place = open_place(path, is_exposed)
        except FileNotFoundError:
            continue  # as it is not there, nobody can use it
        rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        call("syscall", _LANDLOCK_ADD, ruleset, 1, rule, 0)
        os.close(place)
    call("syscall", _LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def open_place(path: str, is_exposed: bool) -> int:
    """A descriptor to name it by. No symbolic link is followed where a script may have made it since the plan."""
    flags = os.O_PATH | os.O_CLOEXEC
    if not is_exposed:
        return os.open(path, flags)
    how = b"".join(part.to_bytes(8, sys.byteorder) for part in (flags, 0, _RESOLVE_NO_SYMLINKS))
    try:
        return call("syscall", _OPENAT2, _AT_FDCWD, os.fsencode(path), how, len(how))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SandboxError(f"a symbolic link is in the way to {path}") from None
        raise


def _seccomp(program: bytes) -> None:
    """Filter system calls by a BPF program."""
    address = id(program) + bytes.__basicsize__ - 1
    fields = (len(program) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
    call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, fields, 0, 0)


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


def call(name: str, *arguments: Any) -> int:
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
