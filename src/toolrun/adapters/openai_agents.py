"""openai-agents: the tools of an executor as `FunctionTool`s.

agent = Agent(name="Home", tools=agents_tools(executor))        # those that are there now
agent = ToolrunAgent(name="Home", executor=executor)            # also those that come later
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agents import Agent, FunctionTool, RunContextWrapper, Tool
from agents.tool_context import ToolContext

from toolrun.adapters.offered_tools import PORTABLE, OfferedTools, call_key

if TYPE_CHECKING:
    from toolrun.clients.dialect import Offer
    from toolrun.clients.dialect.offer import Definition
    from toolrun.execution.executor import ToolExecutor

T = TypeVar("T")


def agents_tools(executor: ToolExecutor, *, provider: str = PORTABLE, keys: bool = False) -> list[Tool]:
    """The tools that the executor has now.

    `keys`: the same call of the same conversation runs once (`group_id` of the `RunConfig`).
    """
    return AgentsTools(executor, provider=provider, keys=keys).current()


class AgentsTools:
    """The tools of an executor, renewed when they change."""

    def __init__(self, executor: ToolExecutor, *, provider: str = PORTABLE, keys: bool = False) -> None:
        self._offered = OfferedTools(executor, provider)
        self._keys = keys
        self._offer: Offer | None = None
        self._tools: list[Tool] = []

    def current(self) -> list[Tool]:
        offer = self._offered.current()
        if offer is not self._offer:
            self._offer, self._tools = offer, [self._tool(offer, it) for it in offer.definitions]
        return list(self._tools)

    def _tool(self, offer: Offer, definition: Definition) -> Tool:
        name = definition.name

        async def invoke(context: ToolContext[Any], arguments: str) -> str:
            key = None
            if self._keys:
                group = getattr(context.run_config, "group_id", None)
                key = call_key(group, context.tool_call_id, "run the agent with RunConfig(group_id=…)")
            result = await self._offered.execute(offer, name, arguments, context.tool_call_id, key)
            return result.text

        return FunctionTool(
            name=name,
            description=definition.description,
            params_json_schema=cast("dict[str, Any]", dict(definition.parameters)),
            on_invoke_tool=invoke,
            strict_json_schema=False,  # which would make every parameter a required one
        )


@dataclass
class ToolrunAgent(Agent[T]):
    """An agent that has the tools of an executor beside its own. They are asked for before each request."""

    executor: ToolExecutor | None = None
    keys: bool = False
    _ours: AgentsTools | None = field(default=None, init=False, repr=False, compare=False)

    async def get_all_tools(self, run_context: RunContextWrapper[T]) -> list[Tool]:
        own = await super().get_all_tools(run_context)
        if self.executor is None:
            return own
        if self._ours is None:
            self._ours = AgentsTools(self.executor, keys=self.keys)
        return [*own, *self._ours.current()]
