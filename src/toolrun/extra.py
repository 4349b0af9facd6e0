"""The error for a package that comes with an extra of toolrun and is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from toolrun.errors import MissingExtraError

_COMMAND: Final = "pip install 'toolrun[{extra}]'"


def missing(extra: str, error: ImportError, what: str = "") -> MissingExtraError:
    """An error that names the package that cannot be imported, what needs it, and the extra to install."""
    package = (error.name or str(error)).partition(".")[0]
    problem = f"{what} needs the package '{package}', which" if what else f"'{package}'"
    command = _COMMAND.format(extra=extra)
    lacking = MissingExtraError(f"{problem} is not installed. Install it with: {command}")
    lacking.name = package
    return lacking


def is_installed(package: str) -> bool:
    """Whether the package can be imported. Does not import it."""
    return find_spec(package) is not None
