"""`toolrun doctor`."""

from __future__ import annotations

import logging
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from typing import Final

import click

from toolrun.builtins import BUILTINS
from toolrun.cli import exit
from toolrun.cli.options import Options, shared_options, wait_option
from toolrun.cli.output import Output, claim_stdout, terminal_safe
from toolrun.cli.session import run_with_tools
from toolrun.cli.summary import relative
from toolrun.config.model import Config
from toolrun.errors import ConfigError
from toolrun.mcp.client.mcp_tool import McpTool
from toolrun.mcp.tool_names import settings_names
from toolrun.runtime import Runtime, read_config
from toolrun.sources.catalog import DeclaredTool
from toolrun.sources.load_problem import LoadProblem
from toolrun.sources.project import is_script
from toolrun.text import plural, suggestion
from toolrun.tools.protocol import Tool
from toolrun.version import __version__

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

_PACKAGES: Final = {"jsonschema-rs": "jsonschema_rs", "orjson": "orjson", "pydantic": "pydantic"}
_COLOURS: Final = {OK: "green", WARNING: "yellow", PROBLEM: "red"}
_UV_TIMEOUT: Final = 10.0
_WAIT: Final = 10.0
"""Seconds to wait for MCP servers. One that fails has failed three times by then."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check."""

    status: str
    subject: str
    message: str
    advice: str = ""


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@wait_option(_WAIT)
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool, wait: float | None) -> int:
    """Check the installation, the configuration and every tool.

    Each line is ok, a warning or a problem, with what to do about it. Exit code 1 if there is a problem.
    """
    output = claim_stdout()
    checks = [*_installation(), *_project(options, wait)]
    is_ok = all(check.status != PROBLEM for check in checks)
    if as_json:
        output.json({"ok": is_ok, "checks": [asdict(check) for check in checks]})
    else:
        _show(output, checks)
    return exit.OK if is_ok else exit.FAILED


def _installation() -> Iterator[Check]:
    yield Check(OK, "python", f"{platform.python_version()} ({sys.executable})")
    yield Check(OK, "toolrun", __version__)
    for package, module in _PACKAGES.items():
        try:
            import_module(module)
            yield Check(OK, package, metadata.version(package))
        except (ImportError, metadata.PackageNotFoundError) as error:
            yield Check(PROBLEM, package, f"cannot be imported: {error}", "reinstall toolrun: pip install -U toolrun")
    yield _uv()


def _uv() -> Check:
    try:
        path = import_module("uv").find_uv_bin()
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_UV_TIMEOUT, check=True)
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        return Check(PROBLEM, "uv", f"does not work: {error}", "install it where toolrun is: pip install -U uv")
    return Check(OK, "uv", f"{done.stdout.removeprefix('uv ').partition(' ')[0].strip()} ({path})")


def _project(options: Options, wait: float | None) -> list[Check]:
    try:
        config = read_config(options.config)
    except ConfigError as error:
        return [Check(PROBLEM, "configuration", str(error), "correct it; nothing works without it")]
    log = _Collector()
    logger = logging.getLogger("toolrun")
    logger.addHandler(log)
    logger.propagate = options.verbosity > 0  # otherwise the checks say everything

    async def examine(runtime: Runtime) -> list[Check]:
        await runtime.ready(timeout=wait)
        return [
            _configuration(config),
            *_tools(runtime, log),
            *_handlers(runtime),
            *_scripts(runtime),
            *_servers(runtime),
            *_settings(runtime),
            *_secrets(runtime),
            *_requests(runtime),
        ]

    return run_with_tools(options, examine)


def _configuration(config: Config) -> Check:
    if config.path is None:
        return Check(
            WARNING,
            "configuration",
            "no toolrun.toml in or above this directory; using defaults",
            "toolrun new NAME creates one",
        )
    return Check(OK, "configuration", str(config.path))


def _tools(runtime: Runtime, log: _Collector) -> Iterator[Check]:
    problems = [str(problem) for problem in runtime.problems]
    for problem in runtime.problems:
        if not _concerns_script(problem):
            yield Check(PROBLEM, "tools", str(problem), "correct the file; the other tools work")
    for message in log.messages:
        if message not in problems:
            yield Check(WARNING, "tools", message)
    if len(runtime.manager):
        yield Check(OK, "tools", f"{len(runtime.manager)} loaded")
    elif not problems:
        patterns = ", ".join((*runtime.config.files.python, *runtime.config.files.catalogs))
        yield Check(WARNING, "tools", f"none in {patterns}", "write one: toolrun new NAME")


def _handlers(runtime: Runtime) -> Iterator[Check]:
    """Tools of catalogs that name a handler which does not exist."""
    for tool in runtime.manager:
        missing = tool.missing_handler if isinstance(tool, DeclaredTool) else None
        if missing is None or not isinstance(tool, DeclaredTool):
            continue
        file = relative(tool.source, runtime.config.root) if tool.source is not None else "a catalog"
        message = f"{file}: tool '{tool.name}': there is no {missing.type} handler '{missing.handler}'"
        if missing.type == "builtin":
            yield Check(PROBLEM, "tools", message, f"correct the file: {suggestion(missing.handler, BUILTINS)}")
        else:
            advice = f"your program has to register it: runtime.register_internal('{missing.handler}', …)"
            yield Check(WARNING, "tools", message, advice)


