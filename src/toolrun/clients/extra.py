"""The error for a provider package that is not installed."""

from __future__ import annotations

from toolrun.errors import UsageError


def missing(extra: str, error: ImportError) -> UsageError:
    """An error that names the extra to install."""
    return UsageError(f"'{error.name}' is not installed. Install it with: pip install 'toolrun[{extra}]'")
