"""Chat with the configured model over HTTP: each turn is a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NotRequired,  # pydantic, which needs it, brings it
)

from annotated_types import MinLen  # pydantic, which needs it, brings it
from typing_extensions import TypedDict

from toolrun.clients.choice import PROVIDERS, Choice, choose, ollama_models, ollama_url, open_client, parse_model
from toolrun.clients.model_error import ModelError
from toolrun.clients.turn_event import Done, Event, Text, ToolFinished, ToolProgress, ToolStarted
from toolrun.errors import ConfigError, ToolrunError
from toolrun.execution.approval import Caller, calling_as
from toolrun.json import JSON
from toolrun.result import normalise
from toolrun.server.api_answer import EventStream, Write
from toolrun.server.api_state import ApiState
from toolrun.server.call_route import envelope, wait_for_answer
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient

_SERVERS: Final = 10.0
"""Seconds to wait for MCP servers before a question."""


class ModelsAnswer(TypedDict):
    """Models that can be asked."""

    default: str | None
    """The one that is asked if no other is named; null if there is none."""
    why: str
    """Why it is that one, or why there is none."""
    models: list[str]


class ChatBody(TypedDict):
    """A question."""

    message: Annotated[str, MinLen(1)]
    conversation: NotRequired[str | None]
    """The id of a stored conversation, to go on with it."""
    model: NotRequired[str | None]
    """`PROVIDER:MODEL`, as in `[model] use`; else the one that is configured."""


def chat_operations(state: ApiState) -> list[Operation]:
    routes = _ChatRoutes(state)
    return [
        Operation("GET", "/api/models", routes.models, "List the models", ModelsAnswer),
        Operation(
            "POST",
            "/api/chat",
            routes.chat,
            "Ask the model",
            "text/event-stream",
            ChatBody,
            failures={404: "There is no such conversation.", 409: "Somebody else has the conversation."},
            events={
                "text": "{text}: a part of the answer",
                "call": "{id, name, arguments}: the model calls a tool",
                "progress": "{id, progress, total, message}: how far the tool has got",
                "result": "{id, name, envelope}: what the model is told",
                "end": "{text, conversation, ended, input_tokens, output_tokens}: the turn is over",
                "error": "{error}: the turn failed",
            },
        ),
    ]


class _ChatRoutes:
    def __init__(self, state: ApiState) -> None:
        self._runtime = state.runtime
        self._clients: dict[str, ModelClient] = {}

    async def models(self, request: ApiRequest) -> ModelsAnswer:
        settings = self._runtime.config.model

        def look() -> ModelsAnswer:
            found = [f"ollama:{name}" for name in ollama_models(settings.base_url or ollama_url(os.environ)) or ()]
            try:
                choice = choose(settings, os.environ)
            except ConfigError as error:
                return {"default": None, "why": str(error), "models": found}
            return {"default": str(choice), "why": choice.why, "models": list(dict.fromkeys([str(choice), *found]))}

        return await asyncio.to_thread(look)

    async def chat(self, request: ApiRequest) -> EventStream:
        body: ChatBody = request.body
        if not body["message"].strip():
            raise RequestError(400, "message is empty")
        client = await self._client(body.get("model"))
        conversation = await self._open(client, body.get("conversation"))

        async def run(write: Write) -> None:
            try:
                with calling_as(Caller(is_model=True, on_approval=wait_for_answer)):
                    await self._turn(client, conversation, body["message"], write)
            finally:
                if conversation is not None:
                    conversation.close()

        return EventStream(run)

    async def _client(self, named: str | None) -> ModelClient:
        """Raises RequestError if there is no model."""
        config = self._runtime.config
        try:
            choice = await asyncio.to_thread(self._choose, named)
        except ConfigError as error:
            raise RequestError(400 if named else 503, str(error)) from None
        try:
            known = self._clients.get(str(choice))
            if known is None:
                executor = self._runtime.executor
                known = await asyncio.to_thread(open_client, choice, executor, config.model, os.environ, config.root)
                self._clients[str(choice)] = known
            return known
        except ToolrunError as error:
            raise RequestError(503, str(error)) from None

    def _choose(self, named: str | None) -> Choice:
        if named is not None and named.partition(":")[0] in PROVIDERS and self._runtime.config.model.use == named:
            return choose(self._runtime.config.model, os.environ)  # its files are relative to the project
        return parse_model(named, "model") if named else choose(self._runtime.config.model, os.environ)

    async def _open(self, client: ModelClient, id: str | None) -> Any:
        """The stored conversation; None if conversations are not kept. Raises RequestError."""
        journal = self._runtime.journal
        if journal is None or not journal.keeps_conversations:
            if id:
                raise RequestError(404, "conversations are not kept here")
            return None
        try:
            if not id:
                return await client.open_conversation()
            stored = await client.open_conversation(id, must_exist=True, any_model=True)
        except ToolrunError as error:
            status = 404 if "There is no conversation" in str(error) else 409
            raise RequestError(status, str(error)) from None
        stored.change_model(client.name)
        return stored

    async def _turn(self, client: ModelClient, conversation: Any, message: str, write: Write) -> None:
        await self._runtime.ready(timeout=_SERVERS)
        turn = client.turn(message, conversation=conversation)
        try:
            async with contextlib.aclosing(turn.stream()) as events:
                async for event in events:
                    await _write(event, write)
        except (ModelError, ToolrunError) as error:
            await write("error", {"error": str(error)})


async def _write(event: Event, write: Write) -> None:
    match event:
        case Text(text=text):
            await write("text", {"text": text})
        case ToolStarted(call=call):
            arguments: JSON = normalise(call.arguments)
            await write("call", {"id": call.id, "name": call.name, "arguments": arguments})
        case ToolProgress(call=call, progress=it):
            progress = {"progress": it.progress, "total": it.total, "message": it.message}
            await write("progress", {"id": call.id, **progress})
        case ToolFinished(call=call, result=result):
            await write("result", {"id": call.id, "name": call.name, "envelope": envelope(result)})
        case Done(reply=reply):
            tokens = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
            ended = {"text": reply.text, "conversation": reply.conversation or None, "ended": reply.ended.value}
            await write("end", {**ended, **tokens})
