"""How much a model may use tools in one turn. Values only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from toolrun.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """At each of the first four limits, the model is asked to answer without further tools."""

    rounds: int = 10
    """How often the model may call tools and get their results."""
    calls: int = 100
    """Calls in all rounds together."""
    time: float = 600.0
    """Seconds for all rounds together. Calls that are still running then are interrupted."""
    repeats: int = 2
    """How often the same call (same name, same arguments) runs."""
    parallel: int = 8
    """Calls of one round that run at the same time."""
    answer_time: float = 300.0
    """Seconds for one answer of the model; then the turn ends with a ModelTimeoutError."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            least = _LEAST[item.name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
                raise ConfigError(f"TurnLimits.{item.name} is {value!r}; it must be a number from {least:g} on.")


_LEAST: Final = {"rounds": 0, "calls": 0, "time": 0, "repeats": 1, "parallel": 1, "answer_time": 0.001}
