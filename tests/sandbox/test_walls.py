"""That the walls of a rung stand at all: what a worker sees of them itself. Without that no other test would count."""

from __future__ import annotations

from sandbox.place import Place, check
from toolrun.processes.sandbox.system_support import BUBBLEWRAP, LANDLOCK, NAMESPACES


def test_a_worker_is_behind_the_walls_of_its_rung(place: Place) -> None:
    seen = place.attack("walls")
    rung = place.kind.rung
    assert (seen["filter"] == "2") == place.has_walls
    assert (seen["init"] == "bwrap") == (rung == BUBBLEWRAP)
    assert (seen["own"] == 2) == (rung in (NAMESPACES, BUBBLEWRAP))
    assert (seen["temporary"] == "/tmp") == (rung in (NAMESPACES, BUBBLEWRAP))
    assert place.has_walls == bool(seen["temporary"])
    if place.has_walls:
        assert seen["capabilities"] == 0, "root is a user like any other"


def test_a_worker_does_not_see_other_processes(place: Place) -> None:
    seen = place.attack("walls")["processes"]
    check(place, place.process.pid in seen, seen, gap="sees the command lines of other processes")
    assert bool(place.gaps) == (place.kind.rung == LANDLOCK), "the other rungs are said to have no gaps"
