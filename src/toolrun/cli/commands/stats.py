"""`toolrun stats`: counts the recorded calls by tool."""

from __future__ import annotations

from typing import Final

import click

from toolrun.cli.completers import tool_names
from toolrun.cli.exit import OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, Output, claim_stdout, complain
from toolrun.cli.recorded_call import Moment, duration_of, gap_of, past_calls
from toolrun.journal.call_record import show_id
from toolrun.journal.tool_statistics import ToolStatistics
from toolrun.json import JSON

_BAR: Final = "▏▎▍▌▋▊▉█"
_BAR_WIDTH: Final = 5


@click.command(name="stats")
@click.argument("tool", required=False, shell_complete=tool_names)
@click.option("--since", type=Moment(), help="Only calls after this time: 10m, 2h, 14:30, 2026-11-16.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@shared_options()
@click.pass_obj
def command(options: Options, tool: str | None, since: int | None, as_json: bool) -> int:
    """Count the calls of each tool, or of TOOL, and show how long they took."""
    output = claim_stdout()
    with past_calls(options) as history:
        found, gaps = history.statistics(since or 0, tool or ""), history.gaps(since or 0)
    if as_json:
        output.json({"tools": [_data(it) for it in found], "gaps": [gap.to_dict() for gap in gaps]})
    elif found:
        _print(output, found)
    else:
        complain("no call was recorded" + (f" of '{tool}'" if tool else ""))
    for gap in () if as_json else gaps:
        complain(f"not counted: {gap_of(gap)}")
    return OK


def _print(output: Output, found: list[ToolStatistics]) -> None:
    """A line for each tool. A terminal has no room for the repairs beside the times, so they are below."""
    most = max(it.calls for it in found)
    tool, repairs = Column("TOOL", "bold cyan"), Column("REPAIRS", wraps=True)
    numbers = [Column(title) for title in ("CALLS", "", "FAILED", "P50", "P95", "P99")]
    columns = [tool, *numbers, Column("SLOWEST", wraps=True), repairs]
    rows = [_row(it, most, with_bar=output.is_terminal) for it in found]
    if not output.is_terminal:
        output.table(columns, rows)
        return
    output.table(columns[:-1], [row[:-1] for row in rows])
    repaired = [(row[0], row[-1]) for row in rows if row[-1]]
    if repaired:
        output.text("")
        output.table([tool, repairs], repaired)


def _row(it: ToolStatistics, most: int, *, with_bar: bool) -> tuple[str, ...]:
    took, call = it.slowest
    has_run = call != 0  # else all of its calls were refused, or run still
    return (
        it.tool,
        f"{it.calls:,}",
        _bar(it.calls / most) if with_bar else "",
        f"{it.failed:,} ({it.failed / it.calls:.0%})" if it.failed else "0",
        duration_of(it.p50_us if has_run else None),
        duration_of(it.p95_us if has_run else None),
        duration_of(it.p99_us if has_run else None),
        f"{duration_of(took)} ({show_id(call)})" if has_run else "",
        ", ".join(f"{count} × {reason}" for reason, count in sorted(it.repairs.items(), key=lambda item: -item[1])),
    )


def _bar(part: float) -> str:
    eighths = max(1, round(part * _BAR_WIDTH * 8))
    return "█" * (eighths // 8) + (_BAR[eighths % 8 - 1] if eighths % 8 else "")


def _data(it: ToolStatistics) -> dict[str, JSON]:
    took, call = it.slowest
    has_run = call != 0
    return {
        "tool": it.tool,
        "calls": it.calls,
        "failed": it.failed,
        "outcomes": dict(it.outcomes),
        "p50_us": it.p50_us if has_run else None,
        "p95_us": it.p95_us if has_run else None,
        "p99_us": it.p99_us if has_run else None,
        "slowest_us": took if has_run else None,
        "slowest_call": show_id(call) if has_run else None,
        "repairs": dict(it.repairs),
    }
