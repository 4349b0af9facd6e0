"""The errors of models, and the tables that translate the errors of all provider packages into them.

Errors are recognised by status code, by the provider's error code and by class, never by the text of a message. Classes
are listed by name, so that no provider package has to be imported.

    ModelError
    ├── ModelUnavailableError   the provider cannot be reached, or broke off
    ├── ModelOverloadedError    the provider asks for a later attempt
    ├── ModelTimeoutError       the answer did not come in time
    ├── ModelAuthError          the provider does not accept the key
    ├── ModelNotFoundError      the provider does not have the model
    ├── ModelContextError       the conversation is too long for the model
    ├── ModelRequestError       the provider refuses the request for another reason
    ├── ModelProtocolError      the response is not a valid answer
    └── ModelReplyError         the answer does not have the type that was asked for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from toolrun.errors import ToolrunError
from toolrun.execution.failure import text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


class ModelError(ToolrunError):
    """The model gave no answer."""

    is_retryable: ClassVar[bool] = False
    """Whether the same request may succeed a little later."""
    what: ClassVar[str] = "{label}{where} failed: {reason}."
    advice: ClassVar[str] = ""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status code of the HTTP response, if there was one."""
        self.retry_after = retry_after
        """The seconds to wait, if the provider named them."""
        self.messages: Sequence[BaseMessage] = ()
        """The conversation up to the error, with the results of all tools that ran; usable as `history`."""


class ModelUnavailableError(ModelError):
    """The provider cannot be reached, has an internal error, or broke off in the middle of an answer."""

    is_retryable = True
    what = "{label}{where} cannot be reached: {reason}."
    advice = "{if_unreachable}"


class ModelOverloadedError(ModelError):
    """The provider is overloaded, or the account has reached its limit."""

    is_retryable = True
    what = "{label} is overloaded{status}: {reason}."
    advice = "Try again later, or with a smaller model."


class ModelTimeoutError(ModelError):
    """The answer did not come in time."""

    what = "{label} did not answer in time: {reason}."
    advice = "Try again, give it more time (TurnLimits.answer_time), or use a smaller model."


class ModelAuthError(ModelError):
    """The provider does not accept the key, or the key lacks a permission."""

    what = "{label} does not accept the API key{status}: {reason}."
    advice = "{if_unauthorised}"


class ModelNotFoundError(ModelError):
    """The provider does not have that model."""

    what = "{label} does not have the model '{model}'{status}: {reason}."
    advice = "{if_not_found}"


class ModelContextError(ModelError):
    """The conversation is longer than the model can read."""

    what = "The conversation is too long for the model '{model}'{status}: {reason}."
    advice = "Start a new one, offer fewer tools, or lower the limit for results (Limits.max_result_chars)."


class ModelRequestError(ModelError):
    """The provider refuses the request."""

    what = "{label} refused the request{status}: {reason}."


class ModelProtocolError(ModelError):
    """The provider's response is not a valid answer."""

    what = "{label}{where} sent an invalid response: {reason}."
    advice = "Check that the address is that of the right service, and that the versions are compatible."


class ModelReplyError(ModelError):
    """The answer does not fit `reply_type`, nor did the one before it."""


@dataclass(frozen=True, slots=True)
class About:
    """The provider and the model, for messages."""

    label: str = "The model"
    model: str = "?"
    address: str = ""
    if_unreachable: str = "Check the network and the address."
    if_unauthorised: str = "Check the key that the chat model was made with."
    if_not_found: str = "Check the name of the model."


_GOOGLE: Final = "google.genai.errors"

BY_STATUS: Final[dict[int, type[ModelError]]] = {
    401: ModelAuthError,
    402: ModelAuthError,
    403: ModelAuthError,
    404: ModelNotFoundError,
    408: ModelTimeoutError,
    413: ModelContextError,
    429: ModelOverloadedError,
    503: ModelOverloadedError,
    504: ModelTimeoutError,
    529: ModelOverloadedError,
}

# By the `type` of the error object in the body, for errors inside a stream that began with status 200.
BY_CODE: Final[dict[str, type[ModelError]]] = {
    "api_error": ModelUnavailableError,
    "authentication_error": ModelAuthError,
    "billing_error": ModelAuthError,
    "invalid_request_error": ModelRequestError,
    "not_found_error": ModelNotFoundError,
    "overloaded_error": ModelOverloadedError,
    "permission_error": ModelAuthError,
    "rate_limit_error": ModelOverloadedError,
    "request_too_large": ModelContextError,
    "timeout_error": ModelTimeoutError,
}

