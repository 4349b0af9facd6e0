"""One change that was made to the arguments of a call, as results, logs and observers show it.

A value, in a file of its own: whoever shows repairs need not import what makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolrun.json import JSON
from toolrun.text import show


@dataclass(frozen=True, slots=True)
class Repair:
    """One change that was made to the arguments of a call."""

    path: str
    """Where: `b`, `filter.tags[0]`, or nothing for the arguments as a whole."""
    before: JSON
    after: JSON
    reason: str

    def __str__(self) -> str:
        return f"{self.path or 'arguments'}: {show(self.before)} → {show(self.after)} ({self.reason})"
