"""A place for each rung of the sandbox and each kind of user, shared by the tests; and servers outside of its walls."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.place import OFF, Kind, Place, interpreter, open_place
from toolrun.processes.sandbox.system_support import BUBBLEWRAP, LANDLOCK, NAMESPACES, try_rung

WALLS = [Kind(rung, is_own) for rung in (NAMESPACES, BUBBLEWRAP, LANDLOCK) for is_own in (True, False)]
WITHOUT = [Kind(OFF, is_own) for is_own in (True, False)]


def check_possible(kind: Kind) -> None:
    """Skips a test of what cannot be had here. A program that is not installed is a failure in CI."""
    if not kind.is_own and os.getuid() != 0:
        pytest.skip("only root can be another user")
    if not interpreter(kind.is_own)[0]:
        pytest.skip("another user cannot run this Python, and there is no other one")
    if kind.rung == BUBBLEWRAP and shutil.which("bwrap") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap is not installed")
        pytest.skip("bubblewrap is not installed")
    if kind.rung != OFF and (reason := try_rung(kind.rung)):
        pytest.skip(f"this system refuses the rung {kind.rung}: {reason}")


@dataclass(frozen=True)
class Outside:
    """What other programs of this machine offer."""

    sockets: dict[str, str]
    """Listening UNIX sockets: their addresses, by what they are."""
    memory: int
    """The key of memory of System V."""
    shared_file: str
    """A file in memory, whose content is `shared`."""
    terminal: str
    """A terminal at which somebody sits."""
    port: int
    """Of a web server, and of a socket for datagrams."""
    datagrams: socket.socket


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"a page"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def web() -> Iterator[int]:
    """The port of a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def resolver() -> Iterator[str]:
    """A socket by which a service looks up names, where that of systemd is; empty if it cannot be put there."""
    if os.getuid() != 0:
        yield ""
        return
    made = [path for path in (Path("/run/systemd/resolve"), Path("/run/systemd")) if not path.exists()]
    Path("/run/systemd/resolve").mkdir(parents=True, exist_ok=True)
    address = Path(f"/run/systemd/resolve/toolrun-{os.getpid()}.sock")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(address))
        end.listen(8)
        address.chmod(0o777)
        yield str(address)
    address.unlink()
    for path in made:
        with suppress(OSError):  # another one of the processes that run tests needs it
            path.rmdir()


@pytest.fixture(scope="session", params=[*WALLS, *WITHOUT], ids=str)
def place(request: pytest.FixtureRequest, web: int, resolver: str) -> Iterator[Place]:
    """A project in use, behind walls or, as a control, without: there the attacks succeed."""
    check_possible(request.param)
    assert bool(resolver) == (os.getuid() == 0), "it is there before a worker starts"
    with open_place(request.param, web) as found:
        yield found


@pytest.fixture
def outside(place: Place, web: int, tmp_path: Path) -> Iterator[Outside]:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x70000000 | os.getpid()
    memory = libc.shmget(key, 4096, 0o1666)
    system = Path("/run") if os.access("/run", os.W_OK) else None
    name = f"toolrun-{os.getpid()}.sock"
    addresses = {"home": str(place.home / "agent.sock"), "data": f"/var/tmp/{name}", "abstract": f"@{name}"}
    if system is not None:
        addresses["system"] = str(system / name)
    opened = []
    for address in addresses.values():
        end = socket.socket(socket.AF_UNIX)
        end.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        end.listen(8)
        opened.append(end)
        if not address.startswith("@"):
            Path(address).chmod(0o777)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    datagrams.setblocking(False)
    shared_file = Path("/dev/shm", name)
    shared_file.write_text("shared")
    shared_file.chmod(0o666)
    terminals = os.openpty()
    os.chown(os.ttyname(terminals[1]), place.kind.uid, -1)
    yield Outside(addresses, key, str(shared_file), os.ttyname(terminals[1]), web, datagrams)
    for terminal in terminals:
        os.close(terminal)
    shared_file.unlink()
    for end in (*opened, datagrams):
        end.close()
    for address in addresses.values():
        Path(address).unlink(missing_ok=True)
    libc.shmctl(memory, 0, None)
