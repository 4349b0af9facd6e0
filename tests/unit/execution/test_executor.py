"""The pipeline: exactly one answer for every call, whatever the tool does."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import pytest

from support.waiting import until
from toolrun import (
    DefinitionError,
    ErrorKind,
    Limits,
    LogObserver,
    Observer,
    Progress,
    SideEffects,
    ToolCall,
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


async def test_an_async_tool_is_cancelled_at_its_deadline(executor: ToolExecutor) -> None:
    cancelled = asyncio.Event()

    @executor.manager.add
    async def hangs() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    result = await executor.execute("hangs", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.error == "Tool 'hangs' timed out after 0.01 s"
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_tool_that_swallows_its_cancellation_does_not_hold_the_answer_back(executor: ToolExecutor) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def stubborn() -> str:
        """Go on whatever happens."""
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        ended.set()
        return "too late"

    result = await executor.execute("stubborn", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert executor.health().lingering == 1
    release.set()
    await asyncio.wait_for(ended.wait(), 5)
    await asyncio.sleep(0)
    assert executor.health().lingering == 0


async def test_the_tools_own_time_out_inside_never_reaches_the_caller(executor: ToolExecutor) -> None:
    """A scope that the tool opened before it was given up must not cancel whoever called it."""
    given_up, fired = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def scoped() -> None:
        """Wait, with a time-out of its own that fires after the answer."""
        try:
            async with asyncio.timeout(0.05):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    given_up.set()
                await asyncio.Event().wait()
        except (TimeoutError, asyncio.CancelledError):
            fired.set()

    assert (await executor.execute("scoped", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    await asyncio.wait_for(given_up.wait(), 5)
    await asyncio.wait_for(fired.wait(), 5)  # it hit the tool's task, and not this one


async def test_a_blocking_tool_is_abandoned_at_its_deadline_counted_and_no_other_call_waits(
    executor: ToolExecutor,
) -> None:
    release = threading.Event()

    @executor.manager.add
    def blocks() -> str:
        """Block."""
        release.wait(10)
        return "late"

    executor.manager.add(add)
    result = await executor.execute("blocks", timeout=0.01)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.side_effects is SideEffects.UNKNOWN
    assert executor.health().abandoned == {"blocks": 1}
    assert (await executor.execute("add", {"a": 1})).result == 2
    release.set()
    await until(lambda: not executor.health().abandoned)


async def test_beyond_the_limit_of_abandoned_threads_blocking_calls_are_refused_and_async_ones_go_on() -> None:
    release = threading.Event()
    executor = ToolExecutor(ToolManager([add]), limits=Limits(max_abandoned=2))

    @executor.manager.add
    def blocks() -> None:
        """Block."""
        release.wait(10)

    for _ in range(2):
        assert (await executor.execute("blocks", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    refused = await executor.execute("blocks")
    assert refused.error_kind is ErrorKind.OVERLOADED
    assert "blocks (2)" in (refused.error or "")
    assert (await executor.execute("add", {"a": 1})).success
    release.set()
    await until(lambda: not executor.health().abandoned)
    assert (await executor.execute("blocks")).success
    await executor.close()


async def test_cancelling_the_caller_cancels_the_tool_and_is_raised(executor: ToolExecutor) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()
    seen: list[ToolResult] = []

    class Watcher(Observer):
        def call_finished(self, call: Call, result: ToolResult) -> None:
            seen.append(result)

    watched = ToolExecutor(ToolManager(), observers=[Watcher()])

    @watched.manager.add
    async def hangs() -> None:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(watched.execute("hangs"))
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 5)
    assert [result.error_kind for result in seen] == [ErrorKind.CANCELLED]
    await watched.close()


async def test_a_batch_is_answered_in_order_run_side_by_side_and_never_overloads_itself() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=3, max_queue=0))
    running, most = 0, 0

    @executor.manager.add
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(n % 3 + 1):
            await asyncio.sleep(0)
        running -= 1
        return n

    calls = [ToolCall(str(n), "work", {"n": n}) for n in range(20)]
    results = await executor.execute_many([*calls, ToolCall("x", "nope")])
    assert [result.result for result in results[:20]] == list(range(20))
    assert [result.call_id for result in results] == [call.id for call in calls] + ["x"]
    assert results[20].error_kind is ErrorKind.UNKNOWN_TOOL
    assert most == 3
    await executor.close()


async def test_calls_beyond_the_limit_wait_and_beyond_the_queue_they_are_refused() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=1, max_queue=1))
    release = asyncio.Event()

    @executor.manager.add
    async def waits() -> str:
        """Wait."""
        await release.wait()
        return "done"

    first = asyncio.create_task(executor.execute("waits"))
    second = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().queued == 1)
    third = await executor.execute("waits")
    assert third.error_kind is ErrorKind.OVERLOADED
    assert third.side_effects is SideEffects.NOT_STARTED
    release.set()
    assert [(await first).result, (await second).result] == ["done", "done"]
    assert (executor.health().running, executor.health().queued) == (0, 0)
    await executor.close()


async def test_the_wait_in_the_queue_counts_against_the_deadline_and_the_place_is_not_lost() -> None:
    executor = ToolExecutor(ToolManager(), limits=Limits(max_concurrency=1))
    release = asyncio.Event()

    @executor.manager.add
    async def waits() -> str:
        """Wait."""
        await release.wait()
        return "done"

    first = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().running == 1)
    late = await executor.execute("waits", timeout=0.01)
    assert late.error_kind is ErrorKind.TIMEOUT
    assert late.side_effects is SideEffects.NOT_STARTED
    cancelled = asyncio.create_task(executor.execute("waits"))
    await until(lambda: executor.health().queued == 1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    release.set()
    assert (await first).success
    assert (await executor.execute("waits")).success
    await executor.close()


async def test_the_slot_of_a_tool_stays_taken_until_its_body_has_ended() -> None:
    """A tool that may run once at a time must not run twice because its first call was given up."""
    executor = ToolExecutor(ToolManager(), settings={"blocks": ToolSettings(concurrency=1)})
    release = threading.Event()
    inside = []

    @executor.manager.add
    def blocks() -> None:
        """Block."""
        inside.append(1)
        assert len(inside) == 1
        release.wait(10)
        inside.pop()

    assert (await executor.execute("blocks", timeout=0.01)).error_kind is ErrorKind.TIMEOUT
    assert (await executor.execute("blocks", timeout=0.01)).side_effects is SideEffects.NOT_STARTED
    release.set()
    assert (await executor.execute("blocks")).success
    await executor.close()


async def test_a_tool_that_calls_tools_does_not_wait_for_its_own_place() -> None:
    executor = ToolExecutor(ToolManager([add]), limits=Limits(max_concurrency=1))

    @executor.manager.add
    async def outer(context: ToolContext) -> int:
        """Call add."""
        await asyncio.sleep(0)
        result = await context.call_tool("add", {"a": 1})
        assert isinstance(result.result, int)
        return result.result

    assert (await executor.execute("outer")).result == 2
    await executor.close()


async def test_a_call_inside_a_call_ends_at_the_outer_deadline(executor: ToolExecutor) -> None:
    inner: list[float] = []

    @executor.manager.add
    async def leaf(context: ToolContext) -> None:
        """Note the time left."""
        inner.append(context.remaining())

    @executor.manager.add
    async def outer(context: ToolContext) -> None:
        """Call leaf with much time."""
        await context.call_tool("leaf", timeout=1000)

    await executor.execute("outer", timeout=3)
    assert inner[0] <= 3


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


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_tool_without_await_that_cancels_the_current_task_does_not_cancel_its_caller(
    executor: ToolExecutor, times: int
) -> None:
    @executor.manager.add
    async def cancels() -> int:
        """Cancel."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        return 7

    @executor.manager.add
    @tool(inline=True)
    def cancels_inline() -> Any:
        """Cancel, and return something that is finalised in a thread."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()
        return {1, 2}

    caller = asyncio.current_task()
    assert caller is not None
    assert (await executor.execute("cancels")).result == 7
    assert (await executor.execute("cancels_inline")).result == [1, 2]
    await asyncio.sleep(0)
    assert caller.cancelling() == 0


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_cancellation_of_the_caller_that_came_before_such_a_tool_is_kept(
    executor: ToolExecutor, times: int
) -> None:
    @executor.manager.add
    async def cancels() -> None:
        """Cancel."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(times):
            task.cancel()

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await executor.execute("cancels")
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(call())


