"""A tool that runs a program for each call: never through a shell, killed with all that it started at the deadline.

Its process has the walls and grants of a script of the same name: `[workers] sandbox`, `[tool.NAME] sandbox`,
`permissions` and `secrets`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolrun.config.cache_directory import cache_directory
from toolrun.config.model import ToolSettings
from toolrun.errors import SideEffects, ToolError, UnavailableError
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Engine, Exit, ProcessSpec
from toolrun.processes.sandbox.foreign_program import confine_program
from toolrun.text import plural, section, visible
from toolrun.tools.context import current_call
from toolrun.tools.key_argument import KeyArgument

if TYPE_CHECKING:
    from toolrun.config.model import Config
    from toolrun.processes.engine import Worker
    from toolrun.processes.sandbox.confine import Sandboxes
    from toolrun.sources.catalog import Declaration

logger = get_logger("toolrun.worker")

_TAIL_LINES: Final = 20
_LONG: Final = 1e6
"""Seconds. The deadline of the call ends it long before."""
_NO_SETTINGS: Final = ToolSettings()


class CommandServices:
    """What all commands of a project share."""

    def __init__(self, config: Config, engine: Engine, sandboxes: Sandboxes, environ: Mapping[str, str]) -> None:
        self.config = config
        self.engine = engine
        self.sandboxes = sandboxes
        self.environ = environ


def open_commands(config: Config, environ: Mapping[str, str]) -> CommandServices:
    """What the commands of a project need. The engine belongs to the caller."""
    from toolrun.processes.local import LocalEngine
    from toolrun.processes.sandbox.confine import Sandboxes
    from toolrun.processes.sandbox.project_paths import paths_of_project

    cache = cache_directory(config.workers, config.root)
    sandboxes = Sandboxes(cache, paths_of_project(config, cache), config.workers.sandbox_required)
    return CommandServices(config, LocalEngine(), sandboxes, environ)


class CommandTool:
    """A program with an argument template, as a catalog declares it."""

    isolated = True
    """It runs in a process, which is killed when a call is given up."""
    is_async = True

    def __init__(self, declaration: Declaration, services: CommandServices) -> None:
        command = declaration.implementation.command
        assert command is not None
        self.name = declaration.name
        self.description = declaration.description
        self.schema = declaration.parameters
        self.timeout = declaration.timeout
        self.effects = declaration.effects
        self.source = declaration.source
        self.key_argument: KeyArgument | None = None
        self._command = command
        self._services = services

    @property
    def said_hash(self) -> str:
        """The command: whoever agreed to a call agreed to what it runs."""
        return repr(self._command)

    async def ainvoke(self, arguments: dict[str, JSON]) -> JSON:
        command = self._command
        spec = await self._confined(self._spec(command.template.fill(arguments)))
        process = _RunningCommand(self.name, command.max_output)
        try:
            process.worker = self._services.engine.start(spec, process)
        except OSError as error:
            raise UnavailableError(
                f"'{command.template.program}' cannot be started: {error.strerror or error}",
                side_effects=SideEffects.NOT_STARTED,
            ) from error
        try:
            await process.worker.close(_LONG)  # which closes its input, and waits
            exit = await process.exit
        finally:
            process.worker.kill()
        return self._result(process, exit)

    def _result(self, process: _RunningCommand, exit: Exit) -> JSON:
        command, program = self._command, self._command.template.program
        if process.is_full:
            raise ToolError(
                f"'{program}' wrote more than {command.max_output:,} bytes, so it was killed",
                side_effects=SideEffects.UNKNOWN,
            )
        output = b"".join(process.output).decode("utf-8", "replace")
        if exit.code not in command.exit_codes:
            is_own = exit.code is not None and exit.code >= 0
            raise ToolError(
                f"'{program}' {exit.describe()}",
                side_effects=SideEffects.FAILED if is_own else SideEffects.UNKNOWN,
                detail="\n".join([*process.words(), *([output[:2000]] if output.strip() else [])]),
            )
        if command.output == "text":
            return output.removesuffix("\n").removesuffix("\r")
        try:
            found: JSON = json.loads(output)
        except (ValueError, RecursionError) as error:
            raise ToolError(
                f"'{program}' did not write JSON: {error}", side_effects=SideEffects.UNKNOWN, detail=output[:2000]
            ) from error
        return found

    def _spec(self, arguments: list[str]) -> ProcessSpec:
        """Raises UnavailableError."""
        services, command = self._services, self._command
        config = services.config
        settings = config.tool.get(self.name, _NO_SETTINGS)
        variables = child_environment(services.environ) | self._secrets(settings)
        directory = config.root / Path(command.cwd).expanduser()
        name = command.template.program
        place = str(directory / Path(name).expanduser()) if "/" in name or name.startswith("~") else name
        program = shutil.which(place, path=variables.get("PATH"))
        if program is None:
            where = "" if "/" in name else " on the PATH"
            raise _unavailable(f"the program '{name}' was not found{where}; install it, or correct 'command'")
        if not directory.is_dir():
            raise _unavailable(f"its directory '{directory}' does not exist; correct 'cwd'")
        return ProcessSpec(
            self.name,
            Path(program).absolute(),
            tuple(arguments),
            directory.resolve(),
            variables,
            label=f"command {self.name}",
        )

    async def _confined(self, spec: ProcessSpec) -> ProcessSpec:
        """The process behind the walls of a script of this name. Raises UnavailableError."""
        services = self._services
        settings = services.config.tool.get(self.name, _NO_SETTINGS)
        level = settings.sandbox or services.config.workers.sandbox
        grants = f"tool.{self.name}.permissions"
        return await confine_program(spec, level, settings.permissions, grants, services.sandboxes, services.environ)

    def _secrets(self, settings: ToolSettings) -> dict[str, str]:
        """The variables with secrets that toolrun.toml grants."""
        found = {}
        for variable, secret in self._command.secrets.items():
            if secret not in settings.secrets or secret not in self._services.config.secrets:
                grant = f'secrets = ["{secret}"] in {section("tool", self.name)}'
                raise _unavailable(
                    f"its variable {variable} needs the secret '{secret}', which is not granted: {grant}"
                )
            found[variable] = self._services.config.secrets[secret]
        return found

    def __repr__(self) -> str:
        return f"<CommandTool {self.name!r} {self._command.template.program}>"


class _RunningCommand:
    """What a running program writes, and its end."""

    worker: Worker

    def __init__(self, name: str, max_output: int) -> None:
        self.output: list[bytes] = []
        self.is_full = False
        self.exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._left = max_output
        self._name = name
        self._call = current_call.get()
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._count = 0

    def received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left >= 0:
            self.output.append(data)
        elif not self.is_full:
            self.is_full = True
            self.output.clear()
            self.worker.kill()

    def logged(self, line: str) -> None:
        self._lines.append(line)
        self._count += 1
        if self._call is not None:
            self._call.logged("info", visible(line))
        logger.info("%s: %s", self._name, visible(line))

    def ended(self, exit: Exit) -> None:
        if not self.exit.done():
            self.exit.set_result(exit)

    def words(self) -> list[str]:
        """The last lines on stderr."""
        left_out = self._count - len(self._lines)
        return [*([f"… [{plural(left_out, 'line')} left out] …"] if left_out else []), *self._lines]


def _unavailable(reason: str) -> UnavailableError:
    return UnavailableError(reason[0].upper() + reason[1:], side_effects=SideEffects.NOT_STARTED)
