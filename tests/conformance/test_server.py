"""`toolrun serve --http` under the official conformance suite, both eras."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import suite
from conformance.suite import Check
from support.serving import Served, http_client, served

HERE = Path(__file__).parent
RUNS = [("conformance-0.1", None), ("conformance-0.2", "2025-11-25"), ("conformance-0.2", "2026-07-28")]


def applicable(side: str) -> list[str]:
    """The scenarios that must pass."""
    lines = (HERE / "applicable.tsv").read_text(encoding="utf-8").splitlines()
    return [line.partition("\t")[2] for line in lines if line.partition("\t")[0] == side]


def not_applicable(side: str) -> dict[tuple[str, str], str]:
    """The reason by scenario and check; the check is empty where it is all of the scenario."""
    with (HERE / "not_applicable.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        return {(scenario, check): reason for of, scenario, check, reason in rows if of == side}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(cwd=HERE / "project") as running:
        yield running


async def is_up(server: Served) -> bool:
    """A dead server still passes some scenarios."""
    async with http_client(server.url, "2026-07-28") as client:
        return bool((await client.list_tools()).tools)


@pytest.mark.parametrize(("version", "revision"), RUNS)
async def test_every_scenario_that_applies_passes(
    version: str, revision: str | None, server: Served, tmp_path: Path
) -> None:
    assert await is_up(server)
    options = ["--suite", "all", "-o", str(tmp_path), *(["--spec-version", revision] if revision else [])]
    names = suite.scenarios(version, "server", revision)
    done = suite.run(version, "server", "--url", server.url, *options)
    assert await is_up(server), server.log
    judge(list(suite.checks(tmp_path, "server", names)), "server", names, done.stdout)


def judge(found: list[Check], side: str, names: list[str], output: str) -> None:
    """Fail unless every scenario out of `names` that applies was run, and has passed."""
    expected, excused = [name for name in names if name in applicable(side)], not_applicable(side)
    assert expected
    for scenario in expected:
        checks = [it for it in found if it.scenario == scenario and (scenario, it.id) not in excused]
        bad = [f"{it.id}: {it.message}" for it in checks if it.status in ("FAILURE", "WARNING")]
        assert not bad, f"{scenario}: {bad}"
        assert "SUCCESS" in [it.status for it in checks], f"{scenario} has proved nothing\n{output[-3000:]}"


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("version", suite.SUITES)
def test_every_scenario_of_the_suite_is_judged(version: str, side: str) -> None:
    judged = {*applicable(side), *(scenario for scenario, check in not_applicable(side) if not check)}
    names = suite.scenarios(version, side)
    assert names
    assert [name for name in names if name not in judged] == []


@pytest.mark.parametrize("side", ["server", "client"])
def test_nothing_is_judged_that_is_in_no_suite(side: str) -> None:
    names = {name for version in suite.SUITES for name in suite.scenarios(version, side)}
    excused = not_applicable(side)
    assert {*applicable(side), *(scenario for scenario, _ in excused)} <= names
    assert not {scenario for scenario, check in excused if not check} & {*applicable(side)}
    assert all(reason.strip() for reason in excused.values())
