"""The table of scenarios, and the tests beside it that prove them.

The tests are read, not run or imported, so that it makes no difference which of them a run collects.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Scenario:
    """A row of the table."""

    id: str
    requirement: str
    title: str
    clauses: str


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


def read_table() -> list[Scenario]:
    """All scenarios. The rows that state a requirement are left out: their scenarios prove it."""
    rows = (HERE / "scenarios.tsv").read_text(encoding="utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    assert cells[0] == ["id", "requirement", "scenario", "clauses"]
    return [Scenario(*row) for row in cells[1:] if row[2] != "(requirement)"]


def read_proofs() -> list[Proof]:
    """All test functions beside this file, except those about the table itself."""
    return [
        Proof(path.name, node.name, tuple(_scenarios(node)), ast.get_docstring(node))
        for path in sorted(HERE.glob("test_s[0-9]_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def _scenarios(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [
        str(ast.literal_eval(decorator.args[0]))
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.scenario"
    ]
