"""What is said when the package of a provider is not installed."""

from __future__ import annotations

from toolrun.errors import UsageError


def missing(extra: str, error: ImportError) -> UsageError:
    """The error that names the extra to install."""
    return UsageError(f"'{error.name}' is not installed. Install it with: pip install 'toolrun[{extra}]'")
