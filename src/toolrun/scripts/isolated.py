"""`@tool(isolated=True)`: a function of the user's own project, in a worker on this very interpreter.

So a blocking function can be killed at its deadline, which a thread cannot. The function is found again by the file and
the name of its module, so it must stand at the top level of one. It is the user's own code, so it gets the whole
environment of this process, unlike a script.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from toolrun.json import JSON
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.local import LocalEngine
from toolrun.processes.sandbox.confine import confine_off
from toolrun.processes.sandbox.policy import OFF, Policy
from toolrun.result import Large
from toolrun.scripts.pool import Pool
from toolrun.scripts.request import Request
from toolrun.tools.context import current_call
from toolrun.tools.function import FunctionTool
from toolrun.worker import DIRECTORY

_WORKER: Final = Path(DIRECTORY)
VARIABLE: Final = "TOOLRUN_ISOLATED"


class IsolatedTools:
    """The workers of all isolated tools of an executor on one event loop, which the pools check."""

    def __init__(self) -> None:
        self._engine = LocalEngine()
        self.pools: dict[str, Pool] = {}
        """By the name of the tool."""

    async def invoke(self, tool: FunctionTool[..., Any], arguments: dict[str, JSON]) -> JSON | Large:
        pool = self.pools.get(tool.name)
        if pool is None:
            spec = _spec(tool)

            async def make_spec() -> ProcessSpec:
                return spec

            pool = self.pools[tool.name] = Pool(tool.name, self._engine, make_spec)
        return await pool.run(Request("call", arguments, call=current_call.get()))

    async def close(self) -> None:
        for pool in self.pools.values():
            await pool.close()
        await self._engine.close()


def _spec(tool: FunctionTool[..., Any]) -> ProcessSpec:
    function = tool.function
    target = {
        "module": function.__module__,
        "path": function.__code__.co_filename,
        "function": function.__qualname__,
        "search": [entry for entry in sys.path if entry],
    }
    spec = ProcessSpec(
        name=tool.name,
        program=Path(sys.executable),
        arguments=(str(_WORKER / "__main__.py"),),
        directory=Path.cwd(),
        variables={**os.environ, VARIABLE: json.dumps(target)},
        label=f"{target['path']}:{target['function']}",
    )
    # The user's own code: no walls, but nothing that it starts outlives it.
    policy = Policy(OFF, section="", directory=spec.directory, program=spec.program)
    return confine_off(spec, policy, [str(_WORKER / "isolated_function.py")], None)
