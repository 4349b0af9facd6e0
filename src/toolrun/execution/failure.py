"""Exception → why the call failed, in words. One table, by type and never by searching a message for words."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from toolrun.errors import CallError, CallTimeoutError, ErrorKind, SideEffects, ToolError, UnavailableError
from toolrun.result import Content
from toolrun.worker.normalise import name_of


class Failure(NamedTuple):
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

_REFUSED: Final = frozenset(
    {
        "builtins.ConnectionRefusedError",
        "socket.gaierror",
        "socket.herror",
        "httpx.ConnectError",
        "httpx2.ConnectError",
        "httpcore.ConnectError",
        "urllib3.exceptions.NewConnectionError",
        "aiohttp.client_exceptions.ClientConnectorError",
    }
)
"""There was no connection, so nothing was sent: what the tool acts on has not heard of the call."""
_MAX_CAUSES: Final = 5

# Errors of the network for which Python has no class: they are plain OSErrors.
_UNREACHABLE: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})


class ForeignError(ToolError):
    """What a tool elsewhere raised without meaning it as an answer: it proves nothing about what the tool has done."""


class NotReachedError(UnavailableError):
    """What a tool elsewhere acts on could not be reached. The tool ran, and may be run again by its caller only."""


_OWN_WORDS: Final = frozenset({"toolrun.ToolError", "toolrun.errors.ToolError"})
"""`ToolError` in a script, and in a function that is declared `isolated`."""
_CALL_ERRORS: Final[dict[ErrorKind, type[CallError]]] = {
    ErrorKind.UNAVAILABLE: UnavailableError,
    ErrorKind.TIMEOUT: CallTimeoutError,
}


def explain(error: BaseException, tool: str) -> Failure:
    """Why a call to `tool` that ended with `error` failed. Never raises."""
    try:
        return _explain(error, tool)
    except BaseException:  # noqa: BLE001  an exception's own methods and properties, which may even exit
        return Failure(ErrorKind.TOOL_ERROR, name_of(type(error)), SideEffects.FAILED)


def _explain(error: BaseException, tool: str) -> Failure:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group puts even a single failure into a group
    if isinstance(error, NotReachedError):
        return Failure(error.kind, text_of(error), SideEffects.NOT_STARTED)
    if isinstance(error, CallError):  # of a class that somebody derived, it may say anything
        kind, effects, said = error.kind, error.side_effects, error.answer
        return Failure(
            kind if type(kind) is ErrorKind else ErrorKind.TOOL_ERROR,
            text_of(error),
            effects if type(effects) is SideEffects else SideEffects.FAILED,
            str.__str__(str(error.detail)),
            said if type(said) is Content else None,
        )
    if isinstance(error, asyncio.CancelledError):
        return Failure(ErrorKind.CANCELLED, f"Tool '{tool}' was cancelled", SideEffects.UNKNOWN)
    kind, wording = _UNAVAILABLE if _is_unreachable(error) else _entry(_classes(error))
    reason = "0" if isinstance(error, SystemExit) and error.code is None else text_of(error)
    effects = SideEffects.NOT_STARTED if kind is ErrorKind.UNAVAILABLE and _is_refused(error) else SideEffects.FAILED
    return Failure(kind, wording.format(tool=tool, reason=reason), effects)


def remote_failure(classes: Sequence[str], message: str, tool: str) -> CallError:
    """The same for an exception that was raised in another process: its classes, the most specific first."""
    if not _OWN_WORDS.isdisjoint(classes):
        return ToolError(message)
    kind, wording = _entry(classes)
    text = wording.format(tool=tool, reason=message)
    if kind is ErrorKind.UNAVAILABLE and not _REFUSED.isdisjoint(classes):
        return NotReachedError(text)
    return _CALL_ERRORS.get(kind, ForeignError)(text, side_effects=SideEffects.FAILED)


def _entry(classes: Iterable[str]) -> tuple[ErrorKind, str]:
    return next((TABLE[name] for name in classes if name in TABLE), (ErrorKind.TOOL_ERROR, "{reason}"))


def _classes(error: BaseException) -> list[str]:
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__]


def _is_refused(error: BaseException) -> bool:
    """Whether no connection came about, as the error or the one that it stands for says."""
    found: object = error
    for _ in range(_MAX_CAUSES):
        if not isinstance(found, BaseException):
            return False
        if not _REFUSED.isdisjoint(_classes(found)):
            return True
        # `urllib` and `urllib3` have it as the reason, `requests` as the first argument, others as the cause.
        first = found.args[0] if found.args else None
        possible = (getattr(found, "reason", None), found.__cause__, first)
        found = next((it for it in possible if isinstance(it, BaseException)), None)
    return False


def _is_unreachable(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _UNREACHABLE


def text_of(error: BaseException) -> str:
    """The message of an exception, or its type where it has none or cannot say it."""
    name = name_of(type(error))
    text = ""
    with contextlib.suppress(BaseException):  # its own `__str__` may even exit
        text = str(error).strip()
    return text.encode("utf-8", "replace").decode() or name
