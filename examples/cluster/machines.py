"""Several machines on one: network namespaces with processes of their own, joined by cables that can be pulled.

    with Machines({"head": "10.77.0.1", "node": "10.77.0.2"}) as machines:
        machines.start("head", [...], variables, log)
        machines.cut("head")

A machine has its own network and process numbers; the files are shared. It runs one program, and whatever that starts
ends with it, as when a machine loses its power. Whoever is root can make them, with the programs `ip` and `unshare`.

The machines belong to a keeper, a process that ends them when its standard input ends. So they go with the program that
made them, however that ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL, get_errno
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_CLONE_NEWNET: Final = 0x40000000
_SWITCH: Final = "switch"
_INIT: Final = '"$@" & wait $!'
"""The first process of a machine has to reap what others leave."""


def why_not() -> str:
    """Why no machines can be made here; empty if they can."""
    if sys.platform != "linux":
        return "network namespaces exist on Linux only"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    missing = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} (iproute2, util-linux) is not installed"
    probe = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"network namespaces cannot be made: {probe.stderr.strip()}"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a machine."""

    pid: int
    """Its number here."""
    own_pid: int
    """Its number on the machine, which is what programs on the machine say."""
    command: str


class Machines:
    """A network of machines. Belongs to one thread."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.addresses = dict(addresses)
        self._prefix = f"tr{os.getpid()}x{id(self) % 9973}"
        self._keeper: subprocess.Popen[str] | None = None

    def __enter__(self) -> Machines:
        self._keeper = subprocess.Popen(
            [sys.executable, __file__, self._prefix, json.dumps(self.addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all machines."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        """Run the program of a machine. Its output goes to `log`."""
        self._ask(start=name, command=list(command), variables=dict(variables), log=str(log))

    def kill(self, name: str) -> None:
        """End a machine with all its processes, at once."""
        self._ask(kill=name)

    def is_running(self, name: str) -> bool:
        return self._ask(pid=name) is not None

    def cut(self, name: str) -> None:
        """Pull the cable of a machine. Nobody is told."""
        _ip("-n", self.namespace(_SWITCH), "link", "set", f"v-{name}", "down")

    def heal(self, name: str) -> None:
        """Put the cable back."""
        _ip("-n", self.namespace(_SWITCH), "link", "set", f"v-{name}", "up")

    def prefer(self, name: str, is_preferred: bool) -> None:
        """Whether a machine goes before all else, if this system shares its processors between sessions."""
        with suppress(OSError):
            Path(f"/proc/{self._ask(pid=name)}/autogroup").write_text("-10" if is_preferred else "0")

    def namespace(self, name: str) -> str:
        """The name of a machine's network namespace."""
        return f"{self._prefix}-{name}"

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        """A command that runs in the network of a machine. It does not end with the machine."""
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def processes(self, name: str) -> list[Process]:
        """What runs on a machine."""
        first = self._ask(pid=name)
        return [] if first is None else [it for pid in descendants(first) if (it := process(pid)) is not None]

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """What this thread connects to or starts is in the network of a machine: also new threads and processes."""
        here = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net")
        with here.open("rb") as before:
            with Path(f"/run/netns/{self.namespace(name)}").open("rb") as there:
                _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def _ask(self, **request: Any) -> Any:
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(json.dumps(request) + "\n")
        self._keeper.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        answer = json.loads(line) if line else {"error": "the keeper of the machines has ended"}
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["answer"]


def _enter(descriptor: int) -> None:
    if CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(get_errno(), "a network namespace cannot be entered")


def descendants(first: int) -> list[int]:
    """The processes below one. Orphans included: the first process of the machine is their parent then."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [first]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def process(pid: int) -> Process | None:
    """None: it has ended."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        own = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        # The machine is one namespace below; a sandbox on it is one or two more.
        return Process(pid, int(own[2] if len(own) > 2 else own[1]), command)
    return None


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class _Keeper:
    def __init__(self, prefix: str, addresses: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._addresses = addresses
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def make(self) -> None:
        _ip("netns", "add", self._name(_SWITCH))
        switch = self._name(_SWITCH)
        _ip("-n", switch, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge0", "up")
        for name, address in self._addresses.items():
            own = self._name(name)
            _ip("netns", "add", own)
            _ip("-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", f"v-{name}", "netns", switch)
            _ip("-n", switch, "link", "set", f"v-{name}", "master", "bridge0", "up")
            _ip("-n", own, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")
            _ip("-n", own, "link", "set", "lo", "up")

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)
        for name in (*self._addresses, _SWITCH):
            own = self._name(name)
            # What was started there by others: nobody else is in these namespaces.
            found = subprocess.run(["ip", "netns", "pids", own], capture_output=True, text=True)
            for pid in found.stdout.split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            subprocess.run(["ip", "netns", "del", own], capture_output=True)

    def start(self, name: str, command: list[str], variables: dict[str, str], log: str) -> None:
        if self.is_running(name):
            raise OSError(f"{name} is running")
        enclosed = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _INIT, "sh", *command]
        with Path(log).open("ab") as output:
            self._running[name] = subprocess.Popen(
                ["ip", "netns", "exec", self._name(name), *enclosed],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                start_new_session=True,
            )

    def is_running(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def pid(self, name: str) -> int | None:
        return self._running[name].pid if self.is_running(name) else None

    def kill(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is None:
            return
        # The child of `unshare` is the first process of the machine. The kernel ends the others before it is gone.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with suppress(OSError):
            for pid in children.read_text().split():
                os.kill(int(pid), 9)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # it had not made its child yet
            process.kill()
            process.wait()

    def _name(self, name: str) -> str:
        return f"{self._prefix}-{name}"


def _keep(keeper: _Keeper) -> None:
    _say(answer=True)
    for line in sys.stdin:
        match json.loads(line):
            case {"start": name, "command": command, "variables": variables, "log": log}:
                try:
                    keeper.start(name, command, variables, log)
                except OSError as error:
                    _say(error=str(error))
                    continue
                _say(answer=True)
            case {"kill": name}:
                keeper.kill(name)
                _say(answer=True)
            case {"pid": name}:
                _say(answer=keeper.pid(name))


def _say(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """The keeper. It ignores what a terminal sends, since it has to clean up when its program has ended."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keeper = _Keeper(sys.argv[1], json.loads(sys.argv[2]))
    try:
        keeper.make()
        _keep(keeper)
    except OSError as error:
        _say(error=str(error))
    finally:
        keeper.end()


if __name__ == "__main__":
    main()
