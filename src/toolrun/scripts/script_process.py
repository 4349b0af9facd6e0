"""How the process of a script is started: the same on this machine, and on a node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from toolrun.processes.engine import ProcessSpec
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.policy import Policy
from toolrun.scripts.script_version import Version
from toolrun.worker import DIRECTORY

WORKER: Final = Path(DIRECTORY)


def worker_options(version: Version) -> tuple[str, ...]:
    """Those of a worker that runs calls."""
    return ("--concurrency", str(version.declared.concurrency))


async def script_process(
    path: Path,
    version: Version,
    policy: Policy,
    variables: Mapping[str, str],
    options: Sequence[str],
    sandboxes: Sandboxes,
) -> ProcessSpec:
    """The process for a version of a script, behind the walls of its policy."""
    spec = ProcessSpec(
        name=path.stem,
        program=policy.program,
        arguments=(str(WORKER / "__main__.py"),),
        input=version.content,
        directory=policy.directory,
        variables=variables,
        label=str(path),
    )
    memory = None if version.declared.memory_mb is None else version.declared.memory_mb * 1_000_000
    file = path.parent.resolve() / path.name  # without links above the file, which may be out of sight behind the walls
    arguments = (str(file), "--source", str(len(version.content)), *options)
    return await sandboxes.confine(spec, policy, arguments, memory)
