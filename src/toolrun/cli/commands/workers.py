"""`toolrun workers`: shows the worker processes of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain, near
from toolrun.cli.sandbox_gaps import gaps_of
from toolrun.json import JSON
from toolrun.processes.engine import WorkerStatus
from toolrun.processes.process_table import (
    RemoteProcess,
    WorkerProcess,
    find_remote_workers,
    find_workers,
    is_supported,
)


@click.command(name="workers")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool) -> int:
    """List your processes that run script tools on this machine, whatever program started them.

    And those that programs on this machine have started on the nodes of a cluster. Each program publishes the state
    and the calls of its workers once a second; ? means that it publishes none.
    """
    if not is_supported():
        complain("workers can be listed on Linux only")
        return FAILED
    output = claim_stdout()
    workers, remote = find_workers(), find_remote_workers()
    if as_json:
        output.json([*(_data(worker) for worker in workers), *(_remote_data(worker) for worker in remote)])
    elif workers or remote:
        titles = ["SCRIPT", "PID", "STATE", "CALLS", "SANDBOX", "AGE", "MEMORY", "HOST"]
        if remote:
            titles += ["NODE", "REPLICA"]
        columns = [Column(title, wraps=title in ("SCRIPT", "CALLS")) for title in titles]
        more = ("-", "-") if remote else ()
        rows = [_row(worker) + more for worker in workers] + [_remote_row(worker) for worker in remote]
        output.table(columns, rows)
        for sandbox in sorted({worker.status.sandbox for worker in workers if worker.status is not None}):
            for gap in gaps_of(sandbox):
                complain(f"gap of the sandbox {sandbox}: {gap}")
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
        "gaps": None if status is None else list(gaps_of(status.sandbox)),
        "age": round(worker.age, 2),
        "memory": worker.memory,
        "processes": worker.processes,
        "activity": worker.activity,
        "host": worker.host,
        "node": None,
        "replica": None,
    }


def _remote_data(worker: RemoteProcess) -> dict[str, JSON]:
    status = worker.status
    return {
        "script": status.label,
        "pid": status.pid,
        "state": status.state,
        "calls": status.calls,
        "running_calls": status.running,
        "sandbox": status.sandbox,
        "gaps": None,
        "age": status.age,
        "memory": status.memory,
        "processes": None,
        "activity": None,
        "host": worker.host,
        "node": status.node,
        "replica": status.replica,
    }


def _remote_row(worker: RemoteProcess) -> tuple[str, ...]:
    status = worker.status
    return (
        near(Path(status.label)),
        f"pid {status.pid}" if status.pid else "-",
        status.state,
        _done(status),
        status.sandbox or "-",
        _duration(status.age),
        f"{status.memory / 1_000_000:.0f} MB",
        f"host {worker.host}",
        status.node,
        status.replica,
    )


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
    return "?" if status is None else _done(status)


def _done(status: WorkerStatus) -> str:
    return f"{status.calls} done, {status.running} running" if status.running else f"{status.calls} done"


def _duration(seconds: float) -> str:
    """The two largest units: 12 s, 5 min 3 s, 2 h 10 min."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
