"""OpenAI's own SDK, without a framework: Chat Completions, and the Responses API.

    tools = OpenAITools(executor)
    completion = await client.chat.completions.create(…, messages=messages, tools=tools.definitions)
    messages += await tools.execute(completion)

Reads answers by their fields, so it needs no package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toolrun.adapters.offered_tools import OfferedTools, refusal
from toolrun.clients.turn_event import Ended
from toolrun.execution.blocking import run_blocking
from toolrun.result import ToolCall

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_ENDED = {
    "length": Ended.LENGTH,
    "max_output_tokens": Ended.LENGTH,
    "content_filter": Ended.FILTERED,
}


class OpenAITools:
    """The tools of an executor in the forms of OpenAI's APIs."""

    def __init__(self, executor: ToolExecutor) -> None:
        self._offered = OfferedTools(executor, "openai")
        self._offer = self._offered.current()

    @property
    def definitions(self) -> list[Any]:
        """The `tools` of Chat Completions. Ask for them anew before each request: tools may have come or gone."""
        self._offer = self._offered.current()
        return list(self._offer.tools)

    @property
    def response_definitions(self) -> list[Any]:
        """The `tools` of the Responses API."""
        self._offer = self._offered.current()
        return [
            {
                "type": "function",
                "name": it.name,
                "description": it.description,
                "parameters": it.parameters,
                "strict": False,
            }
            for it in self._offer.definitions
        ]

    async def execute(self, answer: Any) -> list[Any]:
        """Run the calls of a `ChatCompletion` or a `Response`.

        Returns what is to be appended to the messages or the input: the answer, and the results. Without calls that is
        the answer alone. Calls of an answer that was cut off or filtered do not run.
        """
        return await (self._execute_chat(answer) if hasattr(answer, "choices") else self._execute_response(answer))

    def execute_sync(self, answer: Any) -> list[Any]:
        """`execute` for programs without an event loop."""
        return run_blocking(lambda: self.execute(answer), self._offered.executor.home)

    async def _execute_chat(self, completion: Any) -> list[Any]:
        choice = completion.choices[0]
        said = choice.message.model_dump(exclude_none=True)
        for call in said.get("tool_calls", ()):
            if call["type"] == "function" and not _is_object(call["function"]["arguments"]):
                call["function"]["arguments"] = "{}"  # many servers refuse a history with anything else
        asked = [it for it in choice.message.tool_calls or () if it.type == "function"]
        calls = [ToolCall(it.id, it.function.name, it.function.arguments) for it in asked]
        results = await self._offered.execute_all(self._offer, calls, refusal(_ENDED.get(choice.finish_reason)))
        return [said, *({"role": "tool", "tool_call_id": it.call_id, "content": it.text} for it in results)]

    async def _execute_response(self, response: Any) -> list[Any]:
        asked = [it for it in response.output if it.type == "function_call"]
        calls = [ToolCall(it.call_id, it.name, it.arguments) for it in asked]
        reason = getattr(response.incomplete_details, "reason", None) or ""
        results = await self._offered.execute_all(self._offer, calls, refusal(_ENDED.get(reason)))
        outputs = [{"type": "function_call_output", "call_id": it.call_id, "output": it.text} for it in results]
        return [*response.output, *outputs]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
