"""Calls that are made again because their worker died: only where that does no harm, and as often as configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.bench import Project, is_lost
from toolrun import Runtime, SideEffects, ToolResult
from toolrun.json import JSON

FRAGILE = '''
    """Dies in its first calls."""

    import os
    from pathlib import Path

    from toolrun_sdk import idempotency_key


    def fragile(folder: str, deaths: int, value: str):
        """Die so often, then give the value back."""
        path = Path(folder) / "attempts"
        with path.open("a") as file:
            file.write(f"{idempotency_key()} {value}\\n")
        if len(path.read_text().splitlines()) <= deaths:
            os._exit(3)
        return value
'''


def attempts(project: Project) -> list[str]:
    path = project.root / "attempts"
    return path.read_text().splitlines() if path.exists() else []


def configured(project: Project, **settings: object) -> Path:
    path = project.configure()
    lines = [f"{key} = {value!r}" for key, value in settings.items()]
    path.write_text("\n".join([path.read_text(), "[tool.fragile]", *lines, ""]))
    return path


async def call(project: Project, deaths: int, **settings: object) -> ToolResult:
    project.write("fragile", FRAGILE)
    async with Runtime.open(configured(project, **settings)) as runtime:
        arguments: dict[str, JSON] = {"folder": str(project.root), "deaths": deaths, "value": "v"}
        return await runtime.executor.execute("fragile", arguments)


@pytest.mark.parametrize("effects", ["none", "idempotent", "keyed"])
async def test_a_call_that_may_be_made_again_is(project: Project, effects: str) -> None:
    result = await call(project, 2, effects=effects, retries=2)
    assert (result.result, result.error) == ("v", None)
    assert len(attempts(project)) == 3


@pytest.mark.parametrize("effects", ["once", None])
async def test_a_call_that_may_not_be_made_again_is_not(project: Project, effects: str | None) -> None:
    result = await call(project, 1, retries=2, **({} if effects is None else {"effects": effects}))
    assert is_lost(result)
    assert result.side_effects is SideEffects.UNKNOWN
    assert len(attempts(project)) == 1


async def test_a_call_is_not_made_again_more_often_than_configured(project: Project) -> None:
    result = await call(project, 5, effects="none", retries=1)
    assert is_lost(result)
    assert len(attempts(project)) == 2


async def test_nothing_is_made_again_by_default(project: Project) -> None:
    assert is_lost(await call(project, 1, effects="none"))
    assert len(attempts(project)) == 1


async def test_each_attempt_of_a_keyed_call_has_the_same_key(project: Project) -> None:
    result = await call(project, 1, effects="keyed", retries=1)
    assert result.success
    first, second = attempts(project)
    assert first == second
