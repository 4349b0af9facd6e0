"""Raw errors of the provider packages become the errors of one hierarchy, by type and status code."""

from __future__ import annotations

import json

import httpx
import ollama
import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError, OutputParserException

from toolrun.clients.model_error import (
    BY_CLASS,
    BY_CODE,
    BY_STATUS,
    About,
    ModelAuthError,
    ModelContextError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelReplyError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    translate,
)
from toolrun.errors import ToolrunError

ABOUT = About("Ollama", "qwen3", "http://host:1", if_unreachable="Is it running?", if_not_found="Pull it.")


class StatusError(Exception):
    """As the packages of several providers have it."""

    def __init__(self, status_code: int, body: object = None) -> None:
        super().__init__("Error code: …")
        self.status_code = status_code
        self.body = body


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("refused"), ModelUnavailableError),
        (httpx.ReadTimeout("slow"), ModelTimeoutError),
        (httpx.RemoteProtocolError("cut"), ModelUnavailableError),
        (ConnectionResetError("reset"), ModelUnavailableError),
        (TimeoutError(), ModelTimeoutError),
        (ollama.ResponseError("runner died"), ModelUnavailableError),
        (ollama.ResponseError("no such model", 404), ModelNotFoundError),
        (ollama.ResponseError("busy", 503), ModelOverloadedError),
        (ContextOverflowError("too long"), ModelContextError),
        (ModelRateLimitError("slow down"), ModelOverloadedError),
        (OutputParserException("bad"), ModelProtocolError),
        (json.JSONDecodeError("bad", "x", 0), ModelProtocolError),
        (StatusError(418), ModelRequestError),
        (StatusError(599), ModelUnavailableError),
        (StatusError(200, {"error": {"type": "overloaded_error", "message": "busy"}}), ModelOverloadedError),
        (StatusError(401, {"error": {"type": "overloaded_error"}}), ModelAuthError),
        (RuntimeError("401 invalid API key timeout overloaded"), ModelError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value),
)
def test_an_error_is_known_by_its_class_and_status_and_not_by_its_words(
    error: Exception, kind: type[ModelError]
) -> None:
    assert type(translate(error, ABOUT)) is kind


def test_every_class_in_the_tables_is_one_of_the_hierarchy() -> None:
    kinds = {*BY_STATUS.values(), *BY_CODE.values(), *BY_CLASS.values()}
    assert kinds == set(ModelError.__subclasses__()) - {ModelReplyError}  # which no provider says
    assert issubclass(ModelError, ToolrunError)


def test_messages_say_what_which_and_what_to_do() -> None:
    refused = translate(httpx.ConnectError("All connection attempts failed"), ABOUT)
    assert str(refused) == "Ollama at http://host:1 cannot be reached: All connection attempts failed. Is it running?"
    unknown = translate(ollama.ResponseError("model not found", 404), ABOUT)
    assert str(unknown) == "Ollama does not have the model 'qwen3' (status 404): model not found. Pull it."
    assert unknown.status == 404
    cut = translate(httpx.ReadError("gone"), ABOUT, was_answering=True)
    assert str(cut) == "Ollama broke off in the middle of its answer: gone. Ask again."


def test_the_providers_own_words_are_taken_out_of_the_body() -> None:
    error = StatusError(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert "is overloaded (status 529): Overloaded." in str(translate(error, ABOUT))


@pytest.mark.parametrize(("given", "seconds"), [("3", 3.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
def test_the_time_to_wait_is_read_from_the_response(given: str, seconds: float | None) -> None:
    error = StatusError(429)
    error.response = httpx.Response(429, headers={"retry-after": given})  # type: ignore[attr-defined]
    assert translate(error, ABOUT).retry_after == seconds