async def cancel_later(task: asyncio.Task[Any]) -> None:
    task.cancel()


def cancel_if_there(known: weakref.ref[asyncio.Task[Any]]) -> None:
    task = known()
    if task is not None:
        task.cancel()


HAND_OVERS: dict[str, Callable[[asyncio.Task[Any]], object]] = {
    "call_soon": lambda task: asyncio.get_running_loop().call_soon(task.cancel),
    "call_later": lambda task: asyncio.get_running_loop().call_later(0, task.cancel),
    "call_at": lambda task: asyncio.get_running_loop().call_at(asyncio.get_running_loop().time(), task.cancel),
    "another thread": lambda task: asyncio.get_running_loop().call_soon_threadsafe(task.cancel),
    "another task": lambda task: asyncio.get_running_loop().create_task(cancel_later(task)),
    "a weak reference": lambda task: asyncio.get_running_loop().call_soon(cancel_if_there, weakref.ref(task)),
}


@pytest.mark.parametrize("hand_over", HAND_OVERS.values(), ids=HAND_OVERS)
@pytest.mark.parametrize("name", ["without_await", "inline", "with_await"])
async def test_a_tool_that_has_the_current_task_cancelled_later_cancels_neither_its_caller_nor_the_next_call(
    executor: ToolExecutor, hand_over: Callable[[asyncio.Task[Any]], object], name: str
) -> None:
    handed_over: list[object] = []

    def pass_on() -> int:
        task = asyncio.current_task()
        assert task is not None
        handed_over.append(hand_over(task))
        return 7

    @executor.manager.add
    async def without_await() -> int:
        """Have the task cancelled."""
        return pass_on()

    @executor.manager.add
    @tool(inline=True)
    def inline() -> int:
        """Have the task cancelled."""
        return pass_on()

    @executor.manager.add
    async def with_await(suspends: bool = False) -> int:
        """Have the task cancelled, and end without a suspension."""
        if suspends:
            await asyncio.sleep(0)
        return pass_on()

    @executor.manager.add
    async def waits() -> int:
        """Wait for some turns of the loop."""
        for _ in range(5):
            await asyncio.sleep(0)
        return 8

    caller = asyncio.current_task()
    assert caller is not None
    for _ in range(3):
        assert (await executor.execute(name)).result == 7
        following = await executor.execute("waits")
        assert (following.result, following.error) == (8, None)
    assert caller.cancelling() == 0
    await asyncio.gather(*(it for it in handed_over if isinstance(it, asyncio.Task)))


