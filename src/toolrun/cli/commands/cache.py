"""`toolrun cache`: shows what toolrun keeps in its cache, and deletes what no program uses."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

import click

from toolrun.cli.exit import OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, inform, near
from toolrun.cli.recorded_call import time_of
from toolrun.config.cache_directory import cache_directory
from toolrun.json import JSON
from toolrun.runtime import read_config
from toolrun.scripts.kept_environment import KeptEnvironment, delete_environment, find_environments, size_of
from toolrun.text import plural

_OTHERS: Final = {
    "descriptions": "what is in the scripts",
    "completion": "tools and parameters, for the shell",
    "mcp-eras.json": "the protocol that each MCP server speaks",
    "sandbox": "the sandbox that this machine allows",
}
"""What else is in a cache: names, and what they are. The user may keep other files in the same directory."""
_DAY: Final = 86_400.0


@click.group(name="cache", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared_options()
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """Show what toolrun keeps in its cache: environments of scripts, and what it has learnt about tools.

    'toolrun cache clean' deletes it. toolrun makes all of it again when it is needed.
    """
    if context.invoked_subcommand is not None:
        return OK
    cache = _directory(context.ensure_object(Options))
    output = claim_stdout()
    environments, others = find_environments(cache), _others(cache)
    if as_json:
        kept: list[JSON] = [_data(it) for it in environments]
        sizes: dict[str, JSON] = {path.name: size_of(path) for path in others}
        output.json({"directory": str(cache), "environments": kept, "others": sizes})
        return OK
    rows = [_row(it) for it in environments]
    rows += [("-", _OTHERS[path.name], _size(size_of(path)), "-", "") for path in others]
    if not rows:
        complain(f"the cache is empty: {near(cache)}")
        return OK
    columns = [Column("ENVIRONMENT", "dim"), Column("PACKAGES", wraps=True), Column("SIZE"), Column("LAST USED")]
    output.table([*columns, Column("STATE")], rows)
    inform(f"The cache is {near(cache)}. 'toolrun cache clean' deletes what no program uses.")
    return OK


@command.command(name="clean")
@click.option(
    "--days",
    type=click.IntRange(0),
    metavar="N",
    help="Only environments that no program has begun to use for N days, and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared_options()
@click.pass_obj
def clean_command(options: Options, days: int | None, as_json: bool) -> int:
    """Delete what is in the cache. Environments that a program uses at the moment stay."""
    cache = _directory(options)
    output = claim_stdout()
    since = time() - (days or 0) * _DAY
    due = [it for it in find_environments(cache) if days is None or it.last_used < since]
    deleted = [it for it in due if delete_environment(it.home)]
    size = sum(it.size for it in deleted)
    for path in _others(cache) if days is None else ():
        size += size_of(path)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    kept = len(due) - len(deleted)
    if as_json:
        output.json({"directory": str(cache), "deleted": len(deleted), "in_use": kept, "bytes": size})
        return OK
    output.text(f"Deleted {plural(len(deleted), 'environment')} ({_size(size)}) from {near(cache)}")
    if kept:
        inform(f"{plural(kept, 'environment')} {'is' if kept == 1 else 'are'} in use; 'toolrun workers' shows by what.")
    return OK


def _directory(options: Options) -> Path:
    config = read_config(options.config)
    return cache_directory(config.workers, config.root)


def _others(cache: Path) -> list[Path]:
    found = [cache / name for name in _OTHERS]
    with suppress(OSError):
        return [path for path in found if path.exists()]
    return []


def _row(it: KeptEnvironment) -> tuple[str, ...]:
    packages = ", ".join(it.dependencies) or "no packages"
    state = "in use" if it.is_used else ""
    return it.home.name[:12], packages, _size(it.size), time_of(int(it.last_used * 1e6)), state


def _data(it: KeptEnvironment) -> dict[str, JSON]:
    return {
        "directory": str(it.home),
        "packages": list(it.dependencies),
        "bytes": it.size,
        "last_used": round(it.last_used, 3),
        "in_use": it.is_used,
    }


def _size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1000:.1f} kB"
