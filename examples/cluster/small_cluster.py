"""A Ray cluster on this machine: a head and nodes, started with the commands that users have (`toolrun cluster`).

    with RayCluster() as cluster:
        cluster.kill("node")
        cluster.start("node")

For the demo and for tests. Programs that use the cluster run in the network of the head, unless `driver` names another
machine, because Ray wants a node on their machine. Who is not root has one node, which is this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from machines import Machines, Process, descendants, process, why_not

from toolrun.cluster import Credentials, invite, make_head_credentials, ray_variables

START: Final = 120.0
"""Seconds that a machine may take to start. It takes 5, and many times that on a busy one."""
_READY: Final = b"Ray runtime started."
_TRIES: Final = 3
"""Ray gives a node 30 seconds to start, which may not be enough on a busy machine."""
_ALIVE: Final = """
import json, os
from ray._raylet import GcsClient
nodes = GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_node_info(timeout=20).values()
print("alive", json.dumps(sorted(it.node_manager_address for it in nodes if it.state == 0)))
"""
_WORKER: Final = "toolrun/worker/__main__.py"


class RayCluster:
    """`nodes`: CPUs by the name of the machine, besides those of the head. `driver`: whose network programs are in."""

    def __init__(self, nodes: Mapping[str, int] | None = None, *, head_cpus: int = 2, driver: str = "head") -> None:
        self.nodes = dict({"node": 2} if nodes is None else nodes)
        self.driver = driver
        self._cpus = {"head": head_cpus, **self.nodes}
        self._addresses = {name: f"10.77.0.{number}" for number, name in enumerate(self._cpus, 1)}
        self.is_alone = bool(why_not())
        if self.is_alone:
            self._addresses = {"head": _own_address()}
        self.address = f"{self._addresses['head']}:{_free_port() if self.is_alone else 6379}"
        self._folder = Path(tempfile.mkdtemp(prefix="tray", dir="/tmp"))  # sockets have short paths
        self.credentials: dict[str, Credentials] = {}
        self._machines: Any = _OneMachine() if self.is_alone else Machines(self._addresses)
        self._suspect: set[str] = set()
        self._stopped: set[int] = set()

    def __enter__(self) -> RayCluster:
        try:
            head = make_head_credentials(self._folder / "credentials", self._addresses["head"])
            self.credentials["head"] = head
            for name in self.machines[1:]:
                self.credentials[name] = invite(head.folder, self._addresses[name])
            self._machines.__enter__()
            self.repair()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._resume_all()
        self._machines.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def machines(self) -> list[str]:
        """The names of all, the head first."""
        return list(self._addresses)

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    # What happens to machines.

    def kill(self, name: str) -> None:
        """A machine loses its power. That of the head takes Ray's memory with it."""
        self._machines.kill(name)

    def start(self, *names: str) -> None:
        """Bring machines back that were killed, and wait until they are nodes."""
        for name in names:
            self._launch(name)
        for name in names:
            self._wait_until_ready(name)

    def cut(self, name: str) -> None:
        """Pull the cable of a machine."""
        self._suspect.add(name)
        self._machines.cut(name)

    def heal(self, name: str) -> None:
        """Put the cable back. Ray may end the node by and by: the next test gets a new one."""
        self._machines.heal(name)

    def kill_head_process(self) -> None:
        """End what knows the cluster (Ray's GCS), and leave the node beside it."""
        self._suspect.update(self.machines)
        for it in self.processes("head"):
            if "gcs_server" in it.command.split()[0]:
                os.kill(it.pid, signal.SIGKILL)

    def stop(self, pid: int) -> None:
        """SIGSTOP."""
        self._stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)

    def resume(self, pid: int) -> None:
        self._stopped.discard(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def repair(self) -> None:
        """Whatever was done to the cluster: make it whole."""
        self._resume_all()
        for name in self._suspect:
            self._machines.heal(name)
            self._machines.kill(name)
        self._suspect.clear()
        dead = [name for name in self.machines if not self._machines.is_running(name)]
        if "head" in dead:  # it knows nothing of the nodes that were there
            for name in self.machines:
                self._machines.kill(name)
            self.start(*self.machines)
        else:
            self.start(*dead)

    # What runs there.

    def alive(self) -> list[str]:
        """The addresses of the nodes that the head believes to live."""
        line = next(it for it in self.run(_ALIVE).splitlines() if it.startswith("alive "))
        found: list[str] = json.loads(line.removeprefix("alive "))
        return found

    def processes(self, name: str) -> list[Process]:
        """All processes of a machine."""
        found: list[Process] = self._machines.processes(name)
        return found

    def workers(self, name: str) -> list[Process]:
        """The worker processes of scripts on a machine, each with the outer process that waits for it."""
        return [it for it in self.processes(name) if _WORKER in it.command]

    def log(self, name: str) -> str:
        """What `toolrun cluster` has said on a machine."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def session_folder(self, name: str) -> Path:
        """Where Ray keeps the logs and sockets of a machine."""
        return self._folder / name

    # Programs that use the cluster.

    def variables(self) -> dict[str, str]:
        """The environment of a program that uses the cluster."""
        return {
            **_plain_environment(),
            **ray_variables(self.credentials[self.driver]),
            "RAY_ADDRESS": self.address,
        }

    def command(self, *words: str) -> list[str]:
        """A command that runs in the network of the driver's machine."""
        return list(self._machines.on(self.driver, words))

    def run(self, program: str, *arguments: str, timeout: float = 60.0) -> str:
        """The output of a program of ours, in Python. Raises OSError if its exit code is not 0."""
        done = subprocess.run(
            self.command(sys.executable, "-c", program, *arguments),
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode != 0:
            raise OSError(f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread is in the network of the driver's machine, and what it starts; it has the variables, too."""
        before = dict(os.environ)
        os.environ.update({name: value for name, value in self.variables().items() if name.startswith("RAY_")})
        try:
            with self._machines.entered(self.driver):
                yield
        finally:
            for name in [name for name in os.environ if name.startswith("RAY_")]:
                del os.environ[name]
            os.environ.update({name: value for name, value in before.items() if name.startswith("RAY_")})

    def _resume_all(self) -> None:
        for pid in list(self._stopped):
            self.resume(pid)

    def _launch(self, name: str) -> None:
        log = self._folder / f"{name}.log"
        log.write_bytes(b"")
        temp = self._folder / name
        shutil.rmtree(temp, ignore_errors=True)
        temp.mkdir()
        role = ["head", f"--port={self.address.rpartition(':')[2]}"] if name == "head" else ["node", self.address]
        options = [f"--folder={self.credentials[name].folder}", f"--cpus={self._cpus[name]}"]
        command = [sys.executable, "-m", "toolrun", "cluster", *role, *options, "--", f"--temp-dir={temp}"]
        self._machines.start(name, command, _plain_environment(), log)
        self._machines.prefer(name, True)  # because of Ray's limit for the start

    def _wait_until_ready(self, name: str) -> None:
        log = self._folder / f"{name}.log"
        tries = 1
        until = time.monotonic() + START
        while _READY not in log.read_bytes():
            if not self._machines.is_running(name):
                tries += 1
                if tries > _TRIES:
                    raise OSError(f"{name} does not start:\n{self.log(name)}")
                self._launch(name)
            if time.monotonic() > until:
                raise OSError(f"{name} does not start in {START:g} s:\n{self.log(name)}")
            time.sleep(0.05)
        self._machines.prefer(name, False)


class _OneMachine:
    """This machine, as the only one: for who is not root."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _OneMachine:
        return self

    def close(self) -> None:
        self.kill("head")

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=dict(variables), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def kill(self, name: str) -> None:
        if self._process is not None:
            for it in self.processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(it.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            self._process = None

    def is_running(self, name: str) -> bool:
        return self._process is not None and self._process.poll() is None

    def processes(self, name: str) -> list[Process]:
        if self._process is None:
            return []
        return [it for pid in descendants(self._process.pid) if (it := process(pid)) is not None]

    def heal(self, name: str) -> None:
        pass

    def prefer(self, name: str, is_preferred: bool) -> None:
        pass

    def cut(self, name: str) -> None:
        raise OSError(f"there is one machine: {why_not()}")

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        return list(command)

    @contextlib.contextmanager
    def entered(self, name: str) -> Iterator[None]:
        yield


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TOOLRUN_"))}


def _own_address() -> str:
    """How others reach this machine: Ray does not stay on 127.0.0.1 where there is more."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        try:
            it.connect(("10.255.255.255", 1))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(it.getsockname()[0])


def _free_port() -> int:
    with socket.socket() as it:
        it.bind(("", 0))
        return int(it.getsockname()[1])
