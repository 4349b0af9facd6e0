"""One call of add(a, b) through each adapter, beside the framework's own tool path, in one run.

Both sides of a pair do what the framework does with a call of a model: its own tool against that of an executor, which
also repairs, has a deadline, counts and logs. usage: adapters.py [rounds]
"""

import asyncio
import logging
import sys
import warnings
from types import SimpleNamespace
from typing import Any

from calls import ARGUMENTS, Operation, async_add
from harness import Case, Target, measure, micros, print_table, print_targets, ratio

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.adapters import AnthropicTools, OpenAITools, ToolrunNode, ToolrunToolset, agents_tools, langchain_tools

TEXT = '{"a":1,"b":2}'
CALL = {"name": "add", "args": ARGUMENTS, "id": "1", "type": "tool_call"}


def executor() -> ToolExecutor:
    logging.getLogger("toolrun.call").setLevel(logging.WARNING)
    return ToolExecutor(ToolManager([tool(name="add")(async_add)]))


def langchain() -> dict[str, tuple[Operation, Operation]]:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    theirs = StructuredTool.from_function(coroutine=async_add, name="add")
    [ours] = langchain_tools(executor())
    nodes = ToolNode([theirs]), ToolrunNode(executor())
    request = {"messages": [AIMessage(content="", tool_calls=[CALL])]}
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}
    return {
        "LangChain tool.ainvoke": (lambda: theirs.ainvoke(CALL), lambda: ours.ainvoke(CALL)),
        "LangGraph ToolNode": (lambda: nodes[0].ainvoke(request, config), lambda: nodes[1].ainvoke(request, config)),
    }


async def pydantic_ai() -> dict[str, tuple[Operation, Operation]]:
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager as PeerManager
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    own: Any = FunctionToolset()
    own.add_function(async_add, name="add")
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    theirs: Any = await PeerManager(own).for_run_step(context)
    ours: Any = await PeerManager(ToolrunToolset(executor())).for_run_step(context)
    part = ToolCallPart("add", dict(ARGUMENTS), "1")
    return {"Pydantic AI": (lambda: theirs.handle_call(part), lambda: ours.handle_call(part))}


def openai_agents() -> dict[str, tuple[Operation, Operation]]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    theirs = function_tool(async_add, name_override="add")
    ours: Any = agents_tools(executor())[0]
    context: Any = ToolContext(None, tool_name="add", tool_call_id="1", tool_arguments=TEXT)
    return {"openai-agents": (lambda: theirs.on_invoke_tool(context, TEXT), lambda: ours.on_invoke_tool(context, TEXT))}


def sdks() -> dict[str, tuple[Operation, Operation]]:
    """Beside the loop that people write by hand: no check of the arguments, no deadline."""
    import json

    block = SimpleNamespace(type="tool_use", id="1", name="add", input=ARGUMENTS)
    message = SimpleNamespace(content=[block], stop_reason="tool_use")
    item = SimpleNamespace(type="function_call", call_id="1", name="add", arguments=TEXT)
    response = SimpleNamespace(output=[item], incomplete_details=None)
    functions = {"add": async_add}

    async def by_hand() -> object:
        results = []
        for it in message.content:
            value = await functions[it.name](**it.input)
            results.append({"type": "tool_result", "tool_use_id": it.id, "content": json.dumps(value)})
        return results

    async def by_hand_from_text() -> object:
        outputs = []
        for it in response.output:
            value = await functions[it.name](**json.loads(it.arguments))
            outputs.append({"type": "function_call_output", "call_id": it.call_id, "output": json.dumps(value)})
        return outputs

    anthropic, openai = AnthropicTools(executor()), OpenAITools(executor())
    return {
        "Anthropic SDK, by hand": (by_hand, lambda: anthropic.execute(message)),
        "OpenAI SDK, by hand": (by_hand_from_text, lambda: openai.execute(response)),
    }


async def main(rounds: int) -> bool:
    warnings.simplefilter("ignore")
    pairs = langchain() | await pydantic_ai() | openai_agents() | sdks()
    cases = {name: (Case(name, theirs), Case(name, ours)) for name, (theirs, ours) in pairs.items()}
    await measure([case for pair in cases.values() for case in pair], rounds)
    rows = [(n, micros(theirs), micros(ours), ratio(ours, theirs)) for n, (theirs, ours) in cases.items()]
    print_table("One call through an adapter", ("framework", "its own, CPU µs", "toolrun's, CPU µs", "×"), rows)
    limits = {"LangChain tool.ainvoke": 1.1, "LangGraph ToolNode": 1.3, "Pydantic AI": 2, "openai-agents": 4}
    targets = [
        Target(f"{name}, × its own tool", ratio(*reversed(cases[name])), limit) for name, limit in limits.items()
    ]
    slowest = max(micros(ours) for name, (_, ours) in cases.items() if "SDK" in name)
    return print_targets([*targets, Target("an answer with one call, beside an SDK, µs", slowest, 100)])


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)))
