"""The worker processes of this machine, for tests and demonstrations that show what runs and that nothing is left."""

from __future__ import annotations

from toolrun.processes.process_table import WorkerProcess, find_workers

__all__ = ["WorkerProcess", "find_workers"]
