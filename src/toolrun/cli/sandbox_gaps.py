"""What the sandbox of a worker leaves open, for whoever looks at the worker or at one of its calls."""

from __future__ import annotations

from functools import lru_cache

from toolrun.processes.sandbox.policy import OFF
from toolrun.processes.sandbox.system_support import NONE, RUNGS, gaps, landlock_abi


@lru_cache
def gaps_of(sandbox: str) -> tuple[str, ...]:
    """By the name of the rung, on the kernel of this machine; none for what was started without a sandbox of ours."""
    if sandbox == OFF:
        return gaps(NONE, 0)
    return gaps(sandbox, landlock_abi()) if sandbox in RUNGS else ()


def gaps_of_place(worker: str | None) -> tuple[str, ...]:
    """The same for a worker as the journal names it: `pid 7, landlock`. Other machines have other kernels."""
    if worker is None or worker.startswith("node "):
        return ()
    return gaps_of(worker.rpartition(", ")[2])
