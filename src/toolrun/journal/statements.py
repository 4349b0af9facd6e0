"""The SQL of the package, from `sql/statements.sql`: each statement under the name that stands above it."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def _statements() -> dict[str, str]:
    text = files("toolrun.journal").joinpath("sql/statements.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def sql(name: str) -> str:
    """The statement of that name."""
    return _statements()[name]
