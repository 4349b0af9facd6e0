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
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from toolrun.cli.known_tools import Tools, known_tools, matching
from toolrun.cli.options import Options

LINE: Final = "_TOOLRUN_LINE"
"""The variable with the line up to the cursor: if it is set, toolrun completes."""
_OF_TOOLS: Final = frozenset({"call", "describe"})
"""The commands whose first argument is a tool."""
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
    if words[1:2] and words[1] in _OF_TOOLS and not any(it[:1] == "-" for it in (*words[2:], unfinished)):
        yield from _quickly(words[1], words[2:], unfinished)
        return
    for item in ShellComplete(program, {}, "toolrun", LINE).get_completions(words[1:], unfinished):
        if item.type != "plain" or _PLAIN.fullmatch(str(item.value)):
            yield item


def _quickly(command: str, words: Sequence[str], unfinished: str) -> Iterator[CompletionItem[Any]]:
    """The same for the commands that are typed most, without importing their modules, which are large."""
    with click.Context(click.Command(command)) as context:
        context.params = {"tool": words[0] if words else None, "arguments": words[1:]}
        complete = complete_arguments if words and command == "call" else complete_tool
        items = [] if words and command != "call" else complete(context, click.Argument(["tool"]), unfinished)
    yield from (it for it in items if _PLAIN.fullmatch(str(it.value)))


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
    from toolrun.config.load import find_config, load_config  # and not what runs tools, which takes ten times as long

    options = context.find_object(Options)
    named = None if options is None else options.config
    path = find_config(Path.cwd()) if named is None else Path(named)
    return known_tools(load_config(path, environ=os.environ, is_found=named is None))
