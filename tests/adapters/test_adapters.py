"""All adapters over the same tools and faults, each in the loop of its own framework."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.frameworks import FRAMEWORKS, Agent, Framework, open_agent
from providers.base import Asked, Step
from toolrun import ToolContext, ToolError, ToolExecutor, tool
from toolrun.execution.approval import current_caller

pytestmark = pytest.mark.xdist_group("adapters")


@pytest.fixture(params=FRAMEWORKS, ids=lambda it: it.name)
def framework(request: pytest.FixtureRequest) -> Framework:
    found: Framework = request.param
    return found


@pytest.fixture
def agent(framework: Framework, executor: ToolExecutor) -> Iterator[Agent]:
    with open_agent(framework, executor) as opened:
        yield opened


@pytest.fixture
def add(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b


@pytest.mark.usefixtures("add")
async def test_a_call_is_repaired_run_and_answered(agent: Agent) -> None:
    agent.server.play(Step(calls=[Asked("add", {"a": "1", "b": 2}, id="c1")]), Step(text="Three."))
    assert await agent.ask() == "Three."
    assert agent.results() == {"c1": "3"}
    assert agent.offered(0)["add"]["required"] == ["a", "b"]


async def test_illegal_names_are_mapped_and_mapped_back(agent: Agent, executor: ToolExecutor) -> None:
    got: list[dict[str, Any]] = []

    class Find:
        name = "home.find"
        description = "Find things."
        schema = {  # noqa: RUF012  as any program writes it
            "type": "object",
            "properties": {"filter.name[x]": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["filter.name[x]"],
        }

        async def ainvoke(self, arguments: dict[str, Any]) -> str:
            got.append(arguments)
            return "found"

    executor.manager.add(Find())

    def call(body: dict[str, Any]) -> Step:
        [offered] = [it.get("function", it) for it in body["tools"]]
        assert "." not in offered["name"]
        [sent, _] = (offered.get("parameters") or offered["input_schema"])["properties"]
        return Step(calls=[Asked(offered["name"], {sent: "lamp", "limit": "3"}, id="c1")])

    agent.server.play(call, Step(text="Done."))
    assert await agent.ask() == "Done."
    assert got == [{"filter.name[x]": "lamp", "limit": 3}]
    assert agent.results() == {"c1": "found"}


async def test_parameters_may_have_the_names_that_frameworks_keep_for_themselves(
    agent: Agent, executor: ToolExecutor
) -> None:
    @executor.manager.add
    async def run(config: str, runtime: str, state: str, ctx: str, callbacks: str, run_manager: str) -> str:
        """Run."""
        return " ".join((config, runtime, state, ctx, callbacks, run_manager))

    names = ["config", "runtime", "state", "ctx", "callbacks", "run_manager"]
    agent.server.play(Step(calls=[Asked("run", {it: it.upper() for it in names}, id="c1")]), Step(text="Done."))
    await agent.ask()
    assert list(agent.offered(0)["run"]["properties"]) == names
    assert agent.results() == {"c1": "CONFIG RUNTIME STATE CTX CALLBACKS RUN_MANAGER"}


@pytest.mark.usefixtures("add")
async def test_a_failure_is_an_answer_in_the_words_of_the_executor(agent: Agent, executor: ToolExecutor) -> None:
    @executor.manager.add
    async def fail(reason: str) -> None:
        """Fail."""
        raise ToolError(reason)

    @executor.manager.add
    async def crash() -> None:
        """Crash."""
        raise RuntimeError("out of paper")

    asked = [
        Asked("fail", {"reason": "no ink"}, id="c1"),
        Asked("crash", {}, id="c2"),
        Asked("add", {"a": "x", "b": 2}, id="c3"),
        Asked("add", {}, id="c4"),
    ]
    expected = {it.id: (await executor.execute(it.name, it.arguments)).text for it in asked}
    agent.server.play(*(Step(calls=[it]) for it in asked), Step(text="It did not work."))
    assert await agent.ask() == "It did not work."
    assert agent.results() == expected
    assert "Parameters of add" in expected["c4"]


async def test_a_tool_that_hangs_is_answered_at_its_deadline(agent: Agent, executor: ToolExecutor) -> None:
    ended = asyncio.Event()

    @executor.manager.add
    @tool(timeout=0.05)
    async def hang() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent.server.play(Step(calls=[Asked("hang", {}, id="c1")]), Step(text="Too slow."))
    assert await agent.ask() == "Too slow."
    assert agent.results()["c1"].startswith("Error: ")
    assert "0.05 s" in agent.results()["c1"]
    await asyncio.wait_for(ended.wait(), 10)


async def test_parallel_calls_run_side_by_side_and_keep_their_ids(agent: Agent, executor: ToolExecutor) -> None:
    arrived: list[str] = []
    both = asyncio.Event()

    @executor.manager.add
    async def meet(name: str) -> str:
        """Wait until both are there."""
        arrived.append(name)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return f"met as {name}"

    calls = [Asked("meet", {"name": "first"}, id="c1"), Asked("meet", {"name": "second"}, id="c2")]
    agent.server.play(Step(calls=calls), Step(text="They met."))
    assert await agent.ask() == "They met."
    assert agent.results() == {"c1": "met as first", "c2": "met as second"}


async def test_the_executor_knows_the_id_of_the_call_and_that_a_model_made_it(
    agent: Agent, executor: ToolExecutor
) -> None:
    known: list[tuple[str, bool]] = []

    @executor.manager.add
    async def look(context: ToolContext) -> str:
        """Look."""
        caller = current_caller.get()
        known.append((context.call_id, caller is not None and caller.is_model))
        return "seen"

    agent.server.play(Step(calls=[Asked("look", {}, id="c1")]), Step(text="Seen."))
    await agent.ask()
    assert known == [("c1", True)]


async def test_cancelling_the_run_cancels_the_call(agent: Agent, executor: ToolExecutor) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @executor.manager.add
    async def hang() -> None:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    agent.server.play(Step(calls=[Asked("hang", {}, id="c1")]))
    running = asyncio.ensure_future(agent.ask())
    await asyncio.wait_for(started.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_a_tool_that_comes_later_is_offered_and_runs(agent: Agent, executor: ToolExecutor) -> None:
    if not agent.framework.sees_later_tools:
        pytest.skip("it takes the tools once")

    @executor.manager.add
    async def connect() -> str:
        """Connect."""

        @executor.manager.add
        async def later() -> str:
            """Came later."""
            return "later ran"

        executor.manager.remove("connect")
        return "connected"

    agent.server.play(
        Step(calls=[Asked("connect", {}, id="c1")]), Step(calls=[Asked("later", {}, id="c2")]), Step(text="Done.")
    )
    assert await agent.ask() == "Done."
    assert [list(agent.offered(it)) for it in range(3)] == [["connect"], ["later"], ["later"]]
    assert agent.results() == {"c1": "connected", "c2": "later ran"}


@pytest.mark.usefixtures("add")
async def test_an_unknown_name_is_answered_with_close_ones(agent: Agent, executor: ToolExecutor) -> None:
    if not agent.framework.runs_unknown_names:
        pytest.skip("it answers unknown names itself")
    agent.server.play(Step(calls=[Asked("ad", {"a": 1}, id="c1")]), Step(text="There is none."))
    assert await agent.ask() == "There is none."
    assert agent.results() == {"c1": (await executor.execute("ad", {"a": 1})).text}
    assert "Did you mean add?" in agent.results()["c1"]


async def test_calls_of_an_answer_that_was_cut_off_do_not_run(agent: Agent, executor: ToolExecutor) -> None:
    if not agent.framework.knows_the_end:
        pytest.skip("it does not tell why an answer ended")
    ran: list[str] = []

    @executor.manager.add
    async def delete(path: str = "/") -> str:
        """Delete."""
        ran.append(path)
        return "deleted"

    cut_off = "max_tokens" if agent.framework.name == "anthropic_sdk" else "length"
    agent.server.play(Step(calls=[Asked("delete", {}, id="c1")], stop=cut_off), Step(text="Sorry."))
    assert await agent.ask() == "Sorry."
    assert ran == []
    assert "your answer was cut off" in agent.results()["c1"]


@pytest.mark.usefixtures("add")
async def test_arguments_that_are_not_json_are_answered_as_often_as_it_takes(
    agent: Agent, executor: ToolExecutor
) -> None:
    if not agent.framework.passes_invalid_json:
        pytest.skip("such a call does not get to the tools")
    bad = '{"a": 1, "b": }'
    steps = [Step(calls=[Asked("add", raw=bad, id=f"c{number}")]) for number in range(4)]
    agent.server.play(*steps, Step(text="I give up."))
    assert await agent.ask() == "I give up."
    assert set(agent.results().values()) == {(await executor.execute("add", bad)).text}
