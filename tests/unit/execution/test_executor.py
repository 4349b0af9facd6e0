"""The pipeline: exactly one answer for every call, whatever the tool does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import pytest

from toolrun import (
    DefinitionError,
    ErrorKind,
    Limits,
    LogObserver,
    Observer,
    Progress,
    SideEffects,
    ToolContext,
    ToolError,
    ToolExecutor,
    ToolManager,
    ToolResult,
    ToolSettings,
    UsageError,
    tool,
)
from toolrun.tools.context import Call


async def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


async def test_a_call_returns_the_value_and_the_envelope_has_exactly_its_keys(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    result = await executor.execute("add", {"a": 1, "b": 2})
    assert result.success
    assert result.result == 3
    assert list(result.to_dict()) == ["success", "result", "tool_name", "execution_time_ms"]
    assert result.execution_time_ms > 0
    assert result.text == "3"


async def test_arguments_may_come_as_json_text(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    assert (await executor.execute("add", '{"a": 40, "b": 2}')).result == 42
    assert (await executor.execute("add", b'{"a": 40, "b": 2}')).result == 42
    broken = await executor.execute("add", '{"a": 40, "b"')
    assert broken.error_kind is ErrorKind.INVALID_ARGUMENTS


async def test_a_repair_is_recorded_and_the_tool_gets_the_repaired_value(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    result = await executor.execute("add", {"a": 1, "b": "2"})
    assert result.result == 3
    assert [(repair.path, repair.before, repair.after) for repair in result.repairs] == [("b", "2", 2)]


async def test_an_invalid_call_does_not_run_and_says_what_is_needed(executor: ToolExecutor) -> None:
    ran = []

    @tool
    async def search(query: str, limit: int = 10) -> str:
        """Search.

        Args:
            query: What to look for
        """
        ran.append(query)
        return query

    executor.manager.add(search)
    result = await executor.execute("search", {"limit": 3})
    assert not ran
    assert result.to_dict()["error"] == "Invalid parameters: missing 'query'"
    assert result.side_effects is SideEffects.NOT_STARTED
    assert "What to look for" in result.text


async def test_an_unknown_tool_is_answered_with_close_names(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    result = await executor.execute("ad", {"a": 1})
    assert result.to_dict()["error"] == "Tool 'ad' not found"
    assert result.text.splitlines() == ['Error: Unknown tool "ad"', "Did you mean add?"]
    assert (await executor.execute(None)).error_kind is ErrorKind.UNKNOWN_TOOL  # type: ignore[arg-type]
    assert not (await executor.execute(["add"], {})).success  # type: ignore[arg-type]


async def test_a_name_without_its_prefix_and_a_program_without_tools_are_told_so(executor: ToolExecutor) -> None:
    assert (await executor.execute("estimate")).text.splitlines()[1:] == ["There are no tools."]
    executor.manager.add(tool(name="photos.estimate")(add))
    executor.manager.add(tool(name="estimates")(add))
    assert (await executor.execute("estimate")).text.splitlines()[1:] == ["Did you mean photos.estimate?"]


@pytest.mark.parametrize("where", ["async", "late", "sync", "inline"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no such city"), ErrorKind.TOOL_ERROR),
        (ToolError("no such city"), ErrorKind.TOOL_ERROR),
        (ConnectionRefusedError("refused"), ErrorKind.UNAVAILABLE),
        (TimeoutError("upstream"), ErrorKind.TIMEOUT),
        (SystemExit(3), ErrorKind.TOOL_ERROR),
        (KeyboardInterrupt(), ErrorKind.TOOL_ERROR),
        (StopIteration(1), ErrorKind.TOOL_ERROR),
        (GeneratorExit(), ErrorKind.TOOL_ERROR),
        (asyncio.CancelledError(), ErrorKind.CANCELLED),
    ],
)
async def test_whatever_a_tool_raises_is_an_answer(
    executor: ToolExecutor, where: str, error: BaseException, kind: ErrorKind
) -> None:
    async def at_once() -> None:
        """Raise."""
        raise error

    async def late() -> None:
        """Raise."""
        await asyncio.sleep(0)
        raise error

    def blocking() -> None:
        """Raise."""
        raise error

    body: Callable[[], Any] = {"async": at_once, "late": late}.get(where, blocking)
    executor.manager.add(tool(name="raises", inline=where == "inline")(body))
    result = await executor.execute("raises")
    assert not result.success
    assert result.error_kind is kind
    assert result.error
    assert (await executor.execute("raises")).error_kind is kind, "and the executor goes on"


async def test_an_exception_that_cannot_say_what_it_is_and_a_recursion_without_end_are_answers(
    executor: ToolExecutor,
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    @executor.manager.add
    async def mute() -> None:
        """Raise."""
        raise MuteError

    @executor.manager.add
    async def deep(n: int) -> int:
        """Recurse."""
        reached: int = await deep(n + 1)
        return reached

    assert (await executor.execute("mute")).error == "MuteError"
    result = await executor.execute("deep", {"n": 0})
    assert result.error_kind is ErrorKind.TOOL_ERROR


async def test_a_tool_that_calls_itself_through_the_executor_without_end_is_answered(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def again(context: ToolContext) -> str:
        """Call itself."""
        return (await context.call_tool("again")).text

    result = await executor.execute("again")
    assert result.text == "Error: Tools call each other more than 32 levels deep"


async def test_side_effects_say_whether_the_tool_may_have_acted(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def fails() -> None:
        """Fail."""
        raise ValueError("x")

    @executor.manager.add
    async def hangs() -> None:
        """Hang."""
        await asyncio.Event().wait()

    assert (await executor.execute("nope")).side_effects is SideEffects.NOT_STARTED
    assert (await executor.execute("fails")).side_effects is SideEffects.FAILED
    assert (await executor.execute("hangs", timeout=0.01)).side_effects is SideEffects.UNKNOWN


async def test_a_function_gets_its_context_config_and_granted_secrets_only() -> None:
    settings = {"aware": ToolSettings(config={"units": "metric"}, secrets=("KEY",))}
    executor = ToolExecutor(ToolManager([add]), settings=settings, secrets={"KEY": "s3cret", "OTHER": "hidden"})
    seen: list[ToolContext] = []

    @executor.manager.add
    def aware(city: str, context: ToolContext) -> int:
        """Look around."""
        seen.append(context)
        inner = context.call_tool_sync("add", {"a": 1, "b": 1})
        assert isinstance(inner.result, int)
        return inner.result

    assert "context" not in str(aware.schema)
    result = await executor.execute("aware", {"city": "Rome"}, call_id="c1")
    assert result.result == 2
    context = seen[0]
    assert (context.call_id, context.tool_name) == ("c1", "aware")
    assert dict(context.config) == {"units": "metric"}
    assert dict(context.secrets) == {"KEY": "s3cret"}
    assert context.manager is executor.manager
    assert "s3cret" not in repr(context)
    await executor.close()


@pytest.mark.parametrize("blocking", [False, True])
async def test_progress_reaches_the_caller_from_the_loop_and_from_a_thread(
    executor: ToolExecutor, blocking: bool
) -> None:
    seen: list[Progress] = []

    async def on_the_loop(context: ToolContext) -> None:
        """Report."""
        context.progress(1, 2, "half")
        await asyncio.sleep(0)

    def in_a_thread(context: ToolContext) -> None:
        """Report."""
        context.progress(1, 2, "half")

    executor.manager.add(tool(name="reports")(in_a_thread if blocking else on_the_loop))
    await executor.execute("reports", on_progress=seen.append)
    assert seen == [Progress(1, 2, "half")]

    def broken(progress: Progress) -> None:
        raise RuntimeError("listener")

    assert (await executor.execute("reports", on_progress=broken)).success


async def test_context_variables_of_the_caller_reach_the_tool(executor: ToolExecutor) -> None:
    request = contextvars.ContextVar[str]("request")

    @executor.manager.add
    async def on_the_loop() -> str:
        """Read."""
        await asyncio.sleep(0)
        return request.get()

    @executor.manager.add
    def in_a_thread() -> str:
        """Read."""
        return request.get()

    request.set("r1")
    assert (await executor.execute("on_the_loop")).result == "r1"
    assert (await executor.execute("in_a_thread")).result == "r1"


async def test_an_observer_that_fails_never_fails_a_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        def call_started(self, call: Call) -> None:
            raise RuntimeError("start")

        def call_finished(self, call: Call, result: ToolResult) -> None:
            raise RuntimeError("finish")

    executor = ToolExecutor(ToolManager([add]), observers=[Broken(), LogObserver()])
    assert (await executor.execute("add", {"a": 1})).result == 2
    assert [record.message for record in caplog.records].count("an observer failed") == 2
    await executor.close()


async def test_a_tool_that_is_replaced_is_run_anew_with_its_own_schema(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    assert (await executor.execute("add", {"a": 1})).result == 2

    async def better(a: str) -> str:
        """Add a dot."""
        return a + "."

    executor.manager.add(tool(name="add")(better))
    assert (await executor.execute("add", {"a": "x"})).result == "x."
    executor.manager.remove("add")
    assert (await executor.execute("add", {"a": "x"})).error_kind is ErrorKind.UNKNOWN_TOOL


async def test_objects_with_invoke_or_ainvoke_run_as_they_are(executor: ToolExecutor) -> None:
    class Blocking:
        name, description = "blocking", "Runs in a thread."
        schema: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"x": {"type": "integer"}}}

        def invoke(self, arguments: dict[str, Any]) -> str:
            return f"{threading.current_thread().name} {arguments['x']}"

    class Awaitable(Blocking):
        name = "awaitable"

        async def ainvoke(self, arguments: dict[str, Any]) -> int:
            await asyncio.sleep(0)
            return int(arguments["x"])

    class Disguised(Blocking):
        name = "disguised"

        def invoke(self, arguments: dict[str, Any]) -> Any:
            return asyncio.sleep(0, result=arguments["x"])

    for made in (Blocking(), Awaitable(), Disguised()):
        assert executor.manager.add(made) is made
    assert (await executor.execute("blocking", {"x": "1"})).result == "toolrun 1"
    assert (await executor.execute("awaitable", {"x": 2})).result == 2
    assert (await executor.execute("disguised", {"x": 3})).result == 3


async def test_extra_arguments_are_dropped_with_a_log_line_and_refused_in_strict_mode(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.manager.add(add)
    with caplog.at_level(logging.INFO, "toolrun"):
        assert (await executor.execute("add", {"a": 1, "colour": "red"})).result == 2
    assert "colour" in caplog.text
    strict = ToolExecutor(executor.manager, limits=Limits(strict=True))
    assert "colour" in ((await strict.execute("add", {"a": 1, "colour": "red"})).error or "")
    await strict.close()


async def test_a_long_result_is_cut_for_the_model_and_kept_whole_in_the_result() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_result_chars=1000))

    @executor.manager.add
    async def long() -> str:
        """Return much."""
        return "a" * 5000 + "z" * 5000

    result = await executor.execute("long")
    assert isinstance(result.result, str)
    assert len(result.result) == 10_000
    assert "9,000 of 10,000 characters left out" in result.text
    assert result.text.startswith("aaa")
    assert result.text.endswith("zzz")
    await executor.close()


def test_an_executor_works_on_one_loop_after_another() -> None:
    executor = ToolExecutor(ToolManager([add]))

    @executor.manager.add
    def blocking(mode: Literal["x"]) -> str:
        """Block."""
        return mode

    for _ in range(3):
        assert asyncio.run(executor.execute("add", {"a": 1})).result == 2
        assert asyncio.run(executor.execute("blocking", {"mode": "X "})).result == "x"
    asyncio.run(executor.close())


BAD_TIMEOUTS: Any = [0, -1, float("nan"), float("inf"), True, "5", [1], 10**400]


@pytest.mark.parametrize("timeout", BAD_TIMEOUTS, ids=lambda it: repr(it)[:10])
async def test_a_timeout_that_is_not_a_number_above_zero_is_refused(executor: ToolExecutor, timeout: Any) -> None:
    ran: list[int] = []

    @executor.manager.add
    async def acts() -> None:
        """Act."""
        ran.append(1)

    result = await executor.execute("acts", timeout=timeout)
    assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)
    assert "timeout must be a number of seconds > 0; got" in str(result.error)
    assert not ran
    with pytest.raises(DefinitionError, match=r"Tool 'acts': timeout must be a number of seconds > 0; got"):
        tool(timeout=timeout)(acts.function)
    with pytest.raises(UsageError, match=r"^timeout must be a number of seconds > 0; got"):
        ToolExecutor(ToolManager(), timeout)
    with pytest.raises(UsageError, match=r"settings\['acts'\].timeout must be a number"):
        ToolExecutor(ToolManager(), settings={"acts": ToolSettings(timeout=timeout)})


@pytest.mark.parametrize(
    "name", ["x" * 16_000_000, "\ud800", "\ud800" * 1000, 5, None, ["x"]], ids=lambda it: str(it)[:4]
)
async def test_whatever_the_name_is_the_answer_is_short(executor: ToolExecutor, name: Any) -> None:
    executor.manager.add(add)
    result = await executor.execute(name)
    assert result.error_kind is ErrorKind.UNKNOWN_TOOL
    assert len(result.tool_name) <= 1300, "200 characters, or as many escapes"
    assert len(result.text) < 3000
    assert result.tool_name.encode(), "it can be sent"