BY_CLASS: Final[dict[str, type[ModelError]]] = {
    "langchain_core.exceptions.ContextOverflowError": ModelContextError,
    "langchain_core.exceptions.ModelAuthenticationError": ModelAuthError,
    "langchain_core.exceptions.ModelPermissionDeniedError": ModelAuthError,
    "langchain_core.exceptions.ModelNotFoundError": ModelNotFoundError,
    "langchain_core.exceptions.ModelRateLimitError": ModelOverloadedError,
    "langchain_core.exceptions.ModelTimeoutError": ModelTimeoutError,
    "langchain_core.exceptions.ModelConnectionError": ModelUnavailableError,
    "langchain_core.exceptions.ModelAPIError": ModelUnavailableError,
    "langchain_core.exceptions.ModelInvalidRequestError": ModelRequestError,
    "langchain_core.exceptions.OutputParserException": ModelProtocolError,
    "ollama._types.ResponseError": ModelUnavailableError,
    "httpx.TimeoutException": ModelTimeoutError,
    "httpx.TransportError": ModelUnavailableError,
    "httpx2.TimeoutException": ModelTimeoutError,
    "httpx2.TransportError": ModelUnavailableError,
    "anthropic.APITimeoutError": ModelTimeoutError,
    "anthropic.APIConnectionError": ModelUnavailableError,
    "anthropic.APIResponseValidationError": ModelProtocolError,
    "openai.APITimeoutError": ModelTimeoutError,
    "openai.APIConnectionError": ModelUnavailableError,
    "pydantic_core._pydantic_core.ValidationError": ModelProtocolError,
    "json.decoder.JSONDecodeError": ModelProtocolError,
    "builtins.TimeoutError": ModelTimeoutError,
    "builtins.ConnectionError": ModelUnavailableError,
}


def translate(error: BaseException, about: About, *, was_answering: bool = False) -> ModelError:
    """The error of a provider package as a ModelError. `was_answering`: part of the answer had arrived."""
    error = _unwrapped(error)
    status = _status(error)
    error_class = _error_class(error, status)
    reason = " ".join(_reason(error).split()).rstrip(".")
    what, advice = error_class.what, error_class.advice
    if error_class is ModelUnavailableError and was_answering:
        what, advice = "{label} broke off in the middle of its answer: {reason}.", "Ask again."
    elif error_class is ModelUnavailableError and status is not None:
        what, advice = (
            "{label} failed{status}: {reason}.",
            "Try again; if it keeps failing, look at the provider's log.",
        )
    values = {name: getattr(about, name) for name in About.__slots__}
    values["reason"] = reason
    values["status"] = "" if status is None else f" (status {status})"
    values["where"] = f" at {about.address}" if about.address else ""
    message = f"{what} {advice}".strip().format_map(values).strip()
    return error_class(message, status=status, retry_after=_retry_after(error))


def is_malformed_answer(error: BaseException) -> bool:
    """Whether a package could not read the calls or the characters of an answer: the model's mistake."""
    if isinstance(error, RecursionError) or any(
        f"{cls.__module__}.{cls.__qualname__}" == "langchain_core.exceptions.OutputParserException"
        for cls in type(error).__mro__
    ):
        return True
    problems = getattr(error, "errors", None)  # pydantic's ValidationError
    if not isinstance(error, ValueError) or not callable(problems):
        return False
    found = problems(include_url=False, include_input=False)
    return any("tool_calls" in it["loc"] or it["type"] == "string_unicode" for it in found)


def _unwrapped(error: BaseException) -> BaseException:
    """The error of Google's SDK, which its package for LangChain wraps in one of its own."""
    cause = error.__cause__
    return cause if cause is not None and type(cause).__module__ == _GOOGLE else error


def _status(error: BaseException) -> int | None:
    status = getattr(error, "code" if type(error).__module__ == _GOOGLE else "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None


def _error_class(error: BaseException, status: int | None) -> type[ModelError]:
    classes = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__]
    by_class = next((BY_CLASS[name] for name in classes if name in BY_CLASS), None)
    if by_class is ModelContextError or (status is None and by_class is not None):
        return by_class
    if status is None:
        return BY_CODE.get(_error_code(error), ModelError)
    if status in BY_STATUS:
        return BY_STATUS[status]
    return ModelUnavailableError if status >= 500 else ModelRequestError


def _error_code(error: BaseException) -> str:
    """The provider's error code, from the response body that the exception carries."""
    return str(_error_object(error).get("type", ""))


def _reason(error: BaseException) -> str:
    """The provider's message, without what its package adds."""
    message = _error_object(error).get("message")
    if isinstance(message, str) and message:
        return message
    text = getattr(error, "message" if type(error).__module__ == _GOOGLE else "error", None)  # the latter: ollama
    return text if isinstance(text, str) and text else text_of(error)


def _error_object(error: BaseException) -> Mapping[str, object]:
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    given = headers.get("retry-after") if headers is not None else None
    try:
        return None if given is None else float(given)
    except ValueError:  # a date
        return None
