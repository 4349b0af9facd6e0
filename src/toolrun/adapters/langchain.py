"""LangChain: each tool of an executor as a `BaseTool`.

    agent = create_agent("openai:gpt-5", tools=langchain_tools(executor))

LangChain traces the calls, as it does with its own tools; the executor checks, runs and answers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from toolrun.adapters.offered_tools import PORTABLE, OfferedTools, call_key
from toolrun.clients.dialect import Offer
from toolrun.clients.result_content import ImageSupport, render_result
from toolrun.clients.wording import Wording
from toolrun.tools.context import CallKey

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor
    from toolrun.result import ToolResult

_NO_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def langchain_tools(
    executor: ToolExecutor, *, provider: str = PORTABLE, images: bool = False, keys: bool = False
) -> list[ToolrunTool]:
    """The tools that the executor has now, for `create_agent`, `bind_tools` or a `ToolNode`.

    `provider` is the dialect of their names and schemas. `images`: the model takes images in results. `keys`: the same
    call of the same `thread_id` runs once, also if the graph runs it again after a crash.
    """
    return LangChainTools(executor, provider=provider, images=images, keys=keys).current()


class LangChainTools:
    """The tools of an executor, renewed when they change."""

    def __init__(
        self, executor: ToolExecutor, *, provider: str = PORTABLE, images: bool = False, keys: bool = False
    ) -> None:
        self.offered = OfferedTools(executor, provider)
        self.images = ImageSupport.IN_RESULT if images else ImageSupport.NONE
        self.keys = keys
        self.wording = Wording.load()
        self._offer: Offer | None = None
        self._tools: dict[str, ToolrunTool] = {}

    def current(self) -> list[ToolrunTool]:
        offer = self.offered.current()
        if offer is not self._offer:
            self._offer = offer
            self._tools = {
                it.name: ToolrunTool(self, offer, it.name, it.description, dict(it.parameters))
                for it in offer.definitions
            }
        return list(self._tools.values())

    def named(self, name: str, unread: str | None = None) -> ToolrunTool:
        """The tool of that name; if there is none, one whose calls the executor answers accordingly.

        `unread`: arguments that are not JSON, which LangChain cannot pass on.
        """
        self.current()
        if unread is None and name in self._tools:
            return self._tools[name]
        return ToolrunTool(self, self.offered.current(), name, "", dict(_NO_SCHEMA), unread)

    def message(self, name: str, call_id: str | None, result: ToolResult) -> ToolMessage | str | list[Any]:
        """The answer as LangChain passes it on: a message to a call of a model, else its content."""
        content, _ = render_result(result, None, self.images, self.wording)
        if call_id is None:
            return content
        status = "success" if result.success else "error"
        return ToolMessage(content, name=name, tool_call_id=call_id, status=status, artifact=result)


class ToolrunTool(BaseTool):
    """A tool of an executor. Its `ToolMessage` has the `ToolResult` as its artifact."""

    _tools: LangChainTools = PrivateAttr()
    _offer: Offer = PrivateAttr()
    _unread: str | None = PrivateAttr()

    def __init__(
        self,
        tools: LangChainTools,
        offer: Offer,
        name: str,
        description: str,
        schema: dict[str, Any],
        unread: str | None = None,
    ) -> None:
        super().__init__(name=name, description=description, args_schema=schema)
        self._tools, self._offer, self._unread = tools, offer, unread

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # One argument, so that no parameter of a tool can collide with one of LangChain's own.
        return (tool_input if self._unread is None else self._unread, tool_call_id), {}

    def _run(self, arguments: Any, call_id: str | None, *, config: RunnableConfig) -> Any:
        result = self._tools.offered.execute_sync(
            self._offer, self.name, arguments, call_id, self._key(config, call_id)
        )
        return self._tools.message(self.name, call_id, result)

    async def _arun(self, arguments: Any, call_id: str | None, *, config: RunnableConfig) -> Any:
        result = await self._tools.offered.execute(
            self._offer, self.name, arguments, call_id, self._key(config, call_id)
        )
        return self._tools.message(self.name, call_id, result)

    def _key(self, config: RunnableConfig, call_id: str | None) -> CallKey | None:
        if not self._tools.keys:
            return None
        thread = config.get("configurable", {}).get("thread_id")
        return call_key(thread, call_id, 'run the graph with config={"configurable": {"thread_id": …}}')
