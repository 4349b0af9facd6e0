"""What a catalog says of a tool of type `command`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolrun.errors import DefinitionError
from toolrun.json import JSON
from toolrun.sources.command_template import CommandTemplate, read_template
from toolrun.text import show

COMMAND_KEYS: Final = ("command", "cwd", "secrets", "output", "exit_codes", "max_output")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class CommandDeclaration:
    """A program, and how its end is read."""

    template: CommandTemplate
    cwd: str = "."
    """Relative to the project."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The variables of the program that have secrets: variable → name of the secret."""
    output: str = "text"
    """`text` or `json`."""
    exit_codes: tuple[int, ...] = (0,)
    """Those with which the program has done its work."""
    max_output: int = 1_000_000
    """Bytes."""


def read_command(value: Mapping[str, JSON], parameters: Mapping[str, JSON]) -> CommandDeclaration:
    """Raises DefinitionError."""
    template = read_template(value.get("command"), parameters)
    cwd, output, limit = value.get("cwd", "."), value.get("output", "text"), value.get("max_output", 1_000_000)
    secrets, codes = value.get("secrets", {}), value.get("exit_codes", [0])
    if not isinstance(cwd, str) or not cwd:
        raise DefinitionError(f"'cwd' must be a directory, relative to the project, got {show(cwd)}")
    if output not in ("text", "json"):
        raise DefinitionError(f"'output' must be 'text' or 'json', got {show(output)}")
    if type(limit) is not int or not 0 < limit <= 100_000_000:
        raise DefinitionError(f"'max_output' must be a number of bytes from 1 to 100,000,000, got {show(limit)}")
    if not isinstance(codes, list) or not codes or any(type(it) is not int or not 0 <= it <= 255 for it in codes):
        raise DefinitionError(f"'exit_codes' must be a list of numbers from 0 to 255, got {show(codes)}")
    if not isinstance(secrets, dict) or not all(
        isinstance(secret, str) and _VARIABLE.fullmatch(name) for name, secret in secrets.items()
    ):
        raise DefinitionError(
            f'\'secrets\' must name variables and secrets, as in {{"API_TOKEN": "token"}}, got {show(secrets)}'
        )
    return CommandDeclaration(
        template,
        cwd,
        {name: str(secret) for name, secret in secrets.items()},
        str(output),
        tuple(int(it) for it in codes if isinstance(it, int)),
        limit,
    )
