"""The options that every command has.

Imported by `toolrun --help`, so it imports nothing but click.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from toolrun.recording.recording_observer import Recorder

F = TypeVar("F", bound=Callable[..., Any])


class RecordOptions:
    """What `toolrun record` asks of the command that it runs."""

    def __init__(self, file: str, *, overwrite: bool, with_secrets: bool) -> None:
        self.file = file
        self.overwrite = overwrite
        self.with_secrets = with_secrets
        self.recorder: Recorder | None = None
        """What records, once the tools of the command are open."""


class Options:
    """The shared options of one run of the program, and how the run has to end."""

    def __init__(self) -> None:
        self.config: str | None = None
        """The path given with --config."""
        self.verbosity = 0
        """The number of -v."""
        self.asks = False
        """Whether the command asks the person at the terminal about tools whose definitions have changed."""
        self.is_stuck = False
        """Whether tasks are left that do not end."""
        self.record: RecordOptions | None = None
        """Set by `toolrun record`: the calls are recorded."""

    def command_line(self, *words: str) -> str:
        """A command for the user to run, as a shell wants it, with the configuration that this run has."""
        from shlex import join

        return join(["toolrun", *(() if self.config is None else ("--config", self.config)), *words])


def shared_options(envvar: str | None = None) -> Callable[[F], F]:
    """The options that may come before and after the name of the command."""

    def set_config(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
        if path is not None:
            ctx.ensure_object(Options).config = path

    def set_verbosity(ctx: click.Context, _: click.Parameter, count: int) -> None:
        ctx.ensure_object(Options).verbosity += count

    def decorate(function: F) -> F:
        verbose = click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=set_verbosity,
            help="Log more to stderr: -v every call, -vv everything, with tracebacks.",
        )
        config = click.option(
            "--config",
            metavar="PATH",
            type=click.Path(),
            envvar=envvar,
            expose_value=False,
            callback=set_config,
            help="The configuration file. Default: $TOOLRUN_CONFIG, or the nearest toolrun.toml upwards.",
        )
        return config(verbose(function))

    return decorate


def wait_option(default: float) -> Callable[[F], F]:
    """How long a command waits for MCP servers: a number of seconds, or None for as long as it takes."""

    def seconds(_: click.Context, __: click.Parameter, value: float) -> float | None:
        if value != value:  # NaN
            raise click.BadParameter("it is not a number of seconds")
        return None if value == float("inf") else value

    return click.option(
        "--wait",
        metavar="[SECONDS]",
        type=click.FloatRange(min=0),
        is_flag=False,
        flag_value="inf",
        default=default,
        callback=seconds,
        help="How long to wait for MCP servers that are connecting; without SECONDS until each is connected or has "
        f"failed. Default: {default:g} seconds.",
    )
