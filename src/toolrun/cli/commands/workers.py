"""`toolrun workers`."""

from __future__ import annotations

from pathlib import Path

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, near
from toolrun.json import JSON
from toolrun.processes.process_table import WorkerProcess, find_workers, is_supported


@click.command(name="workers")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool) -> int:
    """List your processes that run script tools on this machine, whatever program started them.

    Each program publishes the state and the calls of its workers once a second; ? means that it publishes none.
    """
    if not is_supported():
        complain("workers can be listed on Linux only")
        return FAILED
    output = claim_stdout()
    workers = find_workers()
    if as_json:
        output.json([_data(worker) for worker in workers])
    elif workers:
        titles = ("SCRIPT", "PID", "STATE", "CALLS", "SANDBOX", "AGE", "MEMORY", "HOST")
        columns = [Column(title, wraps=title in ("SCRIPT", "CALLS")) for title in titles]
        output.table(columns, [_row(worker) for worker in workers])
    else:
        complain("no worker is running; the first call of a script tool starts one, which ends with its program")
    return OK


def _data(worker: WorkerProcess) -> dict[str, JSON]:
    status = worker.status
    return {
        "script": worker.label,
        "pid": worker.pid,
        "state": None if status is None else status.state,
        "calls": None if status is None else status.calls,
        "running_calls": None if status is None else status.running,
        "sandbox": None if status is None else status.sandbox,
        "age": round(worker.age, 2),
        "memory": worker.memory,
        "processes": worker.processes,
        "activity": worker.activity,
        "host": worker.host,
    }


def _row(worker: WorkerProcess) -> tuple[str, ...]:
    others = worker.processes - 1
    return (
        near(Path(worker.label)),
        f"pid {worker.pid} +{others}" if others else f"pid {worker.pid}",
        _state(worker),
        _calls(worker),
        "?" if worker.status is None else worker.status.sandbox or "-",
        _duration(worker.age),
        f"{worker.memory / 1_000_000:.0f} MB",
        f"host {worker.host}",
    )


def _state(worker: WorkerProcess) -> str:
    state = "?" if worker.status is None else worker.status.state
    return f"{state}, stopped" if worker.activity == "stopped" else state


def _calls(worker: WorkerProcess) -> str:
    status = worker.status
    if status is None:
        return "?"
    return f"{status.calls} done, {status.running} running" if status.running else f"{status.calls} done"


def _duration(seconds: float) -> str:
    """The two largest units: 12 s, 5 min 3 s, 2 h 10 min."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
