"""What the tests of AI clients share: an executor that remembers, and a tool as the specification has it."""

from __future__ import annotations

from typing import Any

from providers.clients import Side
from toolrun import ToolExecutor, ToolManager, ToolResult


class WatchedExecutor(ToolExecutor):
    """Remembers every call that it is asked to execute."""

    def __init__(self, manager: ToolManager) -> None:
        super().__init__(manager, timeout=5.0)
        self.executed: list[tuple[str, Any, str | None]] = []

    async def execute(self, name: str, arguments: Any = None, **options: Any) -> ToolResult:
        self.executed.append((name, arguments, options.get("call_id")))
        return await super().execute(name, arguments, **options)


class LangChainTool:
    """A tool in the form of LangChain: `name`, `description`, `schema`, `invoke`, and what LangChain keeps beside."""

    name = "control_zwave_device"
    description = "Switches a device."
    lc_name = "control_zwave_device"
    lc_kwargs: dict[str, Any] = {"secret": "internal"}  # noqa: RUF012  as LangChain has it
    schema: dict[str, Any] = {  # noqa: RUF012  one for all
        "type": "object",
        "properties": {"deviceName": {"type": "string"}, "command": {"type": "string", "enum": ["on", "off"]}},
        "required": ["deviceName", "command"],
    }

    def __init__(self) -> None:
        self.invoked: list[dict[str, Any]] = []

    def invoke(self, arguments: dict[str, Any]) -> str:
        self.invoked.append(arguments)
        return f"{arguments['deviceName']} is {arguments['command']}"


ARGUMENTS = {"deviceName": "Switch One", "command": "on"}


def watched() -> tuple[WatchedExecutor, LangChainTool]:
    tool = LangChainTool()
    return WatchedExecutor(ToolManager([tool])), tool


async def prove_delegation(side: Side) -> tuple[WatchedExecutor, LangChainTool]:
    """A tool call of the model is executed by the executor that the client was given, and by nothing else."""
    from providers.base import Asked, Step

    executor, tool = watched()
    side.server.play(Step(calls=[Asked(tool.name, ARGUMENTS)]), Step(text="Switch One is on."))
    reply = await side.client(executor).query("Turn on switch one.")
    assert [(name, arguments) for name, arguments, _ in executor.executed] == [(tool.name, ARGUMENTS)]
    assert tool.invoked == [ARGUMENTS]
    assert side.results(1) == ["Switch One is on"]
    assert reply.text == "Switch One is on."
    await executor.close()
    return executor, tool
