"""The host and the workers of other tools are out of reach: their memory, variables, pipes, and they themselves."""

from __future__ import annotations

from sandbox.place import CANARY, SECRET, TOKEN, Place, check


def others(place: Place, victim: list[int]) -> list[int]:
    """The processes that an intruder is interested in."""
    return [place.process.pid, *victim]


def test_the_memory_of_another_worker_cannot_be_read(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("memory", pids=victim, pattern=CANARY)
    check(place, SECRET in found, found)


def test_the_memory_of_the_host_cannot_be_read(place: Place) -> None:
    with place.victim():
        found = place.attack("memory", pids=[place.process.pid], pattern=CANARY)
    if place.has_walls or place.kind.uid != 0:  # it is not dumpable while it has secrets, which stops all but root
        assert SECRET not in found
    else:
        assert SECRET in found


def test_the_variables_of_another_worker_cannot_be_read(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("variables", pids=victim)
    check(place, TOKEN in found, found)


def test_the_variables_of_the_host_cannot_be_read(place: Place) -> None:
    found = place.attack("variables", pids=[place.process.pid])
    assert (TOKEN in found) == (not place.has_walls and place.kind.uid == 0)  # as above


def test_another_process_cannot_be_debugged(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("attach", pids=others(place, victim))
    check(place, "ok" in found.values(), found)


def test_the_memory_of_another_process_cannot_be_copied(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("copy", pids=others(place, victim))
    check(place, not {"EPERM", "ESRCH"}.issuperset(found.values()), found)


def test_a_descriptor_of_another_process_cannot_be_taken(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("steal", pids=others(place, victim))
    check(place, "ok" in found.values(), found)


def test_the_pipes_of_another_process_cannot_be_opened(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("pipes", pids=others(place, victim))
    check(place, found, found)


def test_the_call_of_another_tool_cannot_be_answered_in_its_place(place: Place) -> None:
    with place.victim() as victim:
        place.attack("forge", pids=victim)
    answer = place.answer_of_the_victim
    check(place, answer.result != "my own answer", answer)


def test_no_signal_can_be_sent_to_another_process(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("reach", pids=others(place, victim))
    check(place, "ok" in found.values(), found, gap="can send signals")


def test_the_limits_of_another_process_cannot_be_changed(place: Place) -> None:
    with place.victim() as victim:
        found = place.attack("limit", pids=others(place, victim))
    check(place, "ok" in found.values(), found, gap="whose limits it can change")


def test_a_worker_can_look_at_its_own_processes(place: Place) -> None:
    """So that what the others prove is not a wall around everything."""
    own = place.attack("walls")["own"]
    assert "TOOLRUN_WORKER" in place.attack("variables", pids=[own])
    assert place.attack("reach", pids=[own]) == {str(own): "ok"}
    assert "python" in place.attack("run", program="ps", arguments=["-o", "comm=", "-p", str(own)])
