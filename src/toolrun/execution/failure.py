"""Exception → why the call failed, in words. One table, by type and never by searching a message for words."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from toolrun.errors import CallError, CallTimeoutError, ErrorKind, SideEffects, ToolError, UnavailableError
from toolrun.result import Content


@dataclass(frozen=True, slots=True)
class Failure:
    kind: ErrorKind
    message: str
    side_effects: SideEffects
    detail: str = ""
    answer: Content | None = None
    """What the tool said all the same."""


_UNAVAILABLE: Final = (ErrorKind.UNAVAILABLE, "The service behind '{tool}' is unavailable: {reason}")
_TIMEOUT: Final = (ErrorKind.TIMEOUT, "'{tool}' gave up waiting for an answer: {reason}")

# Classes by name, so that libraries need not be imported to recognise what they raise. The most specific class of an
# exception that stands here decides.
TABLE: Final[dict[str, tuple[ErrorKind, str]]] = {
    "builtins.TimeoutError": _TIMEOUT,
    "builtins.ConnectionError": _UNAVAILABLE,
    "socket.gaierror": _UNAVAILABLE,
    "socket.herror": _UNAVAILABLE,
    "ssl.SSLError": _UNAVAILABLE,
    "urllib.error.HTTPError": (ErrorKind.TOOL_ERROR, "{reason}"),
    "urllib.error.URLError": _UNAVAILABLE,
    "http.client.RemoteDisconnected": _UNAVAILABLE,
    "httpx.TimeoutException": _TIMEOUT,
    "httpx.TransportError": _UNAVAILABLE,
    "httpx2.TimeoutException": _TIMEOUT,
    "httpx2.TransportError": _UNAVAILABLE,
    "httpcore.TimeoutException": _TIMEOUT,
    "httpcore.NetworkError": _UNAVAILABLE,
    "requests.exceptions.Timeout": _TIMEOUT,
    "requests.exceptions.ConnectionError": _UNAVAILABLE,
    "urllib3.exceptions.TimeoutError": _TIMEOUT,
    "urllib3.exceptions.HTTPError": _UNAVAILABLE,
    "aiohttp.client_exceptions.ServerTimeoutError": _TIMEOUT,
    "aiohttp.client_exceptions.ClientConnectionError": _UNAVAILABLE,
    # How a worker names what only the number of an OSError tells.
    "errno.ENETDOWN": _UNAVAILABLE,
    "errno.ENETUNREACH": _UNAVAILABLE,
    "errno.EHOSTDOWN": _UNAVAILABLE,
    "errno.EHOSTUNREACH": _UNAVAILABLE,
    "builtins.SystemExit": (ErrorKind.TOOL_ERROR, "The tool tried to end the program (exit code {reason})"),
    "builtins.KeyboardInterrupt": (ErrorKind.TOOL_ERROR, "The tool raised KeyboardInterrupt"),
    "builtins.RecursionError": (ErrorKind.TOOL_ERROR, "The tool called itself too deeply: {reason}"),
    "builtins.MemoryError": (ErrorKind.TOOL_ERROR, "The tool ran out of memory"),
    "builtins.KeyError": (ErrorKind.TOOL_ERROR, "KeyError: {reason}"),
}

# Errors of the network for which Python has no class: they are plain OSErrors.
_UNREACHABLE: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})


_CALL_ERRORS: Final[dict[ErrorKind, type[CallError]]] = {
    ErrorKind.UNAVAILABLE: UnavailableError,
    ErrorKind.TIMEOUT: CallTimeoutError,
}


def explain(error: BaseException, tool: str) -> Failure:
    """Why a call to `tool` that ended with `error` failed. Never raises."""
    try:
        return _explain(error, tool)
    except BaseException:  # noqa: BLE001  an exception's own methods and properties, which may even exit
        return Failure(ErrorKind.TOOL_ERROR, type(error).__name__, SideEffects.FAILED)


def _explain(error: BaseException, tool: str) -> Failure:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group puts even a single failure into a group
    if isinstance(error, CallError):
        said = error.answer if type(error.answer) is Content else None
        return Failure(error.kind, text_of(error), error.side_effects, str(error.detail), said)
    if isinstance(error, asyncio.CancelledError):
        return Failure(ErrorKind.CANCELLED, f"Tool '{tool}' was cancelled", SideEffects.UNKNOWN)
    kind, wording = _UNAVAILABLE if _is_unreachable(error) else _entry(_classes(error))
    reason = "0" if isinstance(error, SystemExit) and error.code is None else text_of(error)
    return Failure(kind, wording.format(tool=tool, reason=reason), SideEffects.FAILED)


def remote_failure(classes: Sequence[str], message: str, tool: str) -> CallError:
    """The same for an exception that was raised in another process: its classes, the most specific first."""
    kind, wording = _entry(classes)
    text = wording.format(tool=tool, reason=message)
    return _CALL_ERRORS.get(kind, ToolError)(text, side_effects=SideEffects.FAILED)


def _entry(classes: Iterable[str]) -> tuple[ErrorKind, str]:
    return next((TABLE[name] for name in classes if name in TABLE), (ErrorKind.TOOL_ERROR, "{reason}"))


def _classes(error: BaseException) -> list[str]:
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__]


def _is_unreachable(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _UNREACHABLE


def text_of(error: BaseException) -> str:
    """The message of an exception, or its type where it has none or cannot say it."""
    name = type(error).__name__
    text = ""
    with contextlib.suppress(BaseException):  # its own `__str__` may even exit
        text = str(error).strip()
    return text.encode("utf-8", "replace").decode() or name
