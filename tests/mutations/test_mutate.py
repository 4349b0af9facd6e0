"""`script/mutate` itself: what it chooses, and that it tells a fault that is caught from one that survives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mutations.fault import ROOT, Fault
from mutations.mutate import Copy, Verdict, choose, concerned, most_urgent_first, summary, try_all

OFFER = "src/toolrun/clients/dialect/offer.py"
CAUGHT = Fault(
    number=7,
    scenarios=("S3.15.3",),
    tests=(),
    file=OFFER,
    old="for tool in tools or ()}",
    new="for tool in tools}",
    why="no tools are an error",
    listed_in="tests/mutations/s3.toml",
)
BY_TEST = replace(
    CAUGHT,
    number=9,
    scenarios=(),
    tests=("unit/clients/dialect/test_offer.py::test_every_tool_is_offered_in_order_and_leads_back",),
    new="for tool in ()}",
    listed_in="tests/mutations/journal.toml",
)
HARMLESS = replace(CAUGHT, old="for tool in tools or ()}", new="for tool in tools or []}")


def test_faults_are_chosen_by_scenario_by_list_and_by_number() -> None:
    other = replace(CAUGHT, number=8, scenarios=("S0.1.1", "S3.1.1"))
    assert choose([CAUGHT, other], []) == [CAUGHT, other]
    assert choose([CAUGHT, other], ["S3.1.1"]) == [other]
    assert choose([CAUGHT, other], ["7"]) == [CAUGHT]
    assert choose([CAUGHT, BY_TEST, other], ["journal", "S3.1.1"]) == [BY_TEST, other]
    with pytest.raises(SystemExit, match=r"unknown scenario S9\.9\.9"):
        choose([CAUGHT], ["S9.9.9"])


@pytest.mark.parametrize("file", [OFFER, "tests/mutations/s3.toml", "tests/acceptance/test_s3_dialect.py"])
def test_a_change_of_its_file_list_or_test_concerns_a_fault(file: str) -> None:
    other = replace(CAUGHT, file="src/toolrun/json.py", listed_in="tests/mutations/s0.toml", scenarios=("S0.1.1",))
    assert concerned([CAUGHT, other], {file, "README.md"}) == [CAUGHT]
    assert concerned([CAUGHT, other], {"README.md"}) == []
    assert concerned([CAUGHT, BY_TEST], {"tests/unit/clients/dialect/test_offer.py"}) == [BY_TEST]
    assert concerned([CAUGHT, other], {"tests/acceptance/proofs.py"}) == [CAUGHT, other], "many tests use it"


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_faults_of_changed_sources_come_first_whatever_else_has_changed(seed: str) -> None:
    """A change of what the tests share concerns all faults; those of the change itself must not wait for the others."""
    others = [replace(CAUGHT, number=number, file=f"src/toolrun/{number}.py") for number in range(10, 40)]
    before = replace(CAUGHT, number=8, file="src/toolrun/json.py")
    changed, newest = {OFFER, before.file, "tests/support/console.py"}, {OFFER, "tests/support/console.py"}
    faults = concerned([*others, before, CAUGHT], changed)
    assert len(faults) == 32
    first, second, *rest = most_urgent_first(faults, changed, newest, seed)
    assert (first, second) == (CAUGHT, before)
    assert sorted(it.number for it in rest) == list(range(10, 40))


def test_what_was_not_tried_is_said() -> None:
    other = replace(CAUGHT, number=8, file="src/toolrun/json.py")
    tried = [Verdict(CAUGHT, is_caught=True)]
    assert summary(tried, [], {OFFER}) == "1 of 1 faults caught"
    assert summary(tried, [other], {OFFER}) == "1 of 1 faults caught, 1 NOT TRIED for want of time"
    assert summary([], [CAUGHT, other], {OFFER}) == (
        f"0 of 0 faults caught, 2 NOT TRIED for want of time, 1 of them in changed sources: {OFFER}"
    )


@pytest.mark.parametrize("text", ["nothing of it", "for tool in tools or ()} for tool in tools or ()}"])
def test_a_text_that_is_not_there_exactly_once_is_stale(text: str) -> None:
    with pytest.raises(ValueError, match="it must stand once"):
        CAUGHT.apply(text)


def test_urgent_faults_are_tried_whatever_the_time_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quick:
        def __init__(self, directory: Path) -> None:
            pass

        def try_fault(self, fault: Fault, limit: float | None) -> Verdict:
            assert limit is None
            return Verdict(fault, is_caught=True)

    monkeypatch.setattr("mutations.mutate.Copy", Quick)
    other = replace(CAUGHT, number=8)
    verdicts, untried = try_all([CAUGHT, other], 1, 0.0, [CAUGHT])
    assert ([it.fault for it in verdicts], untried) == ([CAUGHT], [other])


def test_a_fault_is_caught_or_survives_and_the_sources_stay_as_they_are(tmp_path: Path) -> None:
    before = (ROOT / OFFER).read_bytes()
    copy = Copy(tmp_path)
    faults = (CAUGHT, HARMLESS, BY_TEST, replace(BY_TEST, new=HARMLESS.new), replace(CAUGHT, old="no such line"))
    verdicts = [copy.try_fault(fault, None) for fault in faults]
    assert [verdict is not None and verdict.is_caught for verdict in verdicts] == [True, False, True, False, False]
    *reasons, stale = [verdict.reason for verdict in verdicts if verdict is not None]
    name = BY_TEST.tests[0].partition("::")[2]
    assert reasons == ["", "survived the test of S3.15.3", "", f"survived the test of {name}"]
    assert stale.startswith("stale: ")
    assert (ROOT / OFFER).read_bytes() == (tmp_path / OFFER).read_bytes() == before
