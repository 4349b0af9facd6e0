"""The list of faults against the sources and the scenarios. `script/mutate` tries them."""

from __future__ import annotations

import ast

import pytest

from acceptance.scenarios import read_table
from mutations.fault import ROOT, Fault, load_faults

FAULTS = load_faults()


def test_every_scenario_has_a_fault() -> None:
    scenarios = {scenario.id for scenario in read_table()}
    named = {id for fault in FAULTS for id in fault.scenarios}
    assert scenarios - named == set(), "no fault"
    assert named - scenarios == set(), "no such scenario"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}-{fault.scenarios[0]}")
def test_a_fault_fits_the_sources_and_leaves_them_valid_python(fault: Fault) -> None:
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    changed = fault.apply(text)  # raises if the old text is not there exactly once
    assert changed != text
    ast.parse(changed)
    assert fault.why
