"""One crash trial: a project whose tool acts on the outside world, hosts that are killed, and the judgement.

The judge believes nobody's own code: what happened it reads from the outside world, what is in doubt it reads from
`toolrun effects --json`, as a person would.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from crashes.outside import Outside

HERE = Path(__file__).parent
LIMIT = 60.0
"""Seconds for what must happen."""
REPEATABLE = ("keyed", "idempotent", "verify")
"""Promises with which toolrun finds out by itself what became of a call."""
SERVERS = ("server", "remote")
SETTLE_AFTER = 1.0
"""Seconds. The servers act within some milliseconds, or on a busy machine within some more."""


class TrialError(Exception):
    """The trial itself did not work."""


class Process:
    """A process that somebody else has started."""

    def __init__(self, pid: int, report: Path) -> None:
        self.pid = pid
        self.report = report
        self._handle: int | None = os.pidfd_open(pid)

    def kill(self) -> None:
        assert self._handle is not None
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self.wait()

    def wait(self, timeout: float = LIMIT) -> bool:
        """Whether it has ended."""
        return self._handle is None or bool(select.select([self._handle], [], [], timeout)[0])

    def close(self) -> None:
        """Kill it, if nobody has waited for its end."""
        if self._handle is not None:
            self.kill()
            os.close(self._handle)
            self._handle = None

    def wait_until_it_calls(self) -> None:
        while not self.report.exists() and not self.wait(0.002):
            pass

    def wait_until_stopped(self) -> None:
        """Until somebody has stopped all its threads."""
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            if self.wait(0.01):
                raise TrialError(f"process {self.pid} has ended")

    def wait_for_answers(self, number: int) -> None:
        while not self.report.exists() or self.report.read_text().count("\n") < number:
            if self.wait(0.01):
                raise TrialError(f"process {self.pid} has ended")

    def end(self) -> list[dict[str, Any]]:
        """Wait for its end, and tell what it reported."""
        has_ended = self.wait()
        self.close()
        if not has_ended:
            raise TrialError(f"process {self.pid} has not ended")
        return [json.loads(line) for line in self.report.read_text().splitlines()] if self.report.exists() else []


class Hosts:
    """Starts callers, and commands of toolrun, for one trial or for many."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "caller.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._processes: list[Process] = []
        self._servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.close()
        self.stop_serving()
        self._process.communicate(timeout=LIMIT)

    def serve(self, arguments: Sequence[str]) -> int:
        """Start a server that survives the hosts. Returns its port."""
        server = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._servers.append(server)
        assert server.stdout is not None
        return int(server.stdout.readline())

    def stop_serving(self) -> None:
        while self._servers:
            self._servers.pop().communicate(timeout=LIMIT)

    def start(self, directory: Path, request: dict[str, Any]) -> Process:
        report = directory / f"report-{len(self._processes)}"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request, "report": str(report)}) + "\n")
        self._process.stdin.flush()
        process = Process(int(self._process.stdout.readline()), report)
        self._processes.append(process)
        return process

    def toolrun(self, directory: Path, *arguments: str) -> str:
        process = self.start(directory, {"command": arguments, "directory": str(directory)})
        process.end()
        return process.report.read_text()


@dataclass(frozen=True)
class Verdict:
    """What the judge found."""

    lost: frozenset[str]
    """Effects that did not happen."""
    repeated: frozenset[str]
    named: frozenset[str]
    """What `toolrun effects` says is in doubt."""
    unanswered: frozenset[str]
    """Calls that a caller who was not killed got no answer to, other than that they or those inside are in doubt."""
    misled: frozenset[str]
    """Calls that a caller was told are done, and that did not happen or are said to be in doubt."""

    @property
    def is_right(self) -> bool:
        """Every effect happened once, and nobody is in doubt."""
        return not (self.lost or self.repeated or self.named or self.unanswered or self.misled)

    @property
    def is_honest(self) -> bool:
        """Nothing happened twice, and what may not have happened is named."""
        return not (self.repeated or self.unanswered or self.misled) and self.lost <= self.named