def _concerns_script(problem: LoadProblem) -> bool:
    """Whether the problem is in a script as a whole: its header, its environment or its code."""
    return problem.index is None and is_script(problem.file)


def _scripts(runtime: Runtime) -> Iterator[Check]:
    failed = {problem.file: str(problem) for problem in runtime.problems if _concerns_script(problem)}
    for message in failed.values():
        yield Check(PROBLEM, "script", message, "correct it, then run toolrun sync; the other tools work")
    for script in runtime.scripts:
        path, environment = relative(script.path, runtime.config.root), script.environment
        if script.path in failed:
            continue
        if environment is None:
            advice = "toolrun sync creates it now; otherwise the first call does"
            yield Check(WARNING, "script", f"{path}: its environment does not exist yet", advice)
        else:
            yield Check(OK, "script", f"{path}: environment {environment.parents[1]}")


def _servers(runtime: Runtime) -> Iterator[Check]:
    for server in runtime.servers:
        if server.session is not None:
            tools = sum(getattr(tool, "supervisor", None) is server for tool in runtime.manager)
            about = ", ".join(filter(None, (server.info, f"protocol {server.version}", *_count(tools, "tool"))))
            yield Check(OK, "server", f"{server.name}: connected ({about})")
            continue
        if not server.settled.is_set() and not server.error:
            message = f"{server.name}: {server.state}: it has not answered yet"
            yield Check(WARNING, "server", message, "wait for it: toolrun doctor --wait")
            continue
        last = f"\n{server.tail}" if server.tail else ""
        advice = (
            server.server.settings.hint or f"correct [servers.{server.name}], or start the server by hand to see why"
        )
        yield Check(PROBLEM, "server", f"{server.name}: {server.state}: {server.error}{last}", advice)


def _requests(runtime: Runtime) -> Iterator[Check]:
    """Secrets of scripts: a script gets those that it requests and that its tools are granted."""
    for script in runtime.scripts:
        path, asked = relative(script.path, runtime.config.root), script.declared.secrets
        grants = [(tool.name, name) for tool in script.tools for name in _granted(runtime.config, tool)]
        for name in asked:
            if script.tools and name not in [granted for _, granted in grants]:
                message = f"{name}: {path} requests it, but none of its tools is granted it"
                advice = f'grant it in toolrun.toml: [tool."{script.tools[0].name}"] secrets = ["{name}"]'
                yield Check(WARNING, "secret", message, advice)
        for tool_name, name in grants:
            if name not in asked:
                message = f"{name}: {tool_name} is granted it, but {path} does not request it"
                yield Check(WARNING, "secret", message, f'its header should: [tool.toolrun] secrets = ["{name}"]')


def _settings(runtime: Runtime) -> Iterator[Check]:
    """Settings of tools that do not exist. A disabled tool is not loaded, on purpose."""
    names = [tool.name for tool in runtime.manager]
    servers = [server.name for server in runtime.servers]
    listed = [tool for tool in runtime.manager if isinstance(tool, McpTool)]
    others = {name for it in listed for name in settings_names(it.supervisor.name, it.listed.name, servers)}
    for name, settings in runtime.config.tool.items():
        if settings.enabled and name not in names and name not in others:
            yield Check(WARNING, "settings", f"[tool.{name}] matches no tool; {suggestion(name, names)}")


def _secrets(runtime: Runtime) -> Iterator[Check]:
    config = runtime.config
    for name in config.secrets:
        yield Check(OK, "secret", name)
    for name, reason in config.missing_secrets.items():
        concerned = [tool.name for tool in runtime.manager if name in _granted(config, tool)]
        if concerned:
            message = f"{name}: {reason}; needed by {', '.join(concerned)}"
            yield Check(PROBLEM, "secret", message, "set it, or remove it from the tool's secrets")
        else:
            yield Check(WARNING, "secret", f"{name}: {reason}; no tool needs it", "set it, or remove it from [secrets]")


def _granted(config: Config, tool: Tool) -> tuple[str, ...]:
    settings = config.tool.get(tool.name)
    return settings.secrets if settings is not None else ()


class _Collector(logging.Handler):
    """Collects log messages while the tools are loaded, to show them among the checks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "secret") and not hasattr(record, "server"):  # those have their own checks
            self.messages.append(record.getMessage())


def _show(output: Output, checks: list[Check]) -> None:
    problems = sum(check.status == PROBLEM for check in checks)
    warnings = sum(check.status == WARNING for check in checks)
    total = ", ".join(_count(problems, "problem") + _count(warnings, "warning")) or "all is well"
    if not output.is_terminal:
        for check in checks:
            output.text(f"{check.status:<9}{check.subject:<15}{_indented(check)}")
        output.text(f"\n{total}")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 3, 0, 0))
    for check in checks:
        about = Text(terminal_safe(check.message))
        if check.advice:
            about.append(f"\n→ {check.advice}", "cyan")
        table.add_row(Text(check.status, _COLOURS[check.status]), Text(check.subject, "bold"), about)
    worst = PROBLEM if problems else WARNING if warnings else OK
    output.rich(table, Text(f"\n{total}", _COLOURS[worst]))


def _indented(check: Check) -> str:
    lines = check.message.splitlines() + ([f"→ {check.advice}"] if check.advice else [])
    return ("\n" + " " * 24).join(lines)


def _count(number: int, thing: str) -> list[str]:
    return [plural(number, thing)] if number else []
