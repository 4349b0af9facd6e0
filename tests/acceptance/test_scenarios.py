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
PROOFS = read_proofs()


def test_every_scenario_has_exactly_one_test() -> None:
    tests = Counter(id for proof in PROOFS for id in proof.scenarios)
    assert not [id for id in TABLE if tests[id] == 0], "no test"
    assert not [id for id in TABLE if tests[id] > 1], "several tests"


def test_every_test_is_about_a_scenario_of_the_table() -> None:
    assert len(TABLE) == len(set(TABLE)), "an id is there twice"
    assert not [str(proof) for proof in PROOFS if not set(proof.scenarios) <= set(TABLE)]


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_an_acceptance_test_is_named_after_its_one_scenario_and_states_it(proof: Proof) -> None:
    assert len(proof.scenarios) == 1
    slug = re.sub(r"\W", "_", proof.scenarios[0].lower())
    assert proof.name.startswith(f"test_{slug}_")
    assert proof.file.startswith(f"test_{slug.split('_')[0]}_")
    assert proof.docstring
