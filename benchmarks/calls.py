"""One in-process call of add(a, b) with checked arguments: toolrun beside the floor and the peers.

The floor is what a runtime cannot do without: look up, validate, await, time, remember, return a result object.
usage: calls.py [rounds]
"""

import asyncio
import collections
import logging
import queue
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from harness import Case, Target, measure, micros, print_table, print_targets, ratio

from toolrun import ToolExecutor, ToolManager, tool

ARGUMENTS = {"a": 1, "b": 2}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
Operation = Callable[[], Awaitable[object]]


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def async_add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Result:
    __slots__ = ("error", "nanoseconds", "ok", "tool", "value")

    def __init__(self, ok: bool, value: object, error: str | None, nanoseconds: int, tool: str) -> None:
        self.ok = ok
        self.value = value
        self.error = error
        self.nanoseconds = nanoseconds
        self.tool = tool


def floors() -> dict[str, Operation]:
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(SCHEMA)
    registry: dict[str, tuple[Any, Any]] = {
        "async": (validator.is_valid, async_add),
        "sync": (validator.is_valid, add),
    }
    remember = collections.deque[Any](maxlen=4096).append
    now = time.perf_counter_ns

    async def run_async(name: str, arguments: dict[str, int]) -> Result:
        start = now()
        is_valid, function = registry[name]
        if not is_valid(arguments):
            return Result(False, None, "invalid", 0, name)
        try:
            value = await function(**arguments)
        except Exception as error:  # noqa: BLE001  as a runtime must
            return Result(False, None, repr(error), now() - start, name)
        spent = now() - start
        remember((name, start, spent, True))
        return Result(True, value, None, spent, name)

    jobs = queue.SimpleQueue[Any]()

    def work() -> None:
        while True:
            function, arguments, loop, future = jobs.get()
            loop.call_soon_threadsafe(future.set_result, function(**arguments))

    threading.Thread(target=work, daemon=True).start()

    async def run_in_thread(name: str, arguments: dict[str, int]) -> Result:
        start = now()
        is_valid, function = registry[name]
        if not is_valid(arguments):
            return Result(False, None, "invalid", 0, name)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        jobs.put((function, arguments, loop, future))
        value = await future
        spent = now() - start
        remember((name, start, spent, True))
        return Result(True, value, None, spent, name)

    return {
        "floor, async tool": lambda: run_async("async", ARGUMENTS),
        "floor, sync tool in its own thread": lambda: run_in_thread("sync", ARGUMENTS),
    }


def ours(log_file: str) -> dict[str, Operation]:
    manager = ToolManager([tool(name="async_add")(async_add), tool(name="add")(add)])
    manager.add(tool(name="inline_add", inline=True)(add))
    executor = ToolExecutor(manager)

    @manager.add
    async def suspends(a: int, b: int) -> int:
        """Add after one turn of the loop."""
        await asyncio.sleep(0)
        return a + b

    logger = logging.getLogger("toolrun.call")
    logger.addHandler(logging.FileHandler(log_file))
    logger.propagate = False

    def log_from(level: int) -> None:
        logger.level = level  # as `setLevel` does, which also looks at every other logger
        logger._cache.clear()  # type: ignore[attr-defined]  # not in typeshed

    async def logged() -> object:
        log_from(logging.INFO)
        try:
            return await executor.execute("async_add", ARGUMENTS)
        finally:
            log_from(logging.WARNING)

    plain = logging.getLogger("plain")
    plain.addHandler(logging.FileHandler(log_file))
    plain.propagate = False
    plain.setLevel(logging.INFO)

    async def log_plainly() -> None:
        plain.info("%s ok %s ms arguments=%s result=%s", "async_add", 0.003, ARGUMENTS, 3)

    logger.setLevel(logging.WARNING)
    return {
        "a line of `logging` to the same file": log_plainly,
        "toolrun, async tool": lambda: executor.execute("async_add", ARGUMENTS),
        "toolrun, async tool, a log line written to a file": logged,
        "toolrun, async tool that suspends once": lambda: executor.execute("suspends", ARGUMENTS),
        "toolrun, inline sync tool": lambda: executor.execute("inline_add", ARGUMENTS),
        "toolrun, repaired call": lambda: executor.execute("async_add", {"a": 1, "b": "2"}),
        "toolrun, refused call": lambda: executor.execute("async_add", {"a": 1, "b": "x"}),
        "toolrun, sync tool in its own thread": lambda: executor.execute("add", ARGUMENTS),
    }


