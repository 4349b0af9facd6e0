"""The table of scenarios and the tests, held against each other in both directions.

The tests are read, not run or imported, so that it makes no difference which of them a run collects.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Proof:
    """A test function of this directory."""

    file: str
    name: str
    scenarios: tuple[str, ...]
    """The ids of its `scenario` markers."""
    docstring: str | None

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


def read_table() -> list[str]:
    """The ids of all scenarios. The rows that state a requirement are left out: their scenarios prove it."""
    rows = (HERE / "scenarios.tsv").read_text(encoding="utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    assert cells[0] == ["id", "requirement", "scenario", "clauses"]
    return [id for id, _, scenario, _ in cells[1:] if scenario != "(requirement)"]


def read_to_come() -> list[tuple[str, str]]:
    """The ids of the scenarios still to come, each with the reason."""
    lines = (HERE / "to_come.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.partition(" ") for line in lines if line.strip() and not line.startswith("#")]
    return [(id, reason.strip()) for id, _, reason in entries]


def read_proofs() -> list[Proof]:
    """All test functions beside this file."""
    return [
        Proof(path.name, node.name, tuple(_scenarios(node)), ast.get_docstring(node))
        for path in sorted(HERE.glob("test_*.py"))
        if path != Path(__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def _scenarios(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [
        str(ast.literal_eval(decorator.args[0]))
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.scenario"
    ]


TABLE = read_table()
TO_COME = read_to_come()
PROOFS = read_proofs()


def test_every_scenario_has_exactly_one_test_or_is_still_to_come() -> None:
    tests = Counter(id for proof in PROOFS for id in proof.scenarios)
    to_come = Counter(id for id, _ in TO_COME)
    assert not [id for id in TABLE if tests[id] + to_come[id] == 0], "neither a test nor an entry in to_come.txt"
    assert not [id for id in TABLE if tests[id] and to_come[id]], "there is a test: take it out of to_come.txt"
    assert not [id for id in TABLE if tests[id] > 1], "several tests"
    assert not [id for id in TABLE if to_come[id] > 1], "several entries in to_come.txt"


def test_every_test_and_every_entry_to_come_is_about_a_scenario_of_the_table() -> None:
    assert len(TABLE) == len(set(TABLE)), "an id is there twice"
    assert not [str(proof) for proof in PROOFS if not set(proof.scenarios) <= set(TABLE)]
    assert not [id for id, _ in TO_COME if id not in TABLE]


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_an_acceptance_test_is_named_after_its_one_scenario_and_states_it(proof: Proof) -> None:
    assert len(proof.scenarios) == 1
    slug = re.sub(r"\W", "_", proof.scenarios[0].lower())
    assert proof.name.startswith(f"test_{slug}_")
    assert proof.file.startswith(f"test_{slug.split('_')[0]}_")
    assert proof.docstring


def test_an_entry_to_come_says_what_it_waits_for() -> None:
    assert not [id for id, reason in TO_COME if not reason]
