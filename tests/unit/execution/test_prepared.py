"""How a tool is run: on the loop, in a thread, or at once."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from toolrun import DefinitionError, ToolExecutor, ToolSettings, tool
from toolrun.execution.prepared import PreparedTool, never_suspends
from toolrun.tools.adapt import adapt

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


async def numbers() -> AsyncIterator[int]:
    yield 1


async def quick() -> int:
    """Return at once."""
    return 1


async def quick_with_inner() -> int:
    """Only define something that awaits."""

    async def inner() -> None:
        await asyncio.sleep(0)

    inner().close()
    return 1


async def waits() -> None:
    """Await."""
    await asyncio.sleep(0)


async def waits_in_a_branch(flag: bool = False) -> None:
    """Await, perhaps."""
    if flag:
        await asyncio.sleep(0)


async def enters() -> None:
    """Enter."""
    async with asyncio.TaskGroup():
        pass


async def loops() -> int:
    """Loop."""
    total = 0
    async for number in numbers():
        total += number
    return total


async def comprehends() -> list[int]:
    """Comprehend."""
    return [number async for number in numbers()]


def blocks() -> int:
    """Block."""
    return 1


def makes_a_coroutine() -> Awaitable[int]:
    """Make one."""
    return quick()


class Service:
    """Calls."""

    async def __call__(self) -> int:
        return await quick()


@pytest.mark.parametrize("function", [quick, quick_with_inner])
def test_a_coroutine_that_awaits_nothing_runs_at_once(function: Callable[..., object]) -> None:
    assert never_suspends(function)
    assert mode_of(tool(function)) == "inline"


@pytest.mark.parametrize("function", [waits, waits_in_a_branch, enters, loops, comprehends])
def test_a_coroutine_that_may_wait_runs_on_the_loop(function: Callable[..., object]) -> None:
    assert not never_suspends(function)
    assert mode_of(tool(function)) == "task"


@pytest.mark.parametrize("function", [blocks, numbers, makes_a_coroutine, Service(), functools.partial(quick), None])
def test_only_of_a_coroutine_function_it_is_known_that_it_never_waits(function: object) -> None:
    assert not never_suspends(function)


class ObjectTool:
    name, description = "object", "Does it."
    schema: ClassVar[Any] = SCHEMA

    def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


class InlineObject(ObjectTool):
    inline = True


class AsyncInvoke(ObjectTool):
    async def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


class SaysAsync(ObjectTool):
    is_async = True


class Both(ObjectTool):
    async def ainvoke(self, arguments: dict[str, Any]) -> object:
        return arguments


class OnlyAsync:
    name, description, schema = "object", "Does it.", SCHEMA

    async def ainvoke(self, arguments: dict[str, Any]) -> object:
        return arguments


class SyncLangChain(BaseTool):
    name: str = "sync"
    description: str = "Runs."

    def _run(self) -> int:
        return 1


class AsyncLangChain(SyncLangChain):
    async def _arun(self) -> int:
        return 1


class InheritsAsyncLangChain(AsyncLangChain):
    pass


@pytest.mark.parametrize(
    ("made", "mode"),
    [
        (tool(blocks), "thread"),
        (tool(inline=True)(blocks), "inline"),
        (tool(inline=True)(waits), "inline"),
        (tool(makes_a_coroutine), "thread"),
        (tool(name="object")(Service()), "task"),
        (tool(name="partial")(functools.partial(waits)), "task"),
        (ObjectTool(), "thread"),
        (InlineObject(), "inline"),
        (AsyncInvoke(), "task"),
        (SaysAsync(), "task"),
        (Both(), "task"),
        (OnlyAsync(), "task"),
        (StructuredTool.from_function(blocks), "thread"),
        (StructuredTool.from_function(coroutine=waits), "task"),
        (StructuredTool.from_function(blocks, waits), "task"),
        (SyncLangChain(), "thread"),
        (AsyncLangChain(), "task"),
        (InheritsAsyncLangChain(), "task"),
    ],
)
def test_every_kind_of_tool_runs_where_it_belongs(made: object, mode: str) -> None:
    assert mode_of(made) == mode


def mode_of(made: object) -> str:
    """Where the tool runs, by what starts it."""
    prepared = PreparedTool(adapt(made), ToolSettings(), 30)
    return "inline" if prepared.inline is not None else prepared.run.__qualname__.partition(".")[0].removeprefix("_in_")


@pytest.mark.parametrize(
    ("of_user", "of_tool", "timeout"),
    [(None, None, 30), (None, 2, 2), (5.0, 2, 5), (None, "slow", 30), (None, True, 30), (None, -1, 30)],
)
def test_the_users_timeout_goes_before_the_tools_and_that_before_the_executors(
    of_user: float | None, of_tool: Any, timeout: float
) -> None:
    class Timed(ObjectTool):
        pass

    Timed.timeout = of_tool  # type: ignore[attr-defined]
    assert PreparedTool(Timed(), ToolSettings(timeout=of_user), 30).timeout == timeout


def test_a_schema_that_went_bad_after_registration_names_the_tool() -> None:
    class Bad(ObjectTool):
        schema: ClassVar[Any] = {"type": "array"}

    with pytest.raises(DefinitionError, match=r"^Tool 'object': "):
        PreparedTool(Bad(), ToolSettings(), 30)


async def test_of_a_pair_of_content_and_artifact_the_model_gets_the_content(executor: ToolExecutor) -> None:
    class Adapter:
        name, description, response_format = "adapter", "Returns a pair.", "content_and_artifact"
        schema: ClassVar[dict[str, Any]] = {"type": "object"}

        async def ainvoke(self, arguments: dict[str, Any]) -> tuple[str, list[int]]:
            return "the text", [1, 2]

    class Plain(Adapter):
        name, response_format = "plain", "content"

    executor.manager.add(Adapter())
    executor.manager.add(Plain())
    for name in ("adapter", "plain"):
        result = await executor.execute(name)
        assert (result.result, result.text, result.artifact) == ("the text", "the text", [1, 2])
