"""`toolrun new`: writes a tool file to start from."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template
from typing import Final

import click

from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout, complain, near
from toolrun.cli.template import read_template, write_new
from toolrun.config.load import FILE_NAME
from toolrun.config.model import Config
from toolrun.errors import ConfigError
from toolrun.runtime import read_config

_MAX_NAME: Final = 64
"""The longest tool name that every model provider accepts."""


@click.command(name="new")
@click.argument("tool")
@click.option("--script", "is_script", is_flag=True, help="Create a script, with its own packages and process.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the files.")
@shared_options()
@click.pass_obj
def command(options: Options, tool: str, is_script: bool, as_json: bool) -> None:
    """Create tools/TOOL.py with a working tool to start from.

    Creates toolrun.toml, too, if the project has none. Never overwrites a file.
    """
    _check_name(tool)
    config = read_config(options.config)
    path = config.root / "tools" / f"{tool}.py"
    if path.exists():
        raise ConfigError(f"{near(path)} already exists; choose another name, or edit the file")
    template = Template(read_template("script.py.txt" if is_script else "tool.py.txt"))
    written = [write_new(path, template.substitute(name=tool))]
    if config.path is None:
        written.append(write_new(config.root / FILE_NAME, read_template("toolrun.toml")))
    output = claim_stdout()
    program = options.command_line()
    if as_json:
        output.json({"tool": tool, "wrote": [str(path) for path in written]})
    else:
        output.text("\n".join(f"Wrote {near(each)}" for each in written))
        output.text(f"\nTry it:\n  {program} describe {tool}\n  {program} call {tool} text=hello times=2")
    if not _is_loaded(path, config):
        complain(f'[tools] python in {config.path} does not match this file; add "tools/*.py" to it')


def _check_name(name: str) -> None:
    """Raises ConfigError unless files, Python functions and all model providers accept the name."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and not keyword.iskeyword(name) and len(name) <= _MAX_NAME:
        return
    rules = f"a name is up to {_MAX_NAME} letters, digits and _, starts with a letter and is not a Python keyword"
    better = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    hint = f"; for example '{better}'" if better.isidentifier() and not keyword.iskeyword(better) else ""
    raise ConfigError(f"'{name}' cannot be the name of a tool: {rules}{hint}")


def _is_loaded(path: Path, config: Config) -> bool:
    return any(path in config.root.glob(pattern) for pattern in config.files.python)
