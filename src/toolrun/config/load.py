"""toolrun.toml + environment + flags → one frozen `Config`.

Says which layer wins; knows nothing of the tools, the executor or the log that use the values. The environment is an
argument. All mistakes of a configuration are reported together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolrun.config.model import Config
from toolrun.errors import ConfigError
from toolrun.json import JSON

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "toolrun.toml"
_NOTHING: Mapping[str, JSON] = MappingProxyType({})


def find_config(start: Path, *, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The `toolrun.toml` in a directory or the nearest one above it. Raises ConfigError if it is not the user's own."""
    from toolrun.config.ownership import check_found

    start = start.resolve()
    for directory in (start, *start.parents):
        found = directory / FILE_NAME
        is_there = False
        with suppress(OSError):  # no permission to enter the directory
            is_there = found.exists() and not found.is_dir()
        if is_there:
            check_found(found, environ)
            return found
    return None


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, JSON] = _NOTHING,
    is_found: bool = False,
) -> Config:
    """Defaults < file < environment < overrides. An override is a dotted key; `None` means that it is not set.

    `is_found`: nobody named the file, `find_config` found it, so its files with tools must be the user's own, too.
    """
    from pathlib import Path  # a program that makes its own Config needs none of these

    from toolrun.config.reader import ConfigReader, read_document
    from toolrun.config.section import fields_of_config

    path = path.absolute() if path is not None else None
    root = path.parent if path is not None else Path.cwd()
    document = read_document(path) if path is not None else {}
    variables, env_files = _read_env_file(document, root, path, environ, is_found=is_found)
    environ = variables | dict(environ)
    reader = ConfigReader(str(path or "the configuration"), root, environ, [], secret_files=env_files)
    table = document.pop("secrets", {})
    secrets, missing = reader.secrets(table)
    given = reader.file(document) | reader.variables() | reader.overrides(overrides)
    given = {address: value for address, value in given.items() if address[:2] not in reader.missing}
    reader.check_grants(given, set(table) if isinstance(table, dict) else set())
    if len(reader.problems) == 1:
        raise ConfigError(reader.problems[0])
    if reader.problems:
        listed = "".join(f"\n- {problem}" for problem in reader.problems)
        raise ConfigError(f"the configuration has {len(reader.problems)} problems:{listed}")
    return Config(
        path=path,
        root=root,
        is_found=is_found,
        variables=MappingProxyType(variables),
        secrets=MappingProxyType(secrets),
        secret_files=tuple(reader.secret_files),
        missing_secrets=MappingProxyType(missing),
        missing_servers=MappingProxyType({name: reason for (_, name), reason in reader.missing.items()}),
        **fields_of_config(given),
    )


def _read_env_file(
    document: Mapping[str, JSON], root: Path, path: Path | None, environ: Mapping[str, str], *, is_found: bool
) -> tuple[dict[str, str], list[Path]]:
    """The variables of the file that [environment] names and that are not set, and the file, if it is named.

    It is read before all other keys, which may refer to these variables.
    """
    table = document.get("environment")
    name = table.get("file") if isinstance(table, dict) else None
    name = environ.get("TOOLRUN_ENVIRONMENT_FILE") or name
    if not name or not isinstance(name, str):  # whoever reads the section says what is wrong with it
        return {}, []
    from pathlib import Path

    from toolrun.config.env_file import read_env_file
    from toolrun.config.ownership import refusal

    file = root / Path(name).expanduser()
    if is_found and file.exists() and (reason := refusal(file, root, path, environ)):
        raise ConfigError(f"{file} {reason}")
    return {key: value for key, value in read_env_file(file).items() if key not in environ}, [file]
