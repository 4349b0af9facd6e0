"""`script/mutate` itself: what it chooses, and that it tells a fault that is caught from one that survives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mutations.fault import ROOT, Fault
from mutations.mutate import Copy, choose, concerned

OFFER = "src/toolrun/clients/dialect/offer.py"
CAUGHT = Fault(
    number=7,
    scenarios=("S3.15.3",),
    file=OFFER,
    old="for tool in tools or ()}",
    new="for tool in tools}",
    why="no tools are an error",
    listed_in="tests/mutations/s3.toml",
)
HARMLESS = replace(CAUGHT, old="for tool in tools or ()}", new="for tool in tools or []}")


def test_faults_are_chosen_by_scenario_and_by_number() -> None:
    other = replace(CAUGHT, number=8, scenarios=("S0.1.1", "S3.1.1"))
    assert choose([CAUGHT, other], []) == [CAUGHT, other]
    assert choose([CAUGHT, other], ["S3.1.1"]) == [other]
    assert choose([CAUGHT, other], ["7"]) == [CAUGHT]
    with pytest.raises(SystemExit, match=r"unknown scenario S9\.9\.9"):
        choose([CAUGHT], ["S9.9.9"])


@pytest.mark.parametrize("file", [OFFER, "tests/mutations/s3.toml", "tests/acceptance/test_s3_dialect.py"])
def test_a_change_of_its_file_list_or_test_concerns_a_fault(file: str) -> None:
    other = replace(CAUGHT, file="src/toolrun/json.py", listed_in="tests/mutations/s0.toml", scenarios=("S0.1.1",))
    assert concerned([CAUGHT, other], {file, "README.md"}) == [CAUGHT]
    assert concerned([CAUGHT, other], {"README.md"}) == []
    assert concerned([CAUGHT, other], {"tests/acceptance/proofs.py"}) == [CAUGHT, other], "many tests use it"


@pytest.mark.parametrize("text", ["nothing of it", "for tool in tools or ()} for tool in tools or ()}"])
def test_a_text_that_is_not_there_exactly_once_is_stale(text: str) -> None:
    with pytest.raises(ValueError, match="it must stand once"):
        CAUGHT.apply(text)


@pytest.mark.slow
def test_a_fault_is_caught_or_survives_and_the_sources_stay_as_they_are(tmp_path: Path) -> None:
    before = (ROOT / OFFER).read_bytes()
    copy = Copy(tmp_path)
    verdicts = [copy.try_fault(fault, None) for fault in (CAUGHT, HARMLESS, replace(CAUGHT, old="not there"))]
    assert [verdict is not None and verdict.is_caught for verdict in verdicts] == [True, False, False]
    reasons = [verdict.reason for verdict in verdicts if verdict is not None]
    assert reasons[:2] == ["", "survived the test of S3.15.3"]
    assert reasons[2].startswith("stale: ")
    assert (ROOT / OFFER).read_bytes() == (tmp_path / OFFER).read_bytes() == before
