"""What can go wrong with a model, and the one table from the raw errors of all provider packages to it.

Errors are recognised by status code, by the provider's own error code and by class, never by the words of a message.
Classes stand here by name, so that no provider package is imported to recognise what it raises.

    ModelError
    ├── ModelUnavailableError   cannot be reached, or broke off
    ├── ModelOverloadedError    asks to come back later
    ├── ModelTimeoutError       did not answer in time
    ├── ModelAuthError          does not accept the key
    ├── ModelNotFoundError      does not have that model
    ├── ModelContextError       the conversation is too long for it
    ├── ModelRequestError       refuses the request for another reason
    └── ModelProtocolError      answered something that is no answer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

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
        """Seconds that the provider asks to wait."""
        self.messages: Sequence[BaseMessage] = ()
        """The conversation until then, with the results of all tools that ran. It can be passed on as `history`."""


class ModelUnavailableError(ModelError):
    """The provider cannot be reached, has an internal error, or broke off in the middle of an answer."""

    is_retryable = True
    what = "{label}{where} cannot be reached: {reason}."
    advice = "{if_unreachable}"


class ModelOverloadedError(ModelError):
    """The provider has too much to do, or the limit of the account is reached."""

    is_retryable = True
    what = "{label} has too much to do{status}: {reason}."
    advice = "Try again later, or with a smaller model."


class ModelTimeoutError(ModelError):
    """The answer did not come in time."""

    what = "{label} did not answer in time: {reason}."
    advice = "Try again, give it more time (TurnLimits.answer_time), or use a smaller model."


class ModelAuthError(ModelError):
    """The provider does not accept the key, or the key may not do this."""

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
    """The provider answered something that is no answer."""

    what = "{label}{where} answered something that is no answer: {reason}."
    advice = "Is this the address of the right service, and a version that fits?"


@dataclass(frozen=True, slots=True)
class About:
    """Who is asked, for messages."""

    label: str = "The model"
    model: str = "?"
    address: str = ""
    if_unreachable: str = "Check the network and the address."
    if_unauthorised: str = "Check the key that the chat model was made with."
    if_not_found: str = "Check the name of the model."


STATUS: Final[dict[int, type[ModelError]]] = {
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

# The `type` of an error object in the body, for errors that arrive inside a stream which began with status 200.
CODES: Final[dict[str, type[ModelError]]] = {
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

CLASSES: Final[dict[str, type[ModelError]]] = {
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
    """The raw error of whatever stack as one of ours. `was_answering`: a part of the answer had arrived."""
    status = _status(error)
    kind = _kind(error, status)
    reason = " ".join(_reason(error).split()).rstrip(".")
    what, advice = kind.what, kind.advice
    if kind is ModelUnavailableError and was_answering:
        what, advice = "{label} broke off in the middle of its answer: {reason}.", "Ask again."
    elif kind is ModelUnavailableError and status is not None:
        what, advice = "{label} failed{status}: {reason}.", "Try again; if it goes on, look at the provider's log."
    values = {name: getattr(about, name) for name in About.__slots__}
    values["reason"] = reason
    values["status"] = "" if status is None else f" (status {status})"
    values["where"] = f" at {about.address}" if about.address else ""
    message = f"{what} {advice}".strip().format_map(values).strip()
    return kind(message, status=status, retry_after=_retry_after(error))


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None


def _kind(error: BaseException, status: int | None) -> type[ModelError]:
    classes = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__]
    found = next((CLASSES[name] for name in classes if name in CLASSES), None)
    if found is ModelContextError or (status is None and found is not None):
        return found
    if status is None:
        return CODES.get(_code(error), ModelError)
    if status in STATUS:
        return STATUS[status]
    return ModelUnavailableError if status >= 500 else ModelRequestError


def _code(error: BaseException) -> str:
    """The provider's own name of the error, out of the body that the exception carries."""
    return str(_error_object(error).get("type", ""))


def _reason(error: BaseException) -> str:
    """What the provider says itself, without what its package wraps around it."""
    message = _error_object(error).get("message")
    if isinstance(message, str) and message:
        return message
    said = getattr(error, "error", None)  # ollama
    return said if isinstance(said, str) and said else text_of(error)


def _error_object(error: BaseException) -> Mapping[str, Any]:
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
