"""A worker as a real process, with the test as its host."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

WORKER = Path(__file__).parents[2] / "src" / "toolrun" / "worker"
PYTHON = os.environ.get("WORKER_PYTHON", sys.executable)
"""What the workers run on: any Python from 3.9 on."""
WEATHER = Path(__file__).parents[1] / "scripts" / "weather.py"
STANDARD_LIBRARY_ONLY = ("-S",)
LIMIT = 30.0
"""How long any wait may take."""


class WorkerProcess:
    def __init__(self, script: Path, *options: str, python: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [PYTHON, *python, str(WORKER / "__main__.py"), str(script), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={"PATH": os.environ["PATH"]},
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self._stdout, self._stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self._rest = b""
        self._log: list[bytes] = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        """Always read the log: a worker that cannot write it stands still."""
        while data := os.read(self._stderr.fileno(), 1 << 16):
            self._log.append(data)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin.fileno(), view) :]

    def request(self, number: int, function: str, **more: Any) -> None:
        parts = {"kwargs": {}, "config": {}, "secrets": {}, **more}
        self.send(json.dumps({"id": number, "function": function, **parts}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message."""
        until = time.monotonic() + LIMIT
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([self._stdout], [], [], max(0, until - time.monotonic()))
            assert ready, f"no message in time; the log is {self._log}"
            data = os.read(self._stdout.fileno(), 1 << 20)
            assert data, f"the worker has ended; its log is {self.end()[1]}"
            parts.append(data)
        line, self._rest = b"".join(parts).split(b"\n", 1)
        message: dict[str, Any] = json.loads(line, parse_constant=_refuse)
        return message

    def answer(self) -> dict[str, Any]:
        """The next message, which is an answer."""
        message = self.receive()
        assert sorted(message) == ["error", "id", "result"]
        return message

    def failure(self) -> tuple[list[str], str]:
        """What was raised, and the message."""
        raised, answer = self.receive(), self.answer()
        assert raised["id"] == answer["id"]
        assert answer["result"] is None
        return raised["raised"], answer["error"]

    def call(self, function: str, **kwargs: Any) -> Any:
        """The result of one call."""
        self.request(1, function, kwargs=kwargs)
        answer = self.receive()
        assert answer == {"id": 1, "result": answer.get("result"), "error": None}
        return answer["result"]

    def end(self) -> tuple[int, str]:
        """Close the input; exit code and log of the process, which must have ended then."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        code = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        return code, b"".join(self._log).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        for stream in (self.stdin, self._stdout, self._stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def write_script(directory: Path, source: str) -> Path:
    path = directory / "weather.py"
    path.write_text(dedent(source))
    return path


@contextlib.contextmanager
def worker_of(script: Path, *options: str, python: tuple[str, ...] = ()) -> Iterator[WorkerProcess]:
    """A worker that has said that it is ready."""
    worker = WorkerProcess(script, *options, python=python)
    try:
        ready = worker.receive()
        assert "error" not in ready["ready"], ready
        yield worker
    finally:
        worker.close()
