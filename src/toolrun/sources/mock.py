"""Mocks: what a declared tool answers without doing anything. Pure, but for the wait of a delay."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from toolrun.config.value_type import SECONDS
from toolrun.errors import DefinitionError, ToolError
from toolrun.json import JSON, dumps
from toolrun.text import show, suggestion

ANSWER_KEYS: Final = ("mock_response", "error", "delay")
MOCK_KEYS: Final = (*ANSWER_KEYS, "answers")


@dataclass(frozen=True, slots=True)
class MockAnswer:
    """One answer."""

    response: JSON = None
    error: str | None = None
    """The message of a failure, in place of the response."""
    delay: float = 0.0
    """Seconds until the answer."""
    arguments: Mapping[str, JSON] | None = None
    """The call must have these arguments, and may have more; None: any call."""

    def fits(self, arguments: Mapping[str, JSON]) -> bool:
        wanted = self.arguments
        return wanted is None or all(name in arguments and arguments[name] == wanted[name] for name in wanted)


@dataclass(frozen=True, slots=True)
class Mock:
    """The answers of a tool, of which the first that fits counts."""

    answers: tuple[MockAnswer, ...]

    @property
    def waits(self) -> bool:
        return any(answer.delay for answer in self.answers)

    def answer(self, arguments: Mapping[str, JSON]) -> MockAnswer:
        """Raises ToolError if there is none."""
        for answer in self.answers:
            if answer.fits(arguments):
                return answer
        raise ToolError(f"the mock has no answer for {dumps(dict(arguments)).decode()[:500]}")

    def invoke(self, arguments: Mapping[str, JSON]) -> object:
        """The response, or a coroutine that waits for it. Raises ToolError."""
        answer = self.answer(arguments)
        return _later(answer) if answer.delay else _now(answer)


def _now(answer: MockAnswer) -> JSON:
    if answer.error is not None:
        raise ToolError(answer.error)
    return copy.deepcopy(answer.response)


async def _later(answer: MockAnswer) -> JSON:
    await asyncio.sleep(answer.delay)
    return _now(answer)


def read_mock(value: Mapping[str, JSON]) -> Mock:
    """The mock of an implementation. Raises DefinitionError."""
    given = value.get("answers", [])
    if not isinstance(given, list):
        raise DefinitionError(f"'answers' must be a list of answers, got {show(given)}")
    answers = []
    for index, it in enumerate(given):
        if not isinstance(it, dict) or not isinstance(it.get("arguments"), dict):
            raise DefinitionError(f"answer {index + 1} needs 'arguments': an object of those that the call must have")
        for key in it:
            if key not in (*ANSWER_KEYS, "arguments"):
                raise DefinitionError(f"unknown key '{key}' in answer {index + 1}; {suggestion(key, ANSWER_KEYS)}")
        arguments = it["arguments"]
        assert isinstance(arguments, dict)
        answers.append(_read_answer(it, arguments, f"answer {index + 1}"))
    if "mock_response" in value or "error" in value:
        answers.append(_read_answer(value, None, "a mock"))
    elif not answers:
        raise DefinitionError("a mock needs 'mock_response': the answer that every call gets")
    return Mock(tuple(answers))


def _read_answer(value: Mapping[str, JSON], arguments: Mapping[str, JSON] | None, what: str) -> MockAnswer:
    error, delay = value.get("error"), value.get("delay", 0)
    if "error" in value and (not isinstance(error, str) or not error or "mock_response" in value):
        raise DefinitionError(f"{what} has either 'mock_response' or 'error', the text of a failure")
    if "error" not in value and "mock_response" not in value:
        raise DefinitionError(f"{what} needs 'mock_response' or 'error'")
    if "delay" in value and delay != 0 and not SECONDS.accepts(delay):
        raise DefinitionError(f"'delay' must be {SECONDS.words}, got {show(delay)}")
    return MockAnswer(
        value.get("mock_response"),
        error if isinstance(error, str) else None,
        float(delay) if isinstance(delay, int | float) else 0.0,
        arguments,
    )
