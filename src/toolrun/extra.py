"""The error for a package that is not installed: one of an extra of toolrun, or a framework."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from toolrun.errors import MissingExtraError

_COMMAND: Final = "pip install 'toolrun[{extra}]'"


def missing(extra: str, error: ImportError, what: str = "") -> MissingExtraError:
    """An error that names the package that cannot be imported, what needs it, and the extra to install."""
    return not_installed(error, _COMMAND.format(extra=extra), what)


def not_installed(error: ImportError, command: str, what: str = "") -> MissingExtraError:
    """An error that names the package that cannot be imported, what needs it, and the command that installs it."""
    module = error.name or str(error)
    package = module.partition(".")[0]
    problem = f"{what} needs the package '{package}', which" if what else f"'{package}'"
    if module != package and is_installed(package):
        text = f"{problem} is installed in a version without '{module}'. Install another one with: {command}"
    else:
        text = f"{problem} is not installed. Install it with: {command}"
    lacking = MissingExtraError(text)
    lacking.name = package
    return lacking


def is_installed(package: str) -> bool:
    """Whether the package can be imported. Does not import it."""
    return find_spec(package) is not None