def langchain() -> dict[str, Operation]:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    both = StructuredTool.from_function(func=add, coroutine=async_add)
    blocking = StructuredTool.from_function(func=add)
    node = ToolNode([both])
    call = {"name": "add", "args": ARGUMENTS, "id": "1", "type": "tool_call"}
    request = {"messages": [AIMessage(content="", tool_calls=[call])]}
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}
    return {
        "LangChain StructuredTool.ainvoke, async tool": lambda: both.ainvoke(ARGUMENTS),
        "LangChain StructuredTool.ainvoke, sync tool": lambda: blocking.ainvoke(ARGUMENTS),
        "LangGraph ToolNode.ainvoke, async tool": lambda: node.ainvoke(request, config),
    }


async def fastmcp() -> dict[str, Operation]:
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(add, name="add")
    server.tool(async_add, name="async_add")
    return {
        "FastMCP server.call_tool, async tool": lambda: server.call_tool("async_add", ARGUMENTS),
        "FastMCP server.call_tool, sync tool": lambda: server.call_tool("add", ARGUMENTS),
    }


async def pydantic_ai() -> dict[str, Operation]:
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager as PeerManager
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    toolset: Any = FunctionToolset()
    toolset.add_function(async_add, name="async_add")
    toolset.add_function(add, name="add")
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager: Any = await PeerManager(toolset).for_run_step(context)
    quick, blocking = ToolCallPart("async_add", dict(ARGUMENTS), "1"), ToolCallPart("add", dict(ARGUMENTS), "1")
    return {
        "Pydantic AI ToolManager.handle_call, async tool": lambda: manager.handle_call(quick),
        "Pydantic AI ToolManager.handle_call, sync tool": lambda: manager.handle_call(blocking),
    }


async def openai_agents() -> dict[str, Operation]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    quick, blocking = function_tool(async_add, name_override="add"), function_tool(add, name_override="sync_add")
    text = '{"a":1,"b":2}'
    context: Any = ToolContext(None, tool_name="add", tool_call_id="1", tool_arguments=text)
    return {
        "openai-agents on_invoke_tool, async tool": lambda: quick.on_invoke_tool(context, text),
        "openai-agents on_invoke_tool, sync tool": lambda: blocking.on_invoke_tool(context, text),
    }


async def main(rounds: int) -> bool:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        operations = floors() | ours(f"{directory}/calls.log") | langchain()
        operations |= await fastmcp() | await pydantic_ai() | await openai_agents()
        cases = {name: Case(name, operation) for name, operation in operations.items()}
        await measure(list(cases.values()), rounds)
    base, thread_base = cases["floor, async tool"], cases["floor, sync tool in its own thread"]
    sync = {name for name in cases if "sync tool" in name and "async tool" not in name and "inline" not in name}
    rows = [(n, micros(c), ratio(c, thread_base if n in sync else base)) for n, c in cases.items()]
    print_table("One in-process call", ("case", "CPU µs", "× its floor"), rows)
    mine, mine_sync = cases["toolrun, async tool"], cases["toolrun, sync tool in its own thread"]
    peers_sync = [cases[name] for name in sync if not name.startswith(("floor", "toolrun"))]
    pydantic_ai_call = cases["Pydantic AI ToolManager.handle_call, async tool"]
    langgraph_call = cases["LangGraph ToolNode.ainvoke, async tool"]
    fastmcp_call = cases["FastMCP server.call_tool, async tool"]
    logged, plain = (
        cases["toolrun, async tool, a log line written to a file"],
        cases["a line of `logging` to the same file"],
    )
    return print_targets(
        [
            Target("async tool, × the floor", ratio(mine, base), 3),
            Target("faster than Pydantic AI, ×", ratio(pydantic_ai_call, mine), 5, True),
            Target("faster than LangGraph ToolNode, ×", ratio(langgraph_call, mine), 50, True),
            Target("faster than FastMCP call_tool, ×", ratio(fastmcp_call, mine), 50, True),
            Target("the log line, × one of `logging`", ratio(logged, plain) - ratio(mine, plain), 2),
            Target("sync tool, × the own-thread floor", ratio(mine_sync, thread_base), 1.5),
            Target("sync tool, × the fastest peer", max(ratio(mine_sync, peer) for peer in peers_sync), 1),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)))
