"""What the shell completes for the arguments of commands. Imports nothing until a shell asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def tool_names(context: click.Context, parameter: click.Parameter, unfinished: str) -> list[CompletionItem[Any]]:
    """What the shell completes for the name of a tool."""
    from toolrun.cli.shell_completion import complete_tool

    return complete_tool(context, parameter, unfinished)


def tool_arguments(context: click.Context, parameter: click.Parameter, unfinished: str) -> list[CompletionItem[Any]]:
    """What the shell completes for NAME=VALUE."""
    from toolrun.cli.shell_completion import complete_arguments

    return complete_arguments(context, parameter, unfinished)
