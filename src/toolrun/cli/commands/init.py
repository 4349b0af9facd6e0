"""`toolrun init`: creates a project."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from toolrun.cli.editing import text_of
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout, near
from toolrun.cli.template import read_template, write_new
from toolrun.config.load import FILE_NAME
from toolrun.errors import ConfigError
from toolrun.json import JSON

_IGNORED: Final = (".toolrun/", ".env")
"""The journal, the token and the pins of this machine; secrets."""
_EXAMPLE: Final = "hello"


@click.command(name="init")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the files.")
@shared_options()
@click.pass_obj
def command(options: Options, directory: Path, as_json: bool) -> None:
    """Create a project: toolrun.toml, tools/ with a tool to start from, and entries in .gitignore.

    DIRECTORY is the current one by default, and is created if it does not exist. init never overwrites a file: in a
    project that is there already it changes nothing.
    """
    if options.config is not None:
        raise click.UsageError(
            "init creates a configuration, so --config cannot be used with it; name a DIRECTORY instead"
        )
    root = directory.absolute()
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{near(root)} is not a directory; name another one")
    if (root / FILE_NAME).exists():
        raise ConfigError(
            f"{near(root / FILE_NAME)} already exists: this is a project. 'toolrun new NAME' writes another tool"
        )
    wrote = [write_new(root / FILE_NAME, read_template("toolrun.toml"))]
    has_tools = any((root / "tools").glob("*.py"))
    if not has_tools:
        wrote.append(write_new(root / "tools" / f"{_EXAMPLE}.py", read_template("hello.py.txt")))
    ignored = _ignore(root / ".gitignore")
    output = claim_stdout()
    if as_json:
        entries: list[JSON] = list(ignored)
        output.json({"directory": str(root), "wrote": [str(path) for path in wrote], "ignored": entries})
        return
    lines = [f"Wrote {near(path)}" for path in wrote]
    if ignored:
        lines.append(f"Added {' and '.join(ignored)} to {near(root / '.gitignore')}")
    steps = [(f"cd {directory}", "")] if root != Path.cwd() else []
    steps.append(("toolrun list", "what a model can call") if has_tools else ("toolrun call hello name=Ann", "try it"))
    steps += [
        ("toolrun new NAME", "write another tool; with --script one that has its own packages"),
        ("toolrun chat", "let a model use the tools"),
        ("toolrun install", "offer them to an MCP client such as Claude or Cursor"),
    ]
    width = max(len(step) for step, _ in steps)
    output.text("\n".join([*lines, "", "Next:", *(f"  {step:{width}}  {why}".rstrip() for step, why in steps)]))


def _ignore(path: Path) -> list[str]:
    """Add what Git should not keep, and return what was missing."""
    before = text_of(path) or ""
    present = {line.strip().strip("/") for line in before.splitlines()}
    missing = [entry for entry in _IGNORED if entry.strip("/") not in present]
    if missing:
        separator = "" if not before or before.endswith("\n") else "\n"
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(separator + "".join(f"{entry}\n" for entry in missing))
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return missing
