"""`strict`: no network, no programs, a project that cannot be changed; and what single grants give back."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sandbox.conftest import WALLS, Outside
from sandbox.place import Place, check
from toolrun.processes.sandbox.system_support import NAMESPACES

METADATA = "169.254.169.254"
"""Where machines in a cloud get their credentials."""


def strict(place: Place, function: str, **arguments: object) -> str:
    """How far an attack got without a grant."""
    return str(place.attack(function, tool="recluse", **arguments))


def granted(place: Place, function: str, **arguments: object) -> str:
    """The same with grants."""
    return str(place.attack(function, tool="trusted", **arguments))


def test_a_strict_script_cannot_connect_over_tcp(place: Place, outside: Outside) -> None:
    found = strict(place, "tcp", host="127.0.0.1", port=outside.port)
    check(place, found == "ok", found)
    if place.has_walls:
        for host in ("::1", METADATA):
            assert strict(place, "tcp", host=host, port=80) == "EACCES"


def test_a_strict_script_cannot_send_a_datagram(place: Place, outside: Outside) -> None:
    found = strict(place, "udp", host="127.0.0.1", port=outside.datagrams.getsockname()[1])
    received = b""
    with suppress(BlockingIOError):
        received = outside.datagrams.recv(100)
    check(place, received == b"hello", found)
    if place.has_walls:
        assert strict(place, "udp", host=METADATA, port=53) == "EACCES"


def test_a_strict_script_cannot_look_up_a_name(place: Place, resolver: str) -> None:
    if place.has_walls:
        assert int(strict(place, "resolve", name="toolrun.example")) < 0
    if resolver:
        found = strict(place, "connect", path=resolver)
        check(place, found == "ok", found, gap="sockets in the file system")


def test_a_strict_script_cannot_start_programs(place: Place) -> None:
    found = strict(place, "run", program="id", arguments=[])
    check(place, "uid=" in found, found)


def test_a_strict_script_cannot_change_its_project(place: Place) -> None:
    for path in ("data.txt", "new.txt"):
        found = strict(place, "write", path=path, content="the project's own")
        check(place, found == "ok", found)
    check(place, (place.project / "new.txt").exists(), "new.txt")


@pytest.mark.parametrize("path", ["key", "toolrun.toml", ".toolrun/journal.db"])
def test_a_strict_script_reads_none_of_what_the_project_hides(place: Place, path: str) -> None:
    """On every rung, also where nothing can be mounted over it."""
    found = strict(place, "read", path=path)
    check(place, found not in ("", "EACCES", "ENOENT"), found)


def test_a_strict_script_can_list_its_project(place: Place) -> None:
    assert {"data.txt", "tools"} <= set(strict(place, "read", path=".").split())


def test_a_strict_script_can_read_its_project_and_has_temporary_files(place: Place) -> None:
    assert strict(place, "read", path="data.txt") == "the project's own"
    assert strict(place, "temporary", content="kept for a moment") == "kept for a moment"


def test_a_script_gets_no_variable_that_is_not_granted(place: Place) -> None:
    assert granted(place, "setting", variable="GRANTED") == "a granted variable"
    assert granted(place, "setting", variable="WITHHELD") == strict(place, "setting", variable="GRANTED") == "None"


def test_a_script_reads_what_it_is_granted_and_writes_nothing_there(place: Place) -> None:
    path = str(place.home / "readable" / "file.txt")
    assert granted(place, "read", path=path) == "to be read"
    check(place, granted(place, "open_to_write", path=path) == "ok", path)
    found = strict(place, "read", path=path)
    check(place, found == "to be read", found)


def test_a_script_writes_what_it_is_granted(place: Place) -> None:
    path = place.home / "writable" / "new.txt"
    assert granted(place, "write", path=str(path), content="written") == "ok"
    assert path.read_text() == "written"
    path.unlink()
    found = strict(place, "write", path=str(path), content="written")
    check(place, found == "ok", found)


def test_a_script_starts_the_program_that_it_is_granted_and_no_other(place: Place) -> None:
    assert f"uid={place.kind.uid}" in granted(place, "run", program="id", arguments=[])
    found = granted(place, "run", program="uname", arguments=[])
    check(place, "Linux" in found, found)


def test_a_script_has_the_network_if_it_is_granted(place: Place, outside: Outside) -> None:
    assert granted(place, "fetch", url=f"http://127.0.0.1:{outside.port}/") == "a page"


WITH_PROXY = pytest.mark.parametrize("place", [it for it in WALLS if it.rung == NAMESPACES], ids=str, indirect=True)
WITHOUT_PROXY = pytest.mark.parametrize("place", [it for it in WALLS if it.rung != NAMESPACES], ids=str, indirect=True)


def ask(place: Place, function: str, **arguments: object) -> str:
    """What a script gets that may reach one server."""
    return str(place.attack(function, tool="caller", **arguments))


@WITH_PROXY
def test_a_script_reaches_the_server_that_it_is_granted(place: Place, outside: Outside) -> None:
    assert ask(place, "fetch", url=f"http://localhost:{outside.port}/") == "a page"


@WITH_PROXY
@pytest.mark.parametrize("host", ["other.example:80", f"{METADATA}:80", "localhost:1", "127.0.0.1:80"])
def test_a_script_is_told_of_a_server_that_it_is_not_granted(place: Place, host: str) -> None:
    found = ask(place, "fetch", url=f"http://{host}/")
    assert found.startswith("403 ")
    assert f"The sandbox stopped the connection to {host}" in found
    assert "'net'" in found


@WITH_PROXY
def test_a_script_that_is_granted_a_server_has_no_other_way_out(place: Place, outside: Outside) -> None:
    assert ask(place, "tcp", host="127.0.0.1", port=outside.port) == "ECONNREFUSED"
    assert ask(place, "tcp", host=METADATA, port=80) == "ENETUNREACH"
    assert ask(place, "udp", host=METADATA, port=53) == "ENETUNREACH"
    assert int(ask(place, "resolve", name="other.example")) < 0


@WITHOUT_PROXY
def test_a_list_of_hosts_is_refused_where_it_cannot_be_enforced(place: Place) -> None:
    answer = place.call("walls", tool="caller")
    assert "needs the sandbox 'namespaces'" in answer.error
