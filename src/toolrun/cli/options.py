"""What one run of the program knows of itself: the options that every command has, and how the process is to end.

Imported by `toolrun --help`, so it imports nothing but click.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_PATIENCE: Final = 0.5
"""Seconds that threads which are about to end get before the process ends without them."""


class Invocation:
    """One run of the program."""

    def __init__(self) -> None:
        self.config: str | None = None
        """The path given with --config."""
        self.verbosity = 0
        """How many -v there were."""
        self.is_stuck = False
        """Whether tasks are left that do not end."""

    def leave(self, code: int) -> None:
        """End the process here if waiting for its tools could take for ever; otherwise return.

        A thread that a tool hangs in cannot be ended, and the interpreter waits for some of them. The caller has the
        answer by now, so nobody needs them.
        """
        deadline = time.monotonic() + _PATIENCE
        others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.is_stuck or any(thread.is_alive() for thread in others):
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it
                    stream.flush()
            os._exit(code)


def shared_options(envvar: str | None = None) -> Callable[[F], F]:
    """The options that may stand before and after the name of the command."""

    def set_config(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
        if path is not None:
            ctx.ensure_object(Invocation).config = path

    def set_verbosity(ctx: click.Context, _: click.Parameter, count: int) -> None:
        ctx.ensure_object(Invocation).verbosity += count

    def decorate(function: F) -> F:
        verbose = click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=set_verbosity,
            help="Log more to stderr: -v what is done, -vv everything, with tracebacks.",
        )
        config = click.option(
            "--config",
            metavar="PATH",
            envvar=envvar,
            expose_value=False,
            callback=set_config,
            help="The configuration file. Without it: $TOOLRUN_CONFIG, or the nearest toolrun.toml upwards.",
        )
        return config(verbose(function))

    return decorate
