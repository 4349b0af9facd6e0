"""The reference servers, each with a directory to work on, and what is known about them.

Of each is known a call that is good, one that toolrun refuses, one that the server refuses, and one that lasts until it
is released, so that the server can be killed in the middle of it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from faults_mcp.bench import Servers
from support.packages import MissingError, give_up, node, npm_install, uv_install
from toolrun.processes.tag import LABEL
from toolrun.tools.context import Progress

HERE = Path(__file__).parent
OLDEST_NODE = 18
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@dataclass(frozen=True)
class Example:
    """A call, and words of the answer."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    words: str = ""


class RealServer:
    """One of them. Until it is told otherwise, a call lasts because the process is stopped."""

    name: str
    protocol: str
    good: Example
    bad: Example
    """Refused before it is sent."""
    refused: Example
    """Refused by the server."""
    long: Example

    def __init__(self, root: Path) -> None:
        self.root = root

    def settings(self) -> dict[str, Any]:
        """Its section of the configuration. Raises MissingError if it cannot be installed."""
        raise NotImplementedError

    def hold(self, pid: int) -> None:
        """Have the next call last. `pid` is the server's process."""
        os.kill(pid, signal.SIGSTOP)
        while not all(_is_stopped(it) for it in Path(f"/proc/{pid}/task").iterdir()):
            time.sleep(0.001)  # a thread that is still on its way could take the call out of the pipe

    def is_held(self, pid: int) -> bool:
        """Whether the call has arrived."""
        return any(_unread(it) for it in Path(f"/proc/{pid}/fd").iterdir() if str(it.readlink()).startswith("pipe:"))

    def progressed(self, progress: Progress) -> None:
        """What the call that lasts tells of itself."""

    def release(self) -> None:
        """Calls do not last any more."""

    def close(self) -> None:
        """Nothing is left of it."""


class Everything(RealServer):
    name = "everything"
    protocol = LEGACY
    good = Example("echo", {"message": "hello"}, "Echo: hello")
    bad = Example("get-sum", {"a": "much", "b": 1}, "'a'")
    refused = Example("get-resource-reference", {"resourceId": -1}, "Invalid resourceId")
    long = Example("trigger-long-running-operation", {"duration": 600, "steps": 60_000})
    has_progressed = False

    def settings(self) -> dict[str, Any]:
        return _node("server-everything")

    def hold(self, pid: int) -> None:
        pass

    def is_held(self, pid: int) -> bool:
        return self.has_progressed

    def progressed(self, progress: Progress) -> None:
        self.has_progressed = True


class Filesystem(RealServer):
    name = "filesystem"
    protocol = LEGACY
    refused = Example("read_text_file", {"path": "/etc/hostname"}, "Access denied")
    bad = Example("read_multiple_files", {"paths": []}, "'paths'")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "note.txt").write_text("hello from a file\n")
        self._pipe = Pipe(root / "pipe")
        self.good = Example("read_text_file", {"path": str(root / "note.txt")}, "hello from a file")
        self.long = Example("read_text_file", {"path": str(root / "pipe")})

    def settings(self) -> dict[str, Any]:
        return _node("server-filesystem", str(self.root))

    def hold(self, pid: int) -> None:
        self._pipe.make()

    def is_held(self, pid: int) -> bool:
        return self._pipe.has_reader()

    def release(self) -> None:
        self._pipe.remove()


class Memory(RealServer):
    name = "memory"
    protocol = LEGACY
    ada = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}  # noqa: RUF012
    good = Example("create_entities", {"entities": [ada]}, "Ada")
    bad = Example("create_entities", {"entities": [{"name": "Ada"}]}, "entityType")
    refused = Example("add_observations", {"observations": [{"entityName": "Bo", "contents": []}]}, "Bo not found")
    long = Example("read_graph")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._pipe = Pipe(root / "memory.jsonl")

    def settings(self) -> dict[str, Any]:
        return _node("server-memory") | {"env": {"MEMORY_FILE_PATH": str(self.root / "memory.jsonl")}}

    def hold(self, pid: int) -> None:
        self._pipe.path.unlink(missing_ok=True)
        self._pipe.make()

    def is_held(self, pid: int) -> bool:
        return self._pipe.has_reader()

    def release(self) -> None:
        self._pipe.remove()


class Time(RealServer):
    name = "time"
    protocol = MODERN
    good = Example(
        "convert_time",
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"},
        "+5.75h",
    )
    bad = Example("get_current_time", {}, "missing 'timezone'")
    refused = Example("get_current_time", {"timezone": "Mars/Olympus"}, "Invalid timezone")
    long = Example("get_current_time", {"timezone": "UTC"})

    def settings(self) -> dict[str, Any]:
        return _python("mcp-server-time")


