"""The table of scenarios and the tests, held against each other in both directions."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from acceptance.scenarios import HERE, Proof, read_proofs, read_table

TABLE = [scenario.id for scenario in read_table()]
PROOFS = read_proofs()


def test_every_scenario_has_exactly_one_test() -> None:
    tests = Counter(id for proof in PROOFS for id in proof.scenarios)
    assert not [id for id in TABLE if tests[id] == 0], "no test"
    assert not [id for id in TABLE if tests[id] > 1], "several tests"


def test_every_test_is_about_a_scenario_of_the_table() -> None:
    assert len(TABLE) == len(set(TABLE)), "an id is there twice"
    assert not [str(proof) for proof in PROOFS if not set(proof.scenarios) <= set(TABLE)]


def test_every_file_of_tests_is_about_a_specification_or_about_the_table() -> None:
    others = {path.name for path in HERE.glob("test_*.py")} - {proof.file for proof in PROOFS}
    assert others == {"test_scenarios.py", "test_conformance.py"}


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_an_acceptance_test_is_named_after_its_one_scenario_and_states_it(proof: Proof) -> None:
    assert len(proof.scenarios) == 1
    slug = re.sub(r"\W", "_", proof.scenarios[0].lower())
    assert proof.name.startswith(f"test_{slug}_")
    assert proof.file.startswith(f"test_{slug.split('_')[0]}_")
    assert proof.docstring