def self_calling(*chain: str) -> list[Any]:
    """Tools of which each calls the next, and the last the first."""

    def made(name: str, following: str) -> Any:
        async def calls(context: ToolContext) -> str:
            inner = await context.call_tool(following)
            return inner.error or str(inner.result)

        return tool(name=name, description="Call the next.")(calls)

    return [made(name, chain[(at + 1) % len(chain)]) for at, name in enumerate(chain)]


@pytest.mark.parametrize("chain", [("a",), ("a", "b"), ("a", "b", "c")], ids="".join)
async def test_a_tool_that_calls_itself_beyond_its_concurrency_is_told_at_once(chain: tuple[str, ...]) -> None:
    settings = {name: ToolSettings(concurrency=1) for name in chain}
    executor = ToolExecutor(ToolManager(self_calling(*chain)), 3600, settings=settings)
    async with asyncio.timeout(10):
        result = await executor.execute("a")
    assert "Tool 'a' would wait for itself" in str(result.result)
    async with asyncio.timeout(10):  # also calls that come in through different tools, and wait for each other
        results = await asyncio.gather(*(executor.execute(name) for name in chain))
    assert any("would wait for itself" in str(it.result) for it in results)
    await executor.close()


async def test_a_blocking_tool_that_calls_itself_beyond_its_concurrency_is_told_at_once() -> None:
    def again(context: ToolContext) -> str:
        """Call itself in both ways that a blocking tool has."""
        return f"{context.call_tool_sync('again').error} {executor.execute_sync('again').error}"

    executor = ToolExecutor(ToolManager([again]), 3600, settings={"again": ToolSettings(concurrency=1)})
    async with asyncio.timeout(10):
        result = await executor.execute("again")
    assert str(result.result).count("would wait for itself") == 2
    await executor.close()


async def test_a_call_made_by_a_tool_waits_for_another_that_will_end() -> None:
    release = asyncio.Event()

    async def once() -> str:
        """Wait."""
        await release.wait()
        return "done"

    async def outer(context: ToolContext) -> str:
        """Call once."""
        asyncio.get_running_loop().call_soon(release.set)
        return str((await context.call_tool("once")).result)

    executor = ToolExecutor(ToolManager([once, outer]), settings={"once": ToolSettings(concurrency=1)})
    first = asyncio.create_task(executor.execute("once"))
    await asyncio.sleep(0)
    assert (await executor.execute("outer")).result == "done"
    assert (await first).result == "done"
    await executor.close()


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
