"""That the walls of a rung stand at all: what a worker sees of them itself. Without that no other test would count."""

from __future__ import annotations

import pytest

from sandbox.conftest import WALLS, check_possible
from sandbox.place import Kind, Place, check, open_place
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


SEEN = """import sys; seen = getattr(sys, "seen_at_start", {}); sys.seen_at_start = seen; \
seen["NAME"] = open("/proc/self/status").read().partition("Seccomp:")[2].split()[0]"""


@pytest.mark.parametrize("kind", [it for it in WALLS if it.is_own], ids=str)
def test_what_an_environment_runs_at_every_start_runs_behind_the_walls(kind: Kind) -> None:
    check_possible(kind)
    with open_place(kind) as place:
        place.attack("walls")
        [packages] = {it for it in (place.home / ".cache").rglob("site-packages") if it.is_dir()}
        for name in ("hook.pth", "sitecustomize.py"):
            (packages / name).write_text(SEEN.replace("\\\n", "").replace("NAME", name))
        assert place.attack("begun", tool="prober") == {"hook.pth": "2", "sitecustomize.py": "2"}


def test_processes_that_ended_without_a_parent_leave_nothing(place: Place) -> None:
    """Each would keep a number, of which a worker has about a thousand."""
    assert place.attack("orphans", tool="prober", count=30) == 0
