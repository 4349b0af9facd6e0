"""Exceptions become a kind and words, by their type alone."""

from __future__ import annotations

import asyncio
import email.message
import errno
import http.client
import socket
import ssl
import urllib.error

import httpx
import pytest

from toolrun.errors import (
    CallError,
    CallTimeoutError,
    ErrorKind,
    InvalidArgumentsError,
    OverloadedError,
    ProtocolError,
    SideEffects,
    ToolError,
    UnavailableError,
    UnknownToolError,
    WorkerLostError,
)
from toolrun.execution.failure import Failure, explain, text_of

REQUEST = httpx.Request("GET", "https://x.org")


class Offline(ConnectionError):
    """A subclass of a class in the table."""


class SlowerError(httpx.ReadTimeout):
    """A subclass of a class that stands in the table twice, through two parents."""


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


class NoTextError(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


def http_error(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://x.org", status, "Not Found", email.message.Message(), None)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        ConnectionResetError("reset"),
        BrokenPipeError("pipe"),
        Offline("gone"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        socket.gaierror(-2, "Name or service not known"),
        ssl.SSLCertVerificationError("certificate"),
        urllib.error.URLError("no host given"),
        http.client.RemoteDisconnected("closed"),
        httpx.ConnectError("refused"),
        httpx.RemoteProtocolError("closed"),
        ExceptionGroup("tasks", [ExceptionGroup("inner", [ConnectionResetError("reset")])]),
    ],
)
def test_what_cannot_be_reached_is_unavailable(error: Exception) -> None:
    failure = explain(error, "weather")
    assert (failure.kind, failure.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.FAILED)
    assert failure.message.startswith("The service behind 'weather' is unavailable: ")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("upstream"),
        socket.timeout("upstream"),  # noqa: UP041  the old name of the same
        httpx.ReadTimeout("upstream"),
        httpx.ConnectTimeout("upstream"),
        SlowerError("upstream"),
    ],
)
def test_what_answers_too_late_is_a_time_out(error: Exception) -> None:
    failure = explain(error, "weather")
    assert failure == Failure(
        ErrorKind.TIMEOUT, "'weather' gave up waiting for an answer: upstream", SideEffects.FAILED
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("401 invalid API key: connection timeout"), "401 invalid API key: connection timeout"),
        (OSError(errno.ENOENT, "No such file", "x"), "[Errno 2] No such file: 'x'"),
        (http_error(404), "HTTP Error 404: Not Found"),
        (
            httpx.HTTPStatusError("404 for x.org", request=REQUEST, response=httpx.Response(404)),
            "404 for x.org",
        ),
        (KeyError("city"), "KeyError: 'city'"),
        (ZeroDivisionError("division by zero"), "division by zero"),
        (ValueError("  spaces {reason} \n"), "spaces {reason}"),
        (ValueError(), "ValueError"),
        (MuteError(), "MuteError"),
        (NoTextError(), "NoTextError"),
        (ValueError("half \ud800"), "half ?"),
        (RecursionError("too deep"), "The tool called itself too deeply: too deep"),
        (MemoryError(), "The tool ran out of memory"),
        (SystemExit(3), "The tool tried to end the program (exit code 3)"),
        (SystemExit(), "The tool tried to end the program (exit code 0)"),
        (KeyboardInterrupt(), "The tool raised KeyboardInterrupt"),
        (ExceptionGroup("several", [ValueError("a"), KeyError("b")]), "several (2 sub-exceptions)"),
    ],
)
def test_everything_else_is_the_tools_own_error_in_its_own_words(error: BaseException, message: str) -> None:
    assert explain(error, "weather") == Failure(ErrorKind.TOOL_ERROR, message, SideEffects.FAILED)


def test_a_cancellation_is_one() -> None:
    failure = explain(asyncio.CancelledError(), "weather")
    assert failure == Failure(ErrorKind.CANCELLED, "Tool 'weather' was cancelled", SideEffects.UNKNOWN)


@pytest.mark.parametrize(
    ("error", "kind", "side_effects"),
    [
        (ToolError("x"), ErrorKind.TOOL_ERROR, SideEffects.FAILED),
        (UnknownToolError("x"), ErrorKind.UNKNOWN_TOOL, SideEffects.NOT_STARTED),
        (InvalidArgumentsError("x"), ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED),
        (CallTimeoutError("x"), ErrorKind.TIMEOUT, SideEffects.UNKNOWN),
        (UnavailableError("x"), ErrorKind.UNAVAILABLE, SideEffects.FAILED),
        (OverloadedError("x"), ErrorKind.OVERLOADED, SideEffects.NOT_STARTED),
        (WorkerLostError("x"), ErrorKind.WORKER_LOST, SideEffects.UNKNOWN),
        (ProtocolError("x"), ErrorKind.PROTOCOL, SideEffects.UNKNOWN),
        (ToolError("x", side_effects=SideEffects.NOT_STARTED), ErrorKind.TOOL_ERROR, SideEffects.NOT_STARTED),
    ],
)
def test_our_own_errors_say_themselves_what_they_are(
    error: CallError, kind: ErrorKind, side_effects: SideEffects
) -> None:
    assert explain(error, "weather") == Failure(kind, "x", side_effects)


def test_the_further_lines_of_an_error_are_kept() -> None:
    assert explain(ToolError("x", detail="more"), "t").detail == "more"
    assert text_of(ToolError("")) == "ToolError"
