"""What in a project no sandboxed process sees or changes: what toolrun remembers, and what says how tools are run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolrun.config.model import Config
from toolrun.processes.sandbox.policy import ProjectPaths

_OWN: Final = ".toolrun"
"""The directory for the journal, and for the token of `toolrun serve --http`."""
_CODE: Final = frozenset(
    (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".pl", ".php", ".lua", ".jar", ".wasm")
)
"""How the names of files end that an interpreter is given. Another file may be data, also for scripts."""


def paths_of_project(config: Config, cache: Path, directory: Path | None = None) -> ProjectPaths:
    """Relative paths begin in `directory`, by default in the root of the project.

    What toolrun remembers, the cache, toolrun.toml and files with secrets are hidden; tool files are protected.
    """
    root = config.root
    journal = config.journal_file
    hidden = [cache, root / _OWN, *config.secret_files, *([config.path] if config.path is not None else [])]
    for file in dict.fromkeys((journal, journal.resolve())):  # both, if it is a link
        if file.parent.name == _OWN:
            hidden.append(file.parent)
        else:
            hidden += [file.with_name(file.name + suffix) for suffix in ("", "-wal", "-shm", "-lock")]
    protected = [*_tool_places(config), *_own_places(root), *_git(root), *(root / name for name in config.mcp.files)]
    protected += [path for path in _server_places(config) if path != root and path.is_relative_to(root)]
    is_configured = config.path is not None or not config.is_found
    return ProjectPaths(root, tuple(hidden), tuple(protected), tuple(_writable(config)), directory, is_configured)


def _writable(config: Config) -> Iterator[Path]:
    """What the permissions of all scripts and servers let them write."""
    permissions = [
        *(tool.permissions for tool in config.tool.values()),
        *(server.permissions for server in config.servers.values() if server.permissions is not None),
    ]
    for path in (path for it in permissions for path in it.write):
        yield config.root / Path(path).expanduser()


def _git(root: Path) -> Iterator[Path]:
    """What git runs for whoever uses it next. In a linked working tree, `.git` is a file that says where that is."""
    git = root / ".git"
    yield from [git] if git.is_file() else [git / "hooks", git / "config"]


def _own_places(root: Path) -> Iterator[Path]:
    """This program and its environment, if they are in the project: what a script writes there, it would run next."""
    environment = Path(sys.prefix)
    parts = [environment] if environment != root else [root / "bin", root / "lib", root / "pyvenv.cfg"]
    yield from (path for path in (*parts, Path(__file__).parents[2]) if path.resolve().is_relative_to(root.resolve()))


def _server_places(config: Config) -> Iterator[Path]:
    """What runs when a server is started: its program, the environment of that, and the code that arguments name."""
    for server in config.servers.values():
        place, before = config.root / _expand(server.cwd), ""
        for word in (server.command, *server.args) if server.command else ():
            path = place / _expand(word)
            if before == "-m":
                yield place / word.replace(".", "/")
                yield place / f"{word.replace('.', '/')}.py"
            elif os.path.isfile(path) and (path.suffix in _CODE or os.access(path, os.X_OK)):  # noqa: PTH113  may be any text
                yield path
                environment = path.parent.parent
                if (environment / "pyvenv.cfg").is_file():
                    yield environment
            before = word


def _expand(word: str) -> str:
    """With the home that it begins with; as it is, if there is no such home."""
    return os.path.expanduser(word)  # noqa: PTH111  `Path` raises for that


def _tool_places(config: Config) -> Iterator[Path]:
    """The directories with tool files; or the files, if they are in the root of the project."""
    for pattern in (*config.files.python, *config.files.catalogs):
        parts = Path(pattern).parts
        fixed = next((index for index, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts) - 1)
        if fixed:
            yield config.root.joinpath(*parts[:fixed])
        else:
            yield from config.root.glob(pattern)
