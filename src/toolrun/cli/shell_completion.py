"""What the shell is told when somebody presses Tab: commands, options, names of tools, their parameters and values.

The shell runs toolrun for each Tab, in the middle of the line that a person types. So this is quick, runs nothing of
the project, and says nothing but completions: where it cannot know, there are none.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from toolrun.cli.known_tools import Tools, known_tools, matching
from toolrun.cli.options import Options

LINE: Final = "_TOOLRUN_LINE"
"""The variable with the line up to the cursor: if it is set, toolrun completes."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,:/@%+=-]+")
"""What every shell takes as it is."""


def answer_shell(program: click.Command) -> int:
    """Print the completions, one per line: its kind, the text and its help, with tabs between them."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # not one word into the line that is being typed
    lines: list[str] = []
    with contextlib.suppress(Exception):  # of any kind: there are no completions then
        lines = [_line(item) for item in _completions(program, os.environ[LINE])]
    with contextlib.suppress(OSError):
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
    return 0


def _completions(program: click.Command, line: str) -> Iterator[CompletionItem[Any]]:
    words = split_arg_string(line)
    unfinished = "" if not words or line[-1:].isspace() else words.pop()
    for item in ShellComplete(program, {}, "toolrun", LINE).get_completions(words[1:], unfinished):
        if item.type != "plain" or _PLAIN.fullmatch(str(item.value)):
            yield item


def _line(item: CompletionItem[Any]) -> str:
    about = " ".join(str(item.help or "").split())
    shown = "".join(it for it in about if it.isprintable())
    return f"{item.type}\t{item.value}\t{shown[:80]}\n"


def complete_tool(context: click.Context, _: click.Parameter, unfinished: str) -> list[CompletionItem[Any]]:
    return [CompletionItem(name, help=about) for name, about in matching(_tools(context), unfinished)]


def complete_arguments(context: click.Context, _: click.Parameter, unfinished: str) -> list[CompletionItem[Any]]:
    """`NAME=` of each parameter that has no value yet; after it, its values."""
    tools: Tools = _tools(context)
    parameters = tools.get(str(context.params.get("tool")), {}).get("parameters", {})
    name, sign, value = unfinished.partition("=")
    if sign:
        values = parameters.get(name.removesuffix(":"), [])
        return [CompletionItem(f"{name}={it}") for it in values if it.startswith(value)]
    given: Sequence[str] = context.params.get("arguments") or ()
    taken = {word.partition("=")[0].removesuffix(":") for word in given}
    return [CompletionItem(f"{it}=") for it in parameters if it.startswith(unfinished) and it not in taken]


def _tools(context: click.Context) -> Tools:
    from toolrun.runtime import read_config

    options = context.find_object(Options)
    return known_tools(read_config(None if options is None else options.config))
