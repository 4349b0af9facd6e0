"""The sandbox of a script: what its header asks for, what toolrun.toml grants, and what that leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from toolrun.config.model import Config, Permissions
from toolrun.processes.sandbox.policy import (
    OFF,
    STANDARD,
    STRICT,
    Policy,
    ProjectPaths,
    interpreter_roots,
    make_policy,
)
from toolrun.scripts.script_version import Declared

_STRICTNESS: Final = (OFF, STANDARD, STRICT)


def script_level(name: str, declared: Declared, config: Config) -> str:
    """What the user says of this script; else the stricter of what the user says of all, and what its header says."""
    settings = config.tool.get(name)
    if settings is not None and settings.sandbox:
        return settings.sandbox
    return max(config.workers.sandbox, declared.sandbox or OFF, key=_STRICTNESS.index)


def script_policy(path: Path, declared: Declared, config: Config, paths: ProjectPaths, interpreter: Path) -> Policy:
    """What a script may do. Its process serves all its tools, so they have one policy, under the name of the script."""
    name = path.stem
    packages = (*interpreter_roots(interpreter), path.parent.resolve())
    level = script_level(name, declared, config)
    return make_policy(level, granted(name, config), f"tool.{name}.permissions", paths, interpreter, packages)


def granted(name: str, config: Config) -> Permissions:
    """What toolrun.toml grants to a script."""
    settings = config.tool.get(name)
    return Permissions() if settings is None else settings.permissions


def ungranted(declared: Declared, name: str, config: Config) -> Permissions:
    """What the header of a script asks for and toolrun.toml does not grant; nothing if its sandbox has it anyway."""
    asked, given = declared.permissions, granted(name, config)
    level = script_level(name, declared, config)
    if level == OFF:
        return Permissions()
    return Permissions(
        net=_missing(asked.net, given.net, is_open=level == STANDARD),
        run=_missing(asked.run, given.run, is_open=level == STANDARD),
        read=tuple(path for path in asked.read if path not in (*given.read, *given.write)),
        write=tuple(path for path in asked.write if path not in given.write),
        env=tuple(variable for variable in asked.env if variable not in given.env),
    )


def _missing(
    asked: bool | tuple[str, ...] | None, given: bool | tuple[str, ...] | None, *, is_open: bool
) -> bool | tuple[str, ...] | None:
    given = is_open if given is None else given
    if given is True or asked is None or isinstance(asked, bool):
        return asked or None if given is not True else None
    return tuple(it for it in asked if given is False or it not in given) or None


def granted_variables(name: str, config: Config) -> set[str]:
    """The environment variables that are granted to all scripts, or to this one."""
    return {*config.workers.variables, *granted(name, config).env}
