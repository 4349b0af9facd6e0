"""The walls on kernels whose Landlock knows less: their gaps are those that are told, and there are no others."""

from __future__ import annotations

import pytest

from sandbox.conftest import Outside
from sandbox.place import Kind, Place, check
from toolrun.processes.sandbox.system_support import BUBBLEWRAP, LANDLOCK, NAMESPACES

ON_OLD_KERNELS = pytest.mark.parametrize(
    "place",
    [Kind(rung, is_own=True, abi=abi) for rung in (NAMESPACES, BUBBLEWRAP, LANDLOCK) for abi in (5, 2, 1)],
    ids=str,
    indirect=True,
)


@ON_OLD_KERNELS
def test_an_abstract_socket_is_reached_where_that_is_told(place: Place, outside: Outside) -> None:
    found = place.attack("connect", path=outside.sockets["abstract"])
    check(place, found == "ok", found, gap="abstract sockets")
    is_open = place.attack("connect", tool="recluse", path=outside.sockets["abstract"]) == "ok"
    assert is_open == (place.kind.rung == LANDLOCK), "elsewhere who has no network has a network of its own"


@ON_OLD_KERNELS
def test_a_signal_is_sent_where_that_is_told(place: Place) -> None:
    found = place.attack("reach", pids=[place.process.pid])
    check(place, "ok" in found.values(), found, gap="can send signals")


@ON_OLD_KERNELS
def test_a_file_outside_is_not_emptied(place: Place) -> None:
    file = place.home / "other" / "notes.txt"
    assert place.attack("truncate", path=str(file)) != "ok"
    assert file.read_text() == "another project's own"


@ON_OLD_KERNELS
def test_a_file_is_moved_to_another_directory_unless_the_gaps_tell_otherwise(place: Place) -> None:
    (place.project / "directory").mkdir(exist_ok=True)
    assert place.attack("write", path="moving.txt", content="moved") == "ok"
    is_told = any("cannot move files" in it for it in place.gaps)
    assert place.attack("move", path="moving.txt", to="directory/moved.txt") == ("EXDEV" if is_told else "ok")


@ON_OLD_KERNELS
def test_the_home_and_private_files_are_closed(place: Place) -> None:
    for path in (place.home / ".ssh" / "id_ed25519", place.home / ".cache" / "toolrun", "/etc/shadow"):
        assert place.attack("read", path=str(path)) in ("EACCES", "ENOENT", "")