class Trial:
    """A project in a directory, with calls to make."""

    def __init__(self, hosts: Hosts, directory: Path, kind: str, promise: str, calls: int, cache: Path) -> None:
        self.directory = directory
        self.kind = kind
        self.promise = promise
        self.names = [f"{number:03}" for number in range(calls)]
        self.outside = Outside(directory / "outside.db")
        self.outside.make()
        self._hosts = hosts
        self._write_project(cache)

    def _write_project(self, cache: Path) -> None:
        # Behind walls a script could not kill its host, which is what is tried here.
        lines = [f'workers.cache = "{cache}"', 'workers.sandbox = "off"', "[mcp]", "delays = [0.0, 0.0, 0.0]"]
        arguments = [str(HERE / "kinds" / f"{self.kind}.py"), str(HERE.parent), str(self.outside.path), self.promise]
        if self.kind == "server":
            lines += ["[servers.office]", f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(arguments)}"]
        elif self.kind == "remote":
            lines += ["[servers.office]", f'url = "http://127.0.0.1:{self._hosts.serve(arguments)}/mcp"']
        else:
            text = (HERE / "kinds" / f"{self.kind}.py.txt").read_text()
            values = {"@TESTS@": str(HERE.parent), "@OUTSIDE@": str(self.outside.path), "@PROMISE@": self.promise}
            for mark, value in values.items():
                text = text.replace(mark, value)
            (self.directory / "tools").mkdir()
            (self.directory / "tools" / "post.py").write_text(text)
        lines.append(f"[tool.{'write' if self.kind == 'nested' else 'post'}]")
        if self.promise != "undeclared":
            lines.append(f'effects = "{"once" if self.promise == "verify" else self.promise}"')
        if self.kind in SERVERS:
            lines.append(f"settle_after = {SETTLE_AFTER}")
            if self.promise == "verify":
                lines.append('verify = "was_posted"')
        (self.directory / "toolrun.toml").write_text("\n".join(lines) + "\n")

    def start(
        self, seed: int = 0, at_once: int = 1, calls: Sequence[str] | None = None, **options: float | None
    ) -> Process:
        configuration = str(self.directory / "toolrun.toml")
        names = self.names if calls is None else calls
        wanted = [{"tool": "post", "arguments": {"name": name}, "key": name} for name in names]
        request = {"configuration": configuration, "calls": wanted, "seed": seed, "at_once": at_once, **options}
        return self._hosts.start(self.directory, request)

    def doubts(self) -> list[tuple[str, str]]:
        """The calls in doubt: the name of the effect, and the id. A call may be in doubt as well as one inside it."""
        return [(call["arguments"]["name"], call["id"]) for call in self._doubts()]

    def _doubts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._hosts.toolrun(self.directory, "effects", "--json"))
        return found

    def settle(self) -> None:
        """Do what a person does with the calls in doubt: look, and say what is true."""
        effects = self.outside.effects()
        for name, call in self.doubts():
            self._hosts.toolrun(self.directory, "effects", "settle", call, "--done" if effects[name] else "--not-done")

    def wait_until_nobody_acts(self) -> None:
        """A worker or a server may outlive its host for a moment, and act. One elsewhere outlives it for ever."""
        if self.kind == "remote":
            end = time.monotonic() + LIMIT
            while any(it["may_act"] for it in self._doubts()):
                if time.monotonic() > end:
                    raise TrialError("the server still acts")
            return
        for pid in self.outside.actors():
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    if not select.select([handle], [], [], LIMIT)[0]:
                        raise TrialError(f"process {pid} still acts")
                finally:
                    os.close(handle)

    def wait_for_effects(self, number: int) -> None:
        end = time.monotonic() + LIMIT
        while self.outside.effects().total() < number:
            if time.monotonic() > end:
                raise TrialError("nobody has acted")

    def judge(self, answers: Sequence[dict[str, Any]]) -> Verdict:
        """`answers` are the report of a caller that nobody killed."""
        if not answers or answers[-1] != {"end": True}:
            raise TrialError(f"the last caller died: see the logs in {self.directory}")
        effects, named = self.outside.effects(), frozenset(name for name, _ in self.doubts())
        kinds = {it["key"]: it for it in answers[:-1]}
        done = {name for name, it in kinds.items() if it["kind"] is None or it["side_effects"] == "done"}
        doubted = {name for name, it in kinds.items() if it["kind"] == "in_doubt"}
        return Verdict(
            lost=frozenset(name for name in self.names if effects[name] == 0),
            repeated=frozenset(name for name in effects if effects[name] > 1 or name not in self.names),
            named=named,
            unanswered=frozenset(self.names) - done - (doubted | named if self.kind == "nested" else doubted),
            misled=frozenset(name for name in done if effects[name] == 0 or name in named),
        )
