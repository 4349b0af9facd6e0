"""Counters of calls, and their text for Prometheus (text format 0.0.4). Knows tools by name only, and no arguments.

A tool gets labels of its own only if there is such a tool: whoever calls names that do not exist makes no new series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from toolrun.errors import ErrorKind
from toolrun.execution.observer import Observer
from toolrun.result import ToolResult
from toolrun.tools.context import Call

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds."""
_UNKNOWN: Final = "(unknown)"

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]


class CallCounters(Observer):
    """Counts calls from when it is added to an executor."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._durations: dict[str, list[int]] = {}
        """By tool: calls in each bucket, and the last one for those that took longer."""
        self._seconds: dict[str, float] = {}
        self._repaired: Counter[str] = Counter()

    def call_finished(self, call: Call, result: ToolResult) -> None:
        kind = result.error_kind
        tool = _UNKNOWN if kind is ErrorKind.UNKNOWN_TOOL else result.tool_name
        self._calls[tool, "ok" if kind is None else kind.value] += 1
        seconds = result.execution_time_ms / 1000
        buckets = self._durations.get(tool)
        if buckets is None:
            buckets = self._durations[tool] = [0] * (len(_BUCKETS) + 1)
        buckets[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[tool] = self._seconds.get(tool, 0.0) + seconds
        if call.repairs:
            self._repaired[tool] += 1

    def render(self, gauges: Iterable[tuple[str, str, list[Sample]]]) -> bytes:
        """The text. `gauges` are those that are not counted here: name, help and samples."""
        lines = _family(
            "toolrun_calls_total",
            "counter",
            "Calls that were answered, by tool and by what became of them.",
            [("", {"tool": tool, "outcome": outcome}, count) for (tool, outcome), count in self._calls.items()],
        )
        lines += _family(
            "toolrun_call_repairs_total",
            "counter",
            "Calls whose arguments were repaired.",
            [("", {"tool": tool}, count) for tool, count in self._repaired.items()],
        )
        lines += _family(
            "toolrun_call_duration_seconds",
            "histogram",
            "How long calls took, from their arrival to their answer.",
            [sample for tool in self._durations for sample in self._histogram(tool)],
        )
        for name, words, samples in gauges:
            lines += _family(name, "gauge", words, samples)
        return "\n".join([*lines, ""]).encode()

    def _histogram(self, tool: str) -> list[Sample]:
        samples: list[Sample] = []
        total = 0
        for bound, count in zip((*map(repr, _BUCKETS), "+Inf"), self._durations[tool], strict=True):
            total += count
            samples.append(("_bucket", {"tool": tool, "le": bound}, total))
        return [*samples, ("_sum", {"tool": tool}, self._seconds[tool]), ("_count", {"tool": tool}, total)]


def _family(name: str, kind: str, words: str, samples: list[Sample]) -> list[str]:
    if not samples:
        return []
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for suffix, labels, value in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{suffix}{f'{{{shown}}}' if shown else ''} {value:.10g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
