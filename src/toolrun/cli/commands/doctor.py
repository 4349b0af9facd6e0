"""`toolrun doctor`: checks the installation, the configuration and every tool, and says what to do."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module, metadata
from typing import Final

import click

from toolrun.builtins import BUILTINS, find_missing
from toolrun.cli import exit
from toolrun.cli.cluster_checks import cluster_checks
from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.doctor_check import OK, PROBLEM, WARNING, DoctorCheck
from toolrun.cli.log_handler import Collector
from toolrun.cli.options import Options, shared_options, wait_option
from toolrun.cli.output import Output, claim_stdout, terminal_safe
from toolrun.cli.recorded_call import gap_of
from toolrun.cli.sandbox_checks import look_at_sandbox, permission_checks
from toolrun.cli.summary import relative
from toolrun.config.cache_directory import cache_directory
from toolrun.config.model import Config, Permissions, ToolSettings
from toolrun.errors import ConfigError, MissingExtraError
from toolrun.hidden_characters import reveal
from toolrun.journal.history import open_history
from toolrun.journal.housekeeping import MIN_FREE
from toolrun.mcp.client.mcp_tool import McpTool
from toolrun.mcp.tool_names import settings_names
from toolrun.runtime import Runtime, read_config
from toolrun.scripts.uv import clean_variables
from toolrun.sources.catalog import DeclaredTool
from toolrun.sources.load_problem import LoadProblem
from toolrun.sources.tool_files import is_script
from toolrun.text import plural, section, suggestion
from toolrun.tools.protocol import Tool
from toolrun.version import __version__

_PACKAGES: Final = {"jsonschema-rs": "jsonschema_rs", "orjson": "orjson", "pydantic": "pydantic"}
_COLOURS: Final = {OK: "green", WARNING: "yellow", PROBLEM: "red"}
_UV_TIMEOUT: Final = 10.0
_WAIT: Final = 10.0
"""Seconds to wait for MCP servers. One that fails has failed three times by then."""
_MAX_GAPS: Final = 5


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
    checks = [_revealed(it) for it in (*_installation(), *_project(options, wait))]
    is_ok = all(check.status != PROBLEM for check in checks)
    if as_json:
        output.json({"ok": is_ok, "checks": [asdict(check) for check in checks]})
    else:
        _show(output, checks)
    return exit.OK if is_ok else exit.FAILED


def _installation() -> Iterator[DoctorCheck]:
    yield DoctorCheck(OK, "python", f"{platform.python_version()} ({sys.executable})")
    yield DoctorCheck(OK, "toolrun", __version__)
    for package, module in _PACKAGES.items():
        try:
            import_module(module)
            yield DoctorCheck(OK, package, metadata.version(package))
        except (ImportError, metadata.PackageNotFoundError) as error:
            yield DoctorCheck(
                PROBLEM, package, f"cannot be imported: {error}", "reinstall toolrun: pip install -U toolrun"
            )
    yield _uv()


def _uv() -> DoctorCheck:
    try:
        path = import_module("uv").find_uv_bin()
        done = subprocess.run(
            [path, "--version"],
            env=clean_variables(os.environ, {}),
            capture_output=True,
            text=True,
            timeout=_UV_TIMEOUT,
            check=True,
        )
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        return DoctorCheck(PROBLEM, "uv", f"does not work: {error}", "install it where toolrun is: pip install -U uv")
    return DoctorCheck(OK, "uv", f"{done.stdout.removeprefix('uv ').partition(' ')[0].strip()} ({path})")


def _project(options: Options, wait: float | None) -> list[DoctorCheck]:
    try:
        config = read_config(options.config)
    except ConfigError as error:
        return [DoctorCheck(PROBLEM, "configuration", str(error), "correct it; nothing works without it")]
    log = Collector()
    logger = logging.getLogger("toolrun")
    logger.addHandler(log)
    logger.propagate = options.verbosity > 0  # otherwise the checks say everything

    async def examine(runtime: Runtime) -> list[DoctorCheck]:
        await runtime.ready(timeout=wait)
        cache = cache_directory(config.workers, config.root)
        return [
            _configuration(config),
            *_tools(runtime, log, options),
            *_handlers(runtime),
            *_packages(runtime),
            *_scripts(runtime, options),
            await asyncio.to_thread(look_at_sandbox, config.workers.sandbox_required, cache),
            *permission_checks(runtime),
            *await asyncio.to_thread(cluster_checks, config),
            *_servers(runtime, options),
            *_definitions(runtime),
            *_settings(runtime),
            *_secrets(runtime),
            *_requests(runtime),
            *_journal(runtime, options),
        ]

    try:
        return run_with_tools(options, examine)
    except MissingExtraError as error:  # of the engine or of telemetry: without it there is no runtime to examine
        message, _, advice = str(error).partition(" Install it with: ")
        return [
            _configuration(config),
            DoctorCheck(PROBLEM, "packages", message, advice and f"Install it with: {advice}"),
        ]


def _configuration(config: Config) -> DoctorCheck:
    if config.path is None:
        return DoctorCheck(
            WARNING,
            "configuration",
            "no toolrun.toml in or above this directory; using defaults",
            "toolrun init creates one",
        )
    return DoctorCheck(OK, "configuration", str(config.path))


def _tools(runtime: Runtime, log: Collector, options: Options) -> Iterator[DoctorCheck]:
    for problem in runtime.problems:
        if not _concerns_script(problem):
            yield DoctorCheck(PROBLEM, "tools", str(problem), "correct the file; the other tools work")
    for message in log.messages:
        yield DoctorCheck(WARNING, "tools", message)
    if len(runtime.manager):
        yield DoctorCheck(OK, "tools", f"{len(runtime.manager)} loaded")
    elif not runtime.problems:
        patterns = ", ".join((*runtime.config.files.python, *runtime.config.files.catalogs))
        yield DoctorCheck(WARNING, "tools", f"none in {patterns}", f"write one: {options.command_line('new', 'NAME')}")


def _handlers(runtime: Runtime) -> Iterator[DoctorCheck]:
    """Tools of catalogs that name a handler which does not exist."""
    for tool in runtime.manager:
        missing = tool.missing_handler if isinstance(tool, DeclaredTool) else None
        if missing is None or not isinstance(tool, DeclaredTool):
            continue
        file = relative(tool.source, runtime.config.root) if tool.source is not None else "a catalog"
        message = f"{file}: tool '{tool.name}': there is no {missing.type} handler '{missing.handler}'"
        if missing.type == "builtin":
            yield DoctorCheck(PROBLEM, "tools", message, f"correct the file: {suggestion(missing.handler, BUILTINS)}")
        else:
            advice = f"your program has to register it: runtime.register_internal('{missing.handler}', …)"
            yield DoctorCheck(WARNING, "tools", message, advice)


def _packages(runtime: Runtime) -> Iterator[DoctorCheck]:
    """Builtin tools whose calls fail until an extra is installed."""
    for tool in runtime.manager:
        problem = find_missing(tool.builtin) if isinstance(tool, DeclaredTool) and tool.builtin is not None else None
        if problem is not None:
            message, _, advice = str(problem).partition(". ")
            yield DoctorCheck(WARNING, "tools", f"tool '{tool.name}': {message}", advice)


def _concerns_script(problem: LoadProblem) -> bool:
    """Whether the problem is in a script as a whole: its header, its environment or its code."""
    return problem.index is None and is_script(problem.file)


def _scripts(runtime: Runtime, options: Options) -> Iterator[DoctorCheck]:
    failed = {problem.file: str(problem) for problem in runtime.problems if _concerns_script(problem)}
    sync = options.command_line("sync")
    for message in failed.values():
        yield DoctorCheck(PROBLEM, "script", message, f"correct it, then run {sync}; the other tools work")
    for script in runtime.scripts:
        path, environment = relative(script.path, runtime.config.root), script.environment
        if script.path in failed:
            continue
        if environment is None:
            advice = f"{sync} creates it now; otherwise the first call does"
            yield DoctorCheck(WARNING, "script", f"{path}: its environment does not exist yet", advice)
        else:
            yield DoctorCheck(OK, "script", f"{path}: environment {environment.parents[1]}")


def _servers(runtime: Runtime, options: Options) -> Iterator[DoctorCheck]:
    for server in runtime.servers:
        if server.session is not None:
            tools = sum(getattr(tool, "supervisor", None) is server for tool in runtime.manager)
            about = ", ".join(filter(None, (server.info, f"protocol {server.version}", *_count(tools, "tool"))))
            yield DoctorCheck(OK, "server", f"{server.name}: connected ({about})")
            continue
        if not server.first_attempts_over.is_set() and not server.error:
            message = f"{server.name}: {server.state}: it has not answered yet"
            yield DoctorCheck(WARNING, "server", message, f"wait for it: {options.command_line('doctor', '--wait')}")
            continue
        last = f"\n{server.tail}" if server.tail else ""
        advice = (
            server.server.settings.hint
            or f"correct {section('servers', server.name)}, or start the server by hand to see why"
        )
        yield DoctorCheck(PROBLEM, "server", f"{server.name}: {server.state}: {server.error}{last}", advice)


def _definitions(runtime: Runtime) -> Iterator[DoctorCheck]:
    """Whether the tools of servers are the ones that were agreed to."""
    if runtime.pin_problem:
        message = f"the definitions of MCP tools cannot be remembered: {runtime.pin_problem}"
        yield DoctorCheck(WARNING, "definitions", message)
    for it in runtime.changes:
        status, state = (PROBLEM, "neither offered nor called") if it.is_held else (WARNING, "still in use")
        message = f"{it.server}: {it.tool} changed ({', '.join(it.parts)}) and is {state}"
        yield DoctorCheck(status, "definitions", message, f"look at it: toolrun trust; to accept it: {it.command}")


def _requests(runtime: Runtime) -> Iterator[DoctorCheck]:
    """Secrets of scripts: a script gets those that it requests and that its tools are granted."""
    for script in runtime.scripts:
        path, asked = relative(script.path, runtime.config.root), script.declared.secrets
        grants = [(tool.name, name) for tool in script.tools for name in _granted(runtime.config, tool)]
        for name in asked:
            if script.tools and name not in [granted for _, granted in grants]:
                message = f"{name}: {path} requests it, but none of its tools is granted it"
                advice = f'grant it in toolrun.toml: [tool."{script.tools[0].name}"] secrets = ["{name}"]'
                yield DoctorCheck(WARNING, "secret", message, advice)
        for tool_name, name in grants:
            if name not in asked:
                message = f"{name}: {tool_name} is granted it, but {path} does not request it"
                yield DoctorCheck(WARNING, "secret", message, f'its header should: [tool.toolrun] secrets = ["{name}"]')


def _journal(runtime: Runtime, options: Options) -> Iterator[DoctorCheck]:
    """Whether calls are recorded, and which are missing."""
    journal = runtime.journal
    if journal is None:
        if runtime.executor.journal_problem is not None:
            yield DoctorCheck(WARNING, "journal", f"calls are not recorded: {runtime.executor.journal_problem}")
        elif runtime.config.path is not None:
            yield DoctorCheck(OK, "journal", "off ([journal] enabled = false)")
        return
    with open_history(journal.path) as history:
        gaps = history.gaps()
    yield DoctorCheck(OK, "journal", f"{relative(journal.path, runtime.config.root)} (SQLite {sqlite3.sqlite_version})")
    if journal.problem is not None:
        yield DoctorCheck(PROBLEM, "journal", f"calls are not recorded: {journal.problem}")
    free = shutil.disk_usage(journal.path.parent).free
    if free < MIN_FREE:
        yield DoctorCheck(WARNING, "journal", f"its disk is nearly full ({free // 1_000_000} MB are free)", "make room")
    if len(gaps) > _MAX_GAPS:
        yield DoctorCheck(
            WARNING, "journal", plural(len(gaps) - _MAX_GAPS, "earlier gap"), f"{options.command_line('log')} shows all"
        )
    for gap in gaps[-_MAX_GAPS:]:
        yield DoctorCheck(WARNING, "journal", gap_of(gap))


def _settings(runtime: Runtime) -> Iterator[DoctorCheck]:
    """Settings of tools that do not exist, or that name one. A disabled tool is not loaded, on purpose."""
    names = [tool.name for tool in runtime.manager]
    servers = [server.name for server in runtime.servers]
    listed = [tool for tool in runtime.manager if isinstance(tool, McpTool)]
    scripts = {script.name for script in runtime.scripts}
    others = {name for it in listed for name in settings_names(it.supervisor.name, it.listed.name, servers)}
    for name, settings in runtime.config.tool.items():
        is_of_script = name in scripts and _is_of_file(settings)
        if settings.enabled and name not in names and name not in others and not is_of_script:
            yield DoctorCheck(
                WARNING, "settings", f"{section('tool', name)} matches no tool; {suggestion(name, names)}"
            )
        elif settings.enabled and settings.verify is not None and settings.verify not in names:
            missing = f"verify: there is no tool '{settings.verify}'; {suggestion(settings.verify, names)}"
            yield DoctorCheck(WARNING, "settings", f"{section('tool', name)} {missing}")


def _is_of_file(settings: ToolSettings) -> bool:
    """Whether they have what concerns the process of a script, under the name of its file."""
    place = (settings.engine, settings.replicas, settings.resources)
    return bool(settings.sandbox or settings.permissions != Permissions() or any(place))


def _secrets(runtime: Runtime) -> Iterator[DoctorCheck]:
    config = runtime.config
    for name in config.secrets:
        yield DoctorCheck(OK, "secret", name)
    for name, reason in config.missing_secrets.items():
        concerned = [tool.name for tool in runtime.manager if name in _granted(config, tool)]
        if concerned:
            message = f"{name}: {reason}; needed by {', '.join(concerned)}"
            yield DoctorCheck(PROBLEM, "secret", message, "set it, or remove it from the tool's secrets")
        else:
            yield DoctorCheck(
                WARNING, "secret", f"{name}: {reason}; no tool needs it", "set it, or remove it from [secrets]"
            )


def _granted(config: Config, tool: Tool) -> tuple[str, ...]:
    settings = config.tool.get(tool.name)
    return settings.secrets if settings is not None else ()


def _show(output: Output, checks: list[DoctorCheck]) -> None:
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


def _indented(check: DoctorCheck) -> str:
    lines = check.message.splitlines() + (f"→ {check.advice}".splitlines() if check.advice else [])
    return ("\n" + " " * 24).join(lines)


def _revealed(check: DoctorCheck) -> DoctorCheck:
    """Names and words of others are shown as they are, and not as they want to be seen."""
    return replace(check, message=reveal(check.message), advice=reveal(check.advice))


def _count(number: int, thing: str) -> list[str]:
    return [plural(number, thing)] if number else []
