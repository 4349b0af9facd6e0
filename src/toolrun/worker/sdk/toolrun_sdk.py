"""What a script may use of its host, and need not: config, secrets, key, log and progress of the running call.

    from toolrun_sdk import ToolError, config, idempotency_key, log, progress, secrets

    def fetch(city: str) -> str:
        log.info("fetching", city=city)
        progress(1, 3, "connected")
        if city not in CITIES:
            raise ToolError(f"There is no weather for {city}.")
        return get(config.get("url", DEFAULT), key=secrets["WEATHER_KEY"])

There is nothing to install: the worker has this file on its path. Where a script runs on its own (`python script.py`
with this file at hand) config and secrets are empty, log lines are for people, progress goes nowhere, and each
idempotency key is another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    _Base = Mapping[str, Any]
else:
    _Base = Mapping

__all__ = ["Done", "NotDone", "ToolError", "config", "idempotency_key", "log", "progress", "secrets", "trace_context"]

_HINTS = {
    "config": "is not in the tool's config of toolrun.toml",
    "secrets": "was not granted: declare it in [tool.toolrun] of the script, and grant it in toolrun.toml",
}


class ToolError(Exception):
    """Raise it to tell the model what went wrong, in your own words, and the host that nothing was done."""

    raised = ("toolrun.ToolError",)


class Done(dict):  # type: ignore[type-arg]  # Python 3.9 has it, older type checkers do not
    """What a `verify` function returns if the call has acted: the result that the call would have had, if known."""

    def __init__(self, result: object = None) -> None:
        super().__init__(verdict="done", result=result)


class _NotDone(dict):  # type: ignore[type-arg]  # as above
    def __call__(self) -> _NotDone:
        return self


NotDone = _NotDone(verdict="not_done")
"""What a `verify` function returns if the call has not acted; None means that it cannot say."""


def _worker() -> Any:
    """The module of the worker that this runs in, or None."""
    return sys.modules.get("toolrun_worker.serve")


class _MissingError(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class _View(_Base):
    """One part of the running call's request. Read-only."""

    def __init__(self, part: str) -> None:
        self._part = part

    def _data(self) -> dict[str, Any]:
        worker = _worker()
        call = None if worker is None else worker.running_call()
        data: dict[str, Any] = {} if call is None else getattr(call, self._part)
        return data

    def __getitem__(self, name: str) -> Any:
        try:
            return self._data()[name]
        except KeyError:
            raise _MissingError(f"'{name}' {_HINTS[self._part]}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._data()))

    def __len__(self) -> int:
        return len(self._data())

    def __repr__(self) -> str:
        """Names only: it may end up in a log."""
        return f"<{self._part}: {', '.join(self._data()) or 'empty'}>"


class _Log:
    """Records for the host's log. Fields are whatever helps to find one again."""

    def debug(self, message: object, /, **fields: object) -> None:
        _write("debug", message, fields)

    def info(self, message: object, /, **fields: object) -> None:
        _write("info", message, fields)

    def warning(self, message: object, /, **fields: object) -> None:
        _write("warning", message, fields)

    def error(self, message: object, /, **fields: object) -> None:
        _write("error", message, fields)


def _write(level: str, message: object, fields: dict[str, object]) -> None:
    worker = _worker()
    if worker is not None:
        worker.log(level, str(message), fields)
    elif sys.stderr is not None:
        more = "".join(f" {name}={value!r}" for name, value in fields.items())
        sys.stderr.write(f"{level.upper()} {message}{more}\n")


config = _View("config")
secrets = _View("secrets")
log = _Log()


def idempotency_key() -> str:
    """What the destination of the running call may know it by: 32 hexadecimal digits, for a header or a column.

    It is the same for every attempt of a call with a key, and no other call has it.
    """
    worker = _worker()
    if worker is None:
        return os.urandom(16).hex()
    call = worker.running_call()
    if call is None:
        raise RuntimeError("no call is running here: ask for the key in the tool, and give it to the thread")
    return str(call.key)


def trace_context() -> dict[str, str]:
    """The W3C trace context of the running call, for headers of requests: `traceparent`, and perhaps `tracestate`.

    Empty if the call is not traced. Scripts whose calls do not overlap have it in `TRACEPARENT`, too.
    """
    worker = _worker()
    call = None if worker is None else worker.running_call()
    return {} if call is None else dict(call.trace)


def progress(done: float, total: float | None = None, message: str = "") -> None:
    """Tell the host how far the running call is."""
    worker = _worker()
    if worker is not None:
        worker.report_progress(done, total, str(message))
