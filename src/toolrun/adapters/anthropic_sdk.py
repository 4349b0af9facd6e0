"""Anthropic's own SDK, without a framework.

    tools = AnthropicTools(executor)
    message = await client.messages.create(…, messages=messages, tools=tools.definitions)
    messages += await tools.execute(message)

Reads messages by their fields, so it needs no package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrun.adapters.offered_tools import OfferedTools, refusal
from toolrun.clients.result_content import ImageSupport, render_result
from toolrun.clients.turn_event import Ended
from toolrun.clients.wording import Wording
from toolrun.execution.blocking import run_blocking
from toolrun.result import ToolCall

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor
    from toolrun.result import ToolResult

_ENDED = {
    "max_tokens": Ended.LENGTH,
    "model_context_window_exceeded": Ended.LENGTH,
    "refusal": Ended.REFUSED,
}


class AnthropicTools:
    """The tools of an executor in the form of the Messages API."""

    def __init__(self, executor: ToolExecutor) -> None:
        self._offered = OfferedTools(executor, "anthropic")
        self._wording = Wording.load()
        self._offer = self._offered.current()

    @property
    def definitions(self) -> list[Any]:
        """The `tools` of a request. Ask for them anew before each: tools may have come or gone."""
        self._offer = self._offered.current()
        return list(self._offer.tools)

    async def execute(self, message: Any) -> list[Any]:
        """Run the calls of an answer. Returns what is to be appended to the messages: the answer, and the results.

        Without calls that is the answer alone. Calls of an answer that was cut off or refused do not run.
        """
        asked = [block for block in message.content if block.type == "tool_use"]
        said = [{"role": "assistant", "content": message.content}] if message.content else []
        if not asked:
            return said
        calls = [ToolCall(block.id, block.name, block.input) for block in asked]
        results = await self._offered.execute_all(self._offer, calls, refusal(_ENDED.get(message.stop_reason)))
        blocks = [self._block(call, result) for call, result in zip(calls, results, strict=True)]
        return [*said, {"role": "user", "content": blocks}]

    def execute_sync(self, message: Any) -> list[Any]:
        """`execute` for programs without an event loop."""
        return run_blocking(lambda: self.execute(message), self._offered.executor.home)

    def _block(self, call: ToolCall, result: ToolResult) -> dict[str, Any]:
        shown, _ = render_result(result, None, ImageSupport.IN_RESULT, self._wording)
        content = shown if isinstance(shown, str) else [_content(it) for it in shown if isinstance(it, dict)]
        return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": not result.success}


def _content(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return block
    source = {"type": "base64", "media_type": block["mime_type"], "data": block["base64"]}
    return {"type": "image", "source": source}
