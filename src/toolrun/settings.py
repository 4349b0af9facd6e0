"""What can be set for the executor and for one tool. Values only: who reads them from where is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Schema: TypeAlias = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may run, wait and be returned."""

    max_concurrency: int = 256
    """Calls that run at the same time. Calls made by a tool (`ToolContext.call_tool`) do not count: they could wait
    for a place that their own caller holds."""
    max_queue: int = 1024
    """Calls that wait for a place. The wait counts against the deadline; a call beyond is answered `overloaded`."""
    max_abandoned: int = 32
    """Threads that still run a sync tool after its deadline. From then on sync calls are answered `overloaded`."""
    max_result_chars: int = 100_000
    """The longest text a model gets. Longer ones keep head and tail; `ToolResult.result` keeps everything."""
    slow_call: float = 1.0
    """Seconds from which on a call is logged as slow."""
    strict: bool = False
    """Refuse arguments that the schema does not know, instead of dropping them."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the user set for one tool."""

    enabled: bool = True
    timeout: float | None = None
    """Seconds; `None` leaves it to the tool's definition, then to the executor."""
    concurrency: int | None = None
    """Calls of this tool that run at the same time; `None` is no limit of its own."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the tool is granted."""
    config: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """The tool's own section, passed on as it is."""
