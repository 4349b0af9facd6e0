"""The requests that a local model gets, with llama.cpp replaced by a recorder of requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolrun import ToolExecutor
from toolrun.clients import Ended, Text, TurnLimits


class Llama:
    """Says what is in the script, a few characters at a time."""

    said: list[str]
    bodies: list[dict[str, Any]]

    def __init__(self, _: object) -> None:
        type(self).bodies = []

    def handle_chat_completions(self, body: dict[str, Any], on_piece: Callable[[dict[str, Any]], bool]) -> None:
        self.bodies.append(body)
        text = self.said.pop(0)
        for start in range(0, len(text), 5):
            on_piece({"choices": [{"delta": {"content": text[start : start + 5]}}]})
        on_piece({"choices": [{"delta": {}, "finish_reason": "stop"}]})


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Llama]]:
    def parameters() -> SimpleNamespace:
        threads = SimpleNamespace(n_threads=1)
        return SimpleNamespace(model=SimpleNamespace(), cpuparams=threads, cpuparams_batch=threads)

    module = SimpleNamespace(Server=Llama, CommonParams=parameters)
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    yield Llama
    sys.modules.pop("toolrun.clients.local.local_client", None)


async def test_the_last_request_can_only_be_answered_and_shows_the_tools_and_what_they_did(
    llama: type[Llama], executor: ToolExecutor, tmp_path: Path
) -> None:
    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    from toolrun.clients.local.local_client import LocalClient

    file = tmp_path / "model.gguf"
    file.touch()
    call = '{"tool": "add", "arguments": {"a": 1, "b": 2}}'
    llama.said = [call, '{"answer": "It is 3."}']
    client = LocalClient(executor, file, limits=TurnLimits(rounds=1))
    events = [event async for event in client.stream("1 + 2?")]
    first, last = llama.bodies
    schemas = [body["response_format"]["json_schema"]["schema"]["anyOf"] for body in (first, last)]
    answer = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    assert len(schemas[0]) == 2
    assert schemas[1] == [answer], "the grammar of the last request has nothing but an answer"
    assert first["messages"][0] == last["messages"][0], "the instructions are the same, so llama.cpp can reuse them"
    assert json.loads(last["messages"][2]["content"]) == json.loads(call)
    assert last["messages"][3]["content"].startswith("Result of add: 3")
    reply = events[-1].reply  # type: ignore[union-attr]
    assert (reply.text, reply.ended) == ("It is 3.", Ended.ROUNDS)
    assert "".join(event.text for event in events if isinstance(event, Text)) == "It is 3."
    assert len([event for event in events if isinstance(event, Text)]) > 1, "it is shown as it comes"
