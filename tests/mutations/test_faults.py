"""The list of faults against the sources, the scenarios and the tests. `script/mutate` tries them."""

from __future__ import annotations

import ast
import re

import pytest

from acceptance.scenarios import read_table
from mutations.fault import ROOT, Fault, load_faults

FAULTS = load_faults()


def test_every_scenario_has_a_fault() -> None:
    scenarios = {scenario.id for scenario in read_table()}
    named = {id for fault in FAULTS for id in fault.scenarios}
    assert scenarios - named == set(), "no fault"
    assert named - scenarios == set(), "no such scenario"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}-{fault.list_name}")
def test_a_fault_fits_the_sources_and_leaves_them_valid(fault: Fault) -> None:
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    changed = fault.apply(text)  # raises if the old text is not there exactly once
    assert changed != text
    if fault.file.endswith(".py"):
        ast.parse(changed)
    assert fault.why


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}-{fault.list_name}")
def test_a_fault_names_tests_that_exist(fault: Fault) -> None:
    assert fault.scenarios or fault.tests
    for test in fault.tests:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test
