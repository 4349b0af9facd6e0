"""The files that `toolrun new` and `toolrun init` write to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from toolrun.errors import ConfigError

_TEMPLATES: Final = Path(__file__).parent / "templates"


def read_template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def write_new(path: Path, content: str) -> Path:
    """Write a file that must not exist. Raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise ConfigError(f"{path} already exists; toolrun does not overwrite it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return path
