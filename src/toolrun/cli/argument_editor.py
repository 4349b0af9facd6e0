"""Lets a person change the arguments of a call: in their editor, or in one line if they have none.

Both can be given up while they are under way: somebody else may answer the request meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import tempfile
import termios
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from toolrun.cli.argument_pairs import parse_pairs
from toolrun.errors import UsageError
from toolrun.json import JSON
from toolrun.processes.engine import describe_exit
from toolrun.schema.reading import RepeatedKeyError, read_json

_ENDING: Final = 2.0
"""Seconds for an editor to end by itself when it is no longer wanted."""
_SHELL_SIGNS: Final = frozenset("|&;<>()$`\\\"'*?[]#~=%{}\n")
_HINT: Final = "NAME=VALUE, NAME:=JSON or a whole JSON object; $VISUAL or $EDITOR would open an editor: "

ReadLine = Callable[[str], Awaitable[str | None]]


async def edit_arguments(arguments: Mapping[str, JSON], terminal: int, read_line: ReadLine) -> dict[str, JSON]:
    """The arguments as the person wants them. Raises UsageError with the reason if they cannot be read."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if editor:
        text = json.dumps(dict(arguments), ensure_ascii=False, indent=2)
        return _parse_object(await _edit_in(editor, f"{text}\n", terminal))
    line = (await read_line(_HINT) or "").strip()
    if line.startswith("{"):
        return _parse_object(line)
    try:
        return {**arguments, **parse_pairs(shlex.split(line))}
    except (click.UsageError, ValueError) as error:
        raise UsageError(error.message if isinstance(error, click.UsageError) else f"{error}") from None


def _parse_object(text: str) -> dict[str, JSON]:
    try:
        value = read_json(text)
    except RepeatedKeyError as error:
        raise UsageError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments must be one JSON object")
    return value


async def _edit_in(editor: str, text: str, terminal: int) -> str:
    """What the person makes of a text."""
    with _file_of(text) as path:
        with _kept_modes(terminal):
            code = await _run(editor, str(path))
        if code:
            raise UsageError(f"the editor {describe_exit(code)}: {editor}")
        return _text_of(path)


async def _run(editor: str, name: str) -> int:
    """Run an editor to its end. Only a setting with signs of the shell needs one: it may outlive the shell when it has
    to end."""
    try:
        if _SHELL_SIGNS.isdisjoint(editor):
            process = await asyncio.create_subprocess_exec(*editor.split(), name)
        else:
            process = await asyncio.create_subprocess_shell(f"{editor} {shlex.quote(name)}")
    except OSError as error:
        raise UsageError(f"the editor cannot be started: {editor}: {error.strerror}") from None
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_ENDING):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        raise


@contextlib.contextmanager
def _file_of(text: str) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="toolrun-", suffix=".json")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"the editor left no file that can be read: {error.strerror}") from None


@contextlib.contextmanager
def _kept_modes(terminal: int) -> Iterator[None]:
    """An editor that is ended leaves the terminal as it needed it."""
    modes = None
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(terminal)
    try:
        yield
    finally:
        if modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
