"""`toolrun sync`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

import click

from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, inform
from toolrun.cli.summary import relative
from toolrun.errors import CallError
from toolrun.json import JSON
from toolrun.runtime import Runtime
from toolrun.scripts.source import Script
from toolrun.sources.project import is_script


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
    synced = run_with_tools(options, _sync, on_progress=inform)
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


async def _sync(runtime: Runtime) -> list[Synced]:
    root = runtime.config.root
    problems = [problem for problem in runtime.problems if is_script(problem.file)]
    errors = {problem.file: problem.message for problem in problems if problem.index is None}
    for problem in problems:
        if problem.index is not None:  # in one tool: the other tools of the script work
            complain(str(problem))
    scripts = [script for script in runtime.scripts if script.path not in errors]
    synced = await asyncio.gather(*(_prepare(script, runtime) for script in scripts))
    synced += [Synced(relative(path, root), error=message) for path, message in errors.items()]
    return sorted(synced, key=lambda it: it.path)


async def _prepare(script: Script, runtime: Runtime) -> Synced:
    """Create the environment, which may be gone although the tools are known from an earlier run."""
    path = relative(script.path, runtime.config.root)
    try:
        environment = await script.prepare()
    except CallError as error:
        return Synced(path, error=str(error))
    return Synced(path, tuple(tool.name for tool in script.tools if tool.name in runtime.manager), environment)