class Git(RealServer):
    """A call lasts because git runs a program of the repository, which waits for somebody to read what it says."""

    name = "git"
    protocol = MODERN

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._repository = root / "repository"
        self._gate, self._said = root / "gate", root / "said"
        program = root / "monitor"
        program.write_text(f'#!/bin/sh\nif [ -e "{self._gate}" ]; then touch "{self._said}"; sleep 600; fi\nexit 1\n')
        program.chmod(0o755)
        self._git("init", "--quiet", "--initial-branch=main", str(self._repository))
        self._git("-C", str(self._repository), "config", "core.fsmonitor", str(program))
        self._git("-C", str(self._repository), "commit", "--quiet", "--allow-empty", "--message=the first step")
        here = {"repo_path": str(self._repository)}
        self.good = Example("git_log", here, "the first step")
        self.bad = Example("git_add", {**here, "files": []}, "'files'")
        self.refused = Example("git_status", {"repo_path": str(root)}, "outside the allowed repository")
        self.long = Example("git_status", here)

    def settings(self) -> dict[str, Any]:
        return _python("mcp-server-git", "--repository", str(self._repository))

    def hold(self, pid: int) -> None:
        self._gate.touch()

    def is_held(self, pid: int) -> bool:
        return self._said.exists()

    def release(self) -> None:
        self._gate.unlink()

    @staticmethod
    def _git(*arguments: str) -> None:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], check=True, timeout=30)


class Fetch(RealServer):
    name = "fetch"
    protocol = MODERN

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._web = Web()
        self.good = Example("fetch", {"url": f"{self._web.url}/page"}, "hello from the web")
        self.bad = Example("fetch", {"url": f"{self._web.url}/page", "max_length": 0}, "'max_length'")
        self.refused = Example("fetch", {"url": f"{self._web.url}/private"}, "robots.txt")
        self.long = Example("fetch", {"url": f"{self._web.url}/slow"})

    def settings(self) -> dict[str, Any]:
        return _python("mcp-server-fetch", "--allow-private-ips")

    def hold(self, pid: int) -> None:
        pass

    def is_held(self, pid: int) -> bool:
        return self._web.is_waiting.is_set()

    def close(self) -> None:
        self._web.close()


SERVERS: list[type[RealServer]] = [Everything, Filesystem, Memory, Time, Git, Fetch]


@contextmanager
def configured(kind: type[RealServer], servers: Servers) -> Iterator[RealServer]:
    """A server in the configuration, or the reason why it cannot be there."""
    directory = servers.root / kind.name
    directory.mkdir()
    made = kind(directory)
    try:
        servers.put(kind.name, **made.settings())
    except MissingError as error:
        give_up(error, f"the server '{kind.name}'")
    else:
        yield made
    finally:
        made.close()


class Pipe:
    """A named pipe: whoever opens it to read waits until something is written, which does not happen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: int | None = None

    def make(self) -> None:
        os.mkfifo(self.path)

    def has_reader(self) -> bool:
        if self._writer is None:
            with suppress(OSError):  # ENXIO: nobody reads
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        return self._writer is not None

    def remove(self) -> None:
        if self._writer is not None:
            os.close(self._writer)
        self.path.unlink()


class Web:
    """A web site with a page, one that robots may not see, and one that does not come."""

    PAGES = {"/page": "hello from the web", "/robots.txt": "User-agent: *\nDisallow: /private\n"}  # noqa: RUF012

    def __init__(self) -> None:
        self.is_waiting = threading.Event()
        self._is_over = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/slow":
                    site.is_waiting.set()
                    site._is_over.wait()
                page = site.PAGES.get(self.path, "").encode()
                self.send_response(200 if page else 404)
                self.send_header("content-type", "text/plain")
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                with suppress(OSError):  # whoever asked is gone
                    self.wfile.write(page)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def process_of(name: str, among: set[int]) -> int:
    """The server's process: the one that toolrun started, and not what that may have started."""
    wanted = f"{LABEL}=MCP server {name}".encode()
    found = []
    for pid in among:
        with suppress(OSError):  # it has ended
            if os.getpgid(pid) == pid and wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    assert len(found) == 1, f"processes of '{name}': {found}"
    return found[0]


def _is_stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def _unread(pipe: Path) -> int:
    """How many bytes are in it."""
    with pipe.open("rb", buffering=0) as file:
        found: int = struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, bytes(4)))[0]
    return found


@functools.cache
def _modules() -> Path:
    return npm_install(HERE / "package.json", "servers-npm")


@functools.cache
def _programs() -> Path:
    return uv_install(HERE / "requirements.txt", "servers-pypi")


def _node(package: str, *arguments: str) -> dict[str, Any]:
    program = _modules() / "@modelcontextprotocol" / package / "dist" / "index.js"
    return {"command": node(_modules(), OLDEST_NODE), "args": [str(program), *arguments]}


def _python(program: str, *arguments: str) -> dict[str, Any]:
    return {"command": str(_programs() / program), "args": list(arguments)}
