"""`toolrun workers`."""

from __future__ import annotations

from pathlib import Path

import click

from toolrun.cli.options import Invocation, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, near
from toolrun.json import JSON
from toolrun.processes.process_table import SeenWorker, can_survey, find_workers


@click.command(name="workers")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> int:
    """List the processes that run script tools for you on this machine, whichever program started them.

    State and calls of a worker are told by its program. They are those of the last second, and ? where it tells none.
    """
    if not can_survey():
        complain("which processes are workers can be told on Linux only")
        return 1
    output = claim_stdout()
    workers = find_workers()
    if as_json:
        output.json([_data(worker) for worker in workers])
    elif workers:
        titles = ("SCRIPT", "PID", "STATE", "CALLS", "AGE", "MEMORY", "HOST")
        columns = [Column(title, wraps=title in ("SCRIPT", "CALLS")) for title in titles]
        output.table(columns, [_row(worker) for worker in workers])
    else:
        complain("no worker runs; one is started by the first call of a script tool, and ends with its program")
    return 0


def _data(worker: SeenWorker) -> dict[str, JSON]:
    told = worker.told
    return {
        "script": worker.script,
        "pid": worker.pid,
        "state": None if told is None else told.state,
        "calls": None if told is None else told.calls,
        "running_calls": None if told is None else told.running,
        "age": round(worker.age, 2),
        "memory": worker.memory,
        "processes": worker.processes,
        "activity": worker.activity,
        "host": worker.host,
    }


def _row(worker: SeenWorker) -> tuple[str, ...]:
    others = worker.processes - 1
    return (
        near(Path(worker.script)),
        f"pid {worker.pid} +{others}" if others else f"pid {worker.pid}",
        _state(worker),
        _calls(worker),
        _duration(worker.age),
        f"{worker.memory / 1_000_000:.0f} MB",
        f"host {worker.host}",
    )


def _state(worker: SeenWorker) -> str:
    state = "?" if worker.told is None else worker.told.state
    return f"{state}, stopped" if worker.activity == "stopped" else state


def _calls(worker: SeenWorker) -> str:
    told = worker.told
    if told is None:
        return "?"
    return f"{told.calls} done, {told.running} running" if told.running else f"{told.calls} done"


def _duration(seconds: float) -> str:
    """The two largest units: 12 s, 5 min 3 s, 2 h 10 min."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
