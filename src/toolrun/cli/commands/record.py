"""`toolrun record`: a prefix for other commands, so that whatever calls tools can be recorded in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from toolrun.cli.exit import FAILED
from toolrun.cli.options import Options, RecordOptions, shared_options
from toolrun.cli.output import complain, inform
from toolrun.text import plural

RECORDABLE: Final = ("call", "ask", "chat", "voice", "serve")
"""The commands that call tools."""


@click.command(name="record", context_settings={"allow_interspersed_args": False})
@click.argument("file", type=click.Path())
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="COMMAND [ARGS]...")
@click.option("--overwrite", is_flag=True, help="Begin a new recording. Default: an existing one is extended.")
@click.option("--with-secrets", is_flag=True, help="Record the values of the project's secrets, too.")
@shared_options()
@click.pass_context
def command(ctx: click.Context, file: str, command: tuple[str, ...], overwrite: bool, with_secrets: bool) -> int:
    """Run COMMAND, and record the calls of its tools in FILE.

    COMMAND is call, ask, chat, voice or serve, with its arguments:

    \b
      toolrun record tests/house.jsonl call set_light room=office
      toolrun record tests/house.jsonl ask "Is the hall warm?"
      toolrun record tests/house.jsonl serve --http 8000

    FILE has the tools and the calls in full: arguments, results, images, errors. Only the values of the project's
    secrets are hidden. A test plays it with the pytest fixture 'recording', an MCP client with
    'toolrun serve --recording FILE'.

    Exit code: that of COMMAND; 1 if FILE is not complete.
    """
    words = list(command[1:] if command[0] == "--" else command)
    if not words or words[0] not in RECORDABLE:
        found = f"'{words[0]}'" if words else "nothing"
        hint = "; options of record come before FILE" if words and words[0].startswith("-") else ""
        raise click.UsageError(f"record runs {', '.join(RECORDABLE)}; got {found}{hint}", ctx)
    assert ctx.parent is not None
    assert isinstance(ctx.parent.command, click.Group)
    name, inner, rest = ctx.parent.command.resolve_command(ctx.parent, words)
    assert inner is not None
    options = ctx.ensure_object(Options)
    options.record = record = RecordOptions(str(Path(file).absolute()), overwrite=overwrite, with_secrets=with_secrets)
    with inner.make_context(name, rest, parent=ctx.parent) as inner_context:
        secrets = "with secrets" if with_secrets else "except the values of the project's secrets"
        inform(f"Recording calls in full into {file}, {secrets}. Look through it before you share it.")
        try:
            code: int | None = inner.invoke(inner_context)
        finally:
            is_complete = _report(record, file)
    return (code or 0) if is_complete else (code or FAILED)


def _report(record: RecordOptions, file: str) -> bool:
    """Say what was recorded; whether that is all of it."""
    recorder = record.recorder
    if recorder is None:  # the command has not opened its tools
        return True
    inform(f"Recorded {plural(recorder.recorded, 'call')} into {file}")
    if recorder.missing:
        complain(f"{file} lacks {plural(recorder.missing, 'line')}: {recorder.failure}")
    return not recorder.missing
