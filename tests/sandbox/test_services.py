"""Sockets and memory by which programs of this machine serve each other: Docker, the agent of SSH, a desktop."""

from __future__ import annotations

import pytest

from sandbox.conftest import Outside
from sandbox.place import Place, check

GAPS = {
    "system": "sockets in the file system",
    "home": "sockets in the file system",
    "data": "sockets in the file system",
    "abstract": "abstract sockets",
}


@pytest.mark.parametrize("which", GAPS)
def test_the_socket_of_another_program_cannot_be_connected_to(place: Place, outside: Outside, which: str) -> None:
    if which not in outside.sockets:
        pytest.skip("only root can put a socket where that of Docker is")
    found = place.attack("connect", path=outside.sockets[which])
    check(place, found == "ok", found, gap=GAPS[which])


def test_the_kernel_tells_of_addresses_and_routes_and_nothing_else(place: Place) -> None:
    found = place.attack("netlink")
    assert found[0] == 0
    check(place, len(found) > 1, found)


def test_memory_that_other_programs_share_cannot_be_attached(place: Place, outside: Outside) -> None:
    found = place.attack("shared_memory", key=outside.memory)
    check(place, found == "ok", found, gap="attach shared memory")


def test_files_in_memory_of_other_programs_cannot_be_read(place: Place, outside: Outside) -> None:
    found = place.attack("read", path=outside.shared_file)
    check(place, found == "shared", found, gap="attach shared memory")


def test_a_terminal_at_which_somebody_sits_cannot_be_opened(place: Place, outside: Outside) -> None:
    found = place.attack("open_to_write", path=outside.terminal)
    check(place, found == "ok", found, gap="your terminals")
