"""Files with tools that are new, edited or gone while a project is open."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolrun import Runtime

HEADER = "# /// script\n# dependencies = []\n# ///\n"
GREET = HEADER + "def greet(who: str) -> str:\n    'Greet.'\n    return f'{word} {{who}}'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "tools").mkdir()
    (tmp_path / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("toolrun_tools.")]:
        del sys.modules[name]


def write(project: Path, name: str, body: str) -> None:
    (project / "tools" / name).write_text(f"from toolrun import tool\n\n{body}\n")


def tool(name: str, answer: object) -> str:
    return f"@tool\nasync def {name}() -> object:\n    'Answer.'\n    return {answer!r}\n"


@asynccontextmanager
async def opened(project: Path) -> AsyncIterator[Runtime]:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        yield runtime


async def answer(runtime: Runtime, name: str, **arguments: str) -> str:
    return (await runtime.executor.execute(name, arguments)).text


def names(runtime: Runtime) -> list[str]:
    return sorted(it.name for it in runtime.manager)


async def test_a_new_file_is_loaded_an_edited_one_again_and_one_that_is_gone_has_no_tools(project: Path) -> None:
    write(project, "one.py", tool("first", 1))
    async with opened(project) as runtime:
        assert await runtime.refresh() == []
        write(project, "two.py", tool("second", 2))
        assert await runtime.refresh() == ["tools/two.py is new: 1 tool"]
        assert (names(runtime), await answer(runtime, "second")) == (["first", "second"], "2")

        write(project, "one.py", tool("first", 7) + tool("third", 3))  # in the same second, with bytecode beside it
        assert await runtime.refresh() == ["tools/one.py was edited: 2 tools"]
        assert (await answer(runtime, "first"), await answer(runtime, "third")) == ("7", "3")

        write(project, "one.py", tool("first", 8))
        await runtime.refresh()
        assert (await answer(runtime, "first"), names(runtime)) == ("8", ["first", "second"])

        (project / "tools" / "one.py").unlink()
        assert await runtime.refresh() == ["tools/one.py is gone"]
        assert names(runtime) == ["second"]
        assert 'Unknown tool "first"' in await answer(runtime, "first")


async def test_a_version_that_cannot_be_loaded_leaves_the_one_before_in_use(project: Path) -> None:
    write(project, "one.py", tool("first", 1))
    async with opened(project) as runtime:
        write(project, "one.py", "def broken(:")
        [line] = await runtime.refresh()
        assert line.startswith("tools/one.py was edited: cannot be imported: SyntaxError")
        assert line.endswith("; its last good version stays in use")
        assert await answer(runtime, "first") == "1"
        write(project, "one.py", tool("first", 2))
        assert await runtime.refresh() == ["tools/one.py was edited: 1 tool"]
        assert (await answer(runtime, "first"), runtime.problems) == ("2", [])


async def test_a_new_file_with_a_mistake_is_a_problem_until_it_is_corrected(project: Path) -> None:
    async with opened(project) as runtime:
        write(project, "one.py", "import nothing_of_that_name")
        [line] = await runtime.refresh()
        assert "tools/one.py is new: cannot be imported: ModuleNotFoundError" in line
        assert len(runtime.problems) == 1
        write(project, "one.py", "def forgotten(): ...")
        [line] = await runtime.refresh()
        assert "has 1 function but no @tool (forgotten)" in line
        write(project, "one.py", tool("first", 1))
        await runtime.refresh()
        assert (names(runtime), runtime.problems) == (["first"], [])


async def test_a_tool_whose_name_another_file_took_comes_back_when_that_file_is_gone(project: Path) -> None:
    write(project, "a.py", tool("same", "a"))
    write(project, "b.py", tool("same", "b"))
    async with opened(project) as runtime:
        assert await answer(runtime, "same") == "b"
        (project / "tools" / "b.py").unlink()
        await runtime.refresh()
        assert await answer(runtime, "same") == "a"


async def test_a_catalog_and_a_tool_that_is_switched_off_are_followed_as_well(project: Path) -> None:
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n[tool.off]\nenabled = false\n")
    async with opened(project) as runtime:
        mock = {"description": "Say.", "parameters": {"type": "object"}}
        entries = [
            mock | {"name": name, "implementation": {"type": "mock", "mock_response": name}} for name in ("on", "off")
        ]
        (project / "tools" / "mocks.json").write_text(json.dumps(entries))
        await runtime.refresh()
        assert (names(runtime), await answer(runtime, "on")) == (["on"], "on")
        (project / "tools" / "mocks.json").write_text("{")
        [line] = await runtime.refresh()
        assert line.endswith("its last good version stays in use")
        assert names(runtime) == ["on"]
        (project / "tools" / "mocks.json").unlink()
        await runtime.refresh()
        assert names(runtime) == []


async def test_scripts_come_change_and_go(project: Path) -> None:
    async with opened(project) as runtime:
        (project / "tools" / "greet.py").write_text(GREET.format(word="Hello"))
        assert await runtime.refresh() == ["tools/greet.py is new: 1 tool"]
        assert await answer(runtime, "greet", who="Ann") == "Hello Ann"
        (project / "tools" / "greet.py").write_text(
            GREET.format(word="Bye") + "\ndef wave() -> str:\n    'Wave.'\n    return '~'\n"
        )
        await runtime.refresh()
        assert (await answer(runtime, "greet", who="Ann"), await answer(runtime, "greet.wave")) == ("Bye Ann", "~")
        write(project, "greet.py", tool("greet", "a function now"))
        await runtime.refresh()
        assert (names(runtime), runtime.scripts) == (["greet"], [])
        assert await answer(runtime, "greet") == "a function now"
        (project / "tools" / "greet.py").write_text(GREET.format(word="Hello"))
        await runtime.refresh()
        assert await answer(runtime, "greet", who="Bob") == "Hello Bob"
        (project / "tools" / "greet.py").unlink()
        await runtime.refresh()
        assert (names(runtime), runtime.scripts) == ([], [])
