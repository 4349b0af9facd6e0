"""The file with environment variables that a configuration names: text in, variables out."""

from __future__ import annotations

import io
from pathlib import Path

from toolrun.config.parse import read_text
from toolrun.errors import ConfigError


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file such as `.env`; none if there is no such file. Raises ConfigError without any value."""
    if not path.exists():
        return {}
    from dotenv import dotenv_values  # few configurations name a file
    from dotenv.parser import parse_stream

    try:
        text = read_text(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            raise ConfigError(f"{path}: line {binding.original.line} is not of the form NAME=VALUE")
    values = dotenv_values(stream=io.StringIO(text))
    return {name: value for name, value in values.items() if value is not None}
