"""What Ray runs on a node for each replica: it starts the replica, watches it, and says how it ended.

The replica kills its worker when its lease is over. A process that was stopped cannot do that, so this one kills it if
its beats are missing for as long. It does not look into them, and is told nothing that others may not know.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any, Final

from toolrun.processes.engine import describe_exit
from toolrun.processes.tag import TAG
from toolrun.processes.watchdog import kill_tagged
from toolrun.version import __version__

_START: Final = 30.0
"""Seconds until the replica listens."""
_SEARCH: Final = 2.0
"""Seconds of computing that the search for what a replica left behind may take."""
_TAIL: Final = 10


class ReplicaActor:
    """Owns one replica, for as long as it lives."""

    def __init__(self, program: str, certificate: str, lease: float, version: str) -> None:
        if version != __version__:
            raise RuntimeError(f"this node has toolrun {__version__}, and the gateway has {version}")
        self._address, self._node = self.find_place()
        self._lease = lease
        self._settings = {"address": self._address, "certificate": certificate, "lease": lease}
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._opened: dict[str, Any] | None = None
        self._is_open = threading.Event()
        self._is_over = threading.Event()
        self._how = ""
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        # One thread for its whole life: the kernel kills the replica when the thread ends that started it.
        threading.Thread(target=self._run, name="toolrun-replica", daemon=True).start()

    def find_place(self) -> tuple[str, str]:
        """The address and the id of this node."""
        import ray

        return str(ray.util.get_node_ip_address()), str(ray.get_runtime_context().get_node_id())

    def open(self) -> dict[str, Any]:
        """Where the replica listens, and what is to be known of it. Raises RuntimeError if it does not start."""
        self._is_open.wait(_START)
        if self._opened is None:
            raise RuntimeError(f"the replica did not start: {self._how or 'it takes too long'}")
        return {**self._opened, "address": self._address, "node": self._node}

    def wait(self) -> str:
        """How the replica ended, once it and all that it started are gone."""
        self._is_over.wait()
        return self._how

    def kill(self) -> None:
        """End the replica. `wait` then says so."""
        if self._process is not None:
            self._process.kill()

    @property
    def replica_pid(self) -> int:
        """0 as long as it was not started."""
        return 0 if self._process is None else self._process.pid

    def _run(self) -> None:
        try:
            self._how = self._watch()
        except (OSError, ValueError) as error:
            self._how = str(error)
        self._is_over.set()
        self._is_open.set()

    def _watch(self) -> str:
        process = self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(self._settings).encode() + b"\n")
            is_stopped = self._follow(process)
        finally:
            process.kill()
            code = process.wait()
            kill_tagged(f"{TAG}={process.pid}-".encode(), _SEARCH)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if is_stopped:
            return f"was killed: it gave no sign of life for {self._lease:g} s"
        last = f" ({' / '.join(self._tail)})" if self._tail else ""
        return describe_exit(code) + last

    def _follow(self, process: subprocess.Popen[bytes]) -> bool:
        """Until the replica ends, or is to be killed: whether that is so."""
        assert process.stdout is not None
        assert process.stderr is not None
        said, alive = b"", time.monotonic() + _START
        out, err = process.stdout.fileno(), process.stderr.fileno()
        pipes = [out, err]
        while out in pipes:
            left = alive - time.monotonic()
            ready = select.select(pipes, [], [], max(0.0, left))[0]
            if err in ready:
                data = os.read(err, 4096)
                self._tail.extend(line[:500] for line in data.decode("utf-8", "replace").splitlines() if line)
                if not data:
                    pipes.remove(err)
            if out in ready:
                data = os.read(out, 4096)
                if not data:
                    return False
                if self._opened is None:
                    said += data
                    if b"\n" in said:
                        self._opened = json.loads(said.partition(b"\n")[0])
                        self._is_open.set()
                alive = time.monotonic() + (self._lease if b"." in data and self._opened else _START)
            elif left <= 0:
                return True
        return False
