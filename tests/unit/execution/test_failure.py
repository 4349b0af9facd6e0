"""Exceptions become a kind and words, by their type alone."""

from __future__ import annotations

import asyncio
import email.message
import errno
import http.client
import socket
import ssl
import urllib.error
import urllib.request

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
from toolrun.execution.failure import Failure, explain, remote_failure, text_of

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
        ConnectionResetError("reset"),
        BrokenPipeError("pipe"),
        Offline("gone"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        ssl.SSLCertVerificationError("certificate"),
        urllib.error.URLError("no host given"),
        http.client.RemoteDisconnected("closed"),
        httpx.RemoteProtocolError("closed"),
        ExceptionGroup("tasks", [ExceptionGroup("inner", [ConnectionResetError("reset")])]),
    ],
)
def test_what_cannot_be_reached_is_unavailable(error: Exception) -> None:
    failure = explain(error, "weather")
    assert (failure.kind, failure.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.FAILED)
    assert failure.message.startswith("The service behind 'weather' is unavailable: ")


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        socket.gaierror(-2, "Name or service not known"),
        urllib.error.URLError(REFUSED),
        urllib.error.URLError(socket.gaierror(-2, "Name or service not known")),
        httpx.ConnectError("refused"),
        caused(Offline("gone"), caused(Offline("again"), REFUSED)),
        Offline(urllib.error.URLError(REFUSED)),  # as `requests` does it
        ExceptionGroup("tasks", [REFUSED]),
    ],
)
def test_without_a_connection_nothing_was_started(error: Exception) -> None:
    failure = explain(error, "weather")
    assert (failure.kind, failure.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)


@pytest.mark.parametrize("cause", [None, ConnectionResetError("reset"), ValueError(7)])
def test_a_connection_that_was_lost_proves_nothing(cause: BaseException | None) -> None:
    error = Offline("gone")
    error.__cause__ = cause
    error.__context__ = REFUSED  # it was raised while that was handled, which may be another attempt
    assert explain(error, "weather").side_effects is SideEffects.FAILED


async def test_real_libraries_say_that_a_connection_was_refused() -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(urllib.error.URLError) as by_urllib:
            urllib.request.urlopen(url)  # noqa: ASYNC210  it is refused at once
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError) as by_httpx:
                await client.get(url)
    for error in (by_urllib.value, by_httpx.value):
        assert explain(error, "weather").side_effects is SideEffects.NOT_STARTED


@pytest.mark.parametrize(
    ("classes", "side_effects"),
    [
        (["builtins.ConnectionRefusedError", "builtins.ConnectionError"], SideEffects.NOT_STARTED),
        (["httpx.ConnectError", "httpx.NetworkError", "httpx.TransportError"], SideEffects.NOT_STARTED),
        (["builtins.ConnectionResetError", "builtins.ConnectionError"], SideEffects.FAILED),
    ],
)
def test_what_a_worker_reports_counts_the_same_and_is_not_run_again_by_toolrun(
    classes: list[str], side_effects: SideEffects
) -> None:
    error = remote_failure(classes, "no", "weather")
    assert error.side_effects is SideEffects.FAILED  # the tool ran
    assert explain(error, "weather").side_effects is side_effects


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
