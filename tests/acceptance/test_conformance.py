"""docs/conformance.md against the table of scenarios and the tests, in both directions."""

from __future__ import annotations

import re
from pathlib import Path

from acceptance.scenarios import Proof, read_proofs, read_table

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
ROW = re.compile(r"^\| (S\d+\.\d+\.\d+) \| (.+?) \| \[`(\w+)`\]\(\.\./tests/acceptance/(\w+\.py)\) \| (.*?) ?\|$")


def read_rows() -> list[tuple[str, ...]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| S")]
    rows = [ROW.match(line) for line in lines]
    assert all(rows), f"not a row: {[line for line, row in zip(lines, rows, strict=True) if row is None]}"
    return [row.groups() for row in rows if row is not None]


def test_the_page_has_a_row_for_each_scenario_in_the_order_of_the_table() -> None:
    assert [id for id, *_ in read_rows()] == [scenario.id for scenario in read_table()]


def test_each_row_has_the_requirement_and_the_test_that_states_it() -> None:
    by_scenario = {id: proof for proof in read_proofs() for id in proof.scenarios}
    for id, requirement, test, file, _ in read_rows():
        proof = by_scenario[id]
        assert (test, file) == (proof.name, proof.file), id
        assert requirement == stated(proof), id


def test_the_row_about_a_real_model_names_the_tests_that_ask_one() -> None:
    [reason] = [deviation for id, *_, deviation in read_rows() if id == "S3.16.2"]
    named = re.findall(r"\[`tests/real_model`\]\(\.\./([\w/]+\.py)\)", reason)
    assert named == ["tests/real_model/test_qwen.py"]
    assert "S3.16.2" in (PAGE.parents[1] / named[0]).read_text(encoding="utf-8")


def test_the_numbers_above_the_table_are_those_of_the_table() -> None:
    rows = read_rows()
    deviating = sum(1 for *_, deviation in rows if deviation)
    expected = f"All {len(rows)} scenarios have a test. {deviating} of them are met with a decided deviation."
    assert expected in PAGE.read_text(encoding="utf-8")


def stated(proof: Proof) -> str:
    """The first paragraph of a test's docstring, as a cell of a table."""
    assert proof.docstring is not None
    return " ".join(proof.docstring.split("\n\n")[0].split()).replace("|", "\\|")
