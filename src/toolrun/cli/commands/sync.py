"""`toolrun sync`: makes the environments of scripts ahead of their first call."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, inform
from toolrun.cli.status_line import StatusLine, status_line
from toolrun.cli.summary import relative
from toolrun.errors import CallError
from toolrun.json import JSON
from toolrun.runtime import Runtime
from toolrun.scripts.source import Script
from toolrun.sources.tool_files import is_script
from toolrun.tools.context import Progress


@dataclass(frozen=True, slots=True)
class Synced:
    """The outcome for one script."""

    path: str
    tools: tuple[str, ...] = ()
    environment: Path | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, JSON]:
        environment = None if self.environment is None else str(self.environment)
        return {"script": self.path, "tools": list(self.tools), "environment": environment, "error": self.error}


@click.command(name="sync")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool) -> int:
    """Create the environments of all scripts in advance, and list their tools.

    The first calls then start at once and need no network. Exit code 1 if a script failed.
    """
    output = claim_stdout()
    log = logging.getLogger("toolrun")
    log.addHandler(logging.NullHandler())
    log.propagate = options.verbosity > 0  # otherwise the command says everything
    with status_line(output, "sync", is_wanted=not as_json) as status:
        synced = run_with_tools(options, partial(_sync, status=status), on_progress=inform, lazy=True)
    failed = [it for it in synced if it.error is not None]
    if as_json:
        output.json([it.to_dict() for it in synced])
    elif synced:
        columns = [Column("SCRIPT", "bold cyan"), Column("STATE"), Column("TOOLS", wraps=True)]
        output.table(columns, [(it.path, "failed" if it.error else "ready", ", ".join(it.tools)) for it in synced])
    else:
        new = options.command_line("new", "NAME", "--script")
        complain(f"there are no scripts here; write one with '{new}'")
    for it in failed:
        complain(f"{it.path}: {it.error}")
    return FAILED if failed else OK


async def _sync(runtime: Runtime, status: StatusLine) -> list[Synced]:
    root = runtime.config.root
    unusable = {it.file: it.message for it in runtime.problems if is_script(it.file)}
    making = {script.path: relative(script.path, root) for script in runtime.scripts}
    total = len(making)

    def report() -> None:
        status.report(Progress(total - len(making), total, ", ".join(making.values())))

    async def prepare(script: Script) -> Synced:
        try:
            return await _prepare(script, runtime)
        finally:
            del making[script.path]
            report()

    report()
    synced = await asyncio.gather(*(prepare(script) for script in runtime.scripts))
    for problem in runtime.problems:
        if problem.index is not None and is_script(problem.file):  # in one tool: its other tools work
            complain(str(problem))
    runtime.log_problems()
    synced += [Synced(relative(path, root), error=message) for path, message in unusable.items()]
    return sorted(synced, key=lambda it: it.path)


async def _prepare(script: Script, runtime: Runtime) -> Synced:
    """Create the environment, which may be gone although the tools are known from an earlier run."""
    path = relative(script.path, runtime.config.root)
    try:
        environment = await script.prepare()
    except CallError as error:
        return Synced(path, error=str(error))
    await runtime.load_script(script)
    failed = next((it.message for it in runtime.problems if it.file == script.path and it.index is None), None)
    if failed is not None:
        return Synced(path, error=failed)
    return Synced(path, tuple(tool.name for tool in script.tools if tool.name in runtime.manager), environment)
