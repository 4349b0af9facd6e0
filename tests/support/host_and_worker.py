"""A script of `tests/scripts` twice: as a module of the host, and in a real worker with or without packages."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from support.worker_process import STANDARD_LIBRARY_ONLY, WorkerProcess, worker_of
from toolrun import FunctionTool, ToolExecutor

SCRIPTS = Path(__file__).parents[1] / "scripts"
ENVIRONMENTS: dict[str, tuple[str, ...]] = {"with packages": (), "standard library": STANDARD_LIBRARY_ONLY}


def load(name: str) -> ModuleType:
    """The script as a module of the host, under the name that it has in a worker."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@dataclass
class Script:
    """One script in one environment: what its worker says of it, and its answers."""

    functions: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    answers: dict[int, tuple[Any, str | None]] = field(default_factory=dict)


def ask(name: str, calls: list[tuple[str, dict[str, Any]]], python: tuple[str, ...]) -> Script:
    """Have the worker describe the script, and make the calls in the given order."""
    script = Script()
    process = WorkerProcess(SCRIPTS / f"{name}.py", "--describe", python=python)
    try:
        ready = process.receive()["ready"]
    finally:
        process.close()
    script.functions = {it["name"]: it for it in ready["functions"]}
    script.skipped = {it["name"]: it["reason"] for it in ready["skipped"]}
    script.warnings = ready["warnings"]
    with worker_of(SCRIPTS / f"{name}.py", python=python) as worker:
        for number, (function, arguments) in enumerate(calls):
            worker.request(number, function, kwargs=arguments)
            message = worker.receive()
            if "raised" in message:
                message = worker.receive()
            script.answers[number] = message["result"], message["error"]
    return script


def host_tool(module: ModuleType, name: str) -> FunctionTool[..., Any]:
    return FunctionTool(getattr(module, name), name=name)


async def host_answer(executor: ToolExecutor, tool: FunctionTool[..., Any], arguments: dict[str, Any]) -> Any:
    executor.manager.add(FunctionTool(tool.function, name=tool.name, description="A tool."))
    return await executor.execute(tool.name, arguments)
