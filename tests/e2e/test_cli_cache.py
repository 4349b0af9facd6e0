"""`toolrun cache`: what is kept, what is in use, and what is deleted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.console import toolrun, write_project
from toolrun import Runtime

SCRIPT = """# /// script
# dependencies = []
# ///
def greet(name: str) -> str:
    'Greet somebody.'
    return f"Hello, {name}!"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One whose cache nobody else uses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TOOLRUN_WORKERS_CACHE", "")
    write_project(tmp_path)
    (tmp_path / "tools" / "greet.py").write_text(SCRIPT)
    return tmp_path


def cache(project: Path, *arguments: str) -> Any:
    done = toolrun("cache", *arguments, "--json", cwd=project, env={"TOOLRUN_WORKERS_CACHE": ""})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def call(project: Path) -> str:
    return toolrun("call", "greet", "name=Ann", cwd=project, env={"TOOLRUN_WORKERS_CACHE": ""}).stdout


def test_the_cache_is_in_the_directory_of_the_platform_and_can_be_made_again(project: Path) -> None:
    assert call(project) == "Hello, Ann!\n"
    shown = cache(project)
    assert shown["directory"] == str(project / "xdg" / "toolrun")
    [environment] = shown["environments"]
    assert (environment["packages"], environment["in_use"]) == ([], False)
    assert environment["bytes"] > 0
    assert shown["others"]["descriptions"] > 0
    table = toolrun("cache", cwd=project, env={"TOOLRUN_WORKERS_CACHE": ""})
    assert "no packages" in table.stdout
    assert "toolrun cache clean" in table.stderr

    cleaned = cache(project, "clean")
    assert (cleaned["deleted"], cleaned["in_use"]) == (1, 0)
    assert cleaned["bytes"] >= environment["bytes"]
    assert (cache(project)["environments"], cache(project)["others"]) == ([], {})
    assert "the cache is empty" in toolrun("cache", cwd=project, env={"TOOLRUN_WORKERS_CACHE": ""}).stderr
    assert call(project) == "Hello, Ann!\n"


async def test_an_environment_that_a_program_uses_stays(project: Path) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        assert (await runtime.executor.execute("greet", {"name": "Ann"})).text == "Hello, Ann!"
        assert [it["in_use"] for it in (await asyncio.to_thread(cache, project))["environments"]] == [True]
        cleaned = await asyncio.to_thread(cache, project, "clean")
        assert (cleaned["deleted"], cleaned["in_use"]) == (0, 1)
        assert (await runtime.executor.execute("greet", {"name": "Bob"})).text == "Hello, Bob!"
    assert cache(project, "clean")["deleted"] == 1


def test_days_keep_what_was_used_since_and_all_that_is_small(project: Path) -> None:
    call(project)
    assert cache(project, "clean", "--days", "1")["deleted"] == 0
    assert cache(project, "clean", "--days", "0")["deleted"] == 1
    assert cache(project)["others"]["descriptions"] > 0


def test_files_that_are_not_toolruns_stay(project: Path) -> None:
    (project / "toolrun.toml").write_text('workers.cache = "."\n')
    call(project)
    (project / "environments" / "mine.txt").write_text("mine")
    assert cache(project, "clean")["deleted"] == 1
    assert (project / "environments" / "mine.txt").read_text() == "mine"
    assert (project / "tools" / "greet.py").exists()
