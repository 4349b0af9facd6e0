"""What a process may do: a value in the words of toolrun.toml, with its paths resolved.

Pure, apart from looking where paths lead. Knows nothing of namespaces, Landlock or seccomp.

    level       network    project          programs    elsewhere
    standard    all        read, write      all         the system, the interpreter and its packages: read
    strict      none       read             none        the same
    off         the process may do what its user may; what it starts still ends with it

A directory without toolrun.toml is no project: it is only read, or if a home is in it, not even that.

Permissions add to that: `read` and `write` name paths; `net` and `run` take the place of what the level says.

A script may put a symbolic link where it may write. So a permission does not lead through a link there: a script could
otherwise have the next worker granted whatever the link names.

A policy outlives many processes. What may change meanwhile is looked up at each start: `private_files.py`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from toolrun.config.model import Permissions
from toolrun.errors import SideEffects, UnavailableError

STANDARD: Final = "standard"
STRICT: Final = "strict"
OFF: Final = "off"
_MAX_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class Policy:
    """What one process may do."""

    level: str
    section: str
    """The section of toolrun.toml that grants more: `tool.weather.permissions`."""
    directory: Path
    """The working directory. Being there grants nothing."""
    program: Path
    """The interpreter or program that is started."""
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    """Not to be seen, although they are inside of what is."""
    protected: tuple[Path, ...] = ()
    """Not to be written, although they are inside of what is."""
    net: bool | tuple[str, ...] = True
    """Whether it has the network, or the hosts that it may reach."""
    run: bool | tuple[Path, ...] = True
    """Whether it may start programs, or which."""
    home: Path = Path("/nonexistent")
    given: Permissions = field(default_factory=Permissions)
    """What toolrun.toml grants, in its words."""
    exposed: tuple[Path, ...] = ()
    """Where some process with a sandbox may write, so that symbolic links there lead nowhere."""


class ExposedLinkError(UnavailableError):
    """A permission leads through a symbolic link that a script may have made."""

    side_effects = SideEffects.NOT_STARTED


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """What a project has that concerns every sandbox in it."""

    root: Path
    hidden: tuple[Path, ...] = ()
    """The journal, files with secrets, the cache."""
    protected: tuple[Path, ...] = ()
    """What says how tools are run: toolrun.toml, the files with tools."""
    writable: tuple[Path, ...] = ()
    """What permissions let some process write, besides the project."""
    directory: Path | None = None
    """Where relative paths begin. None: in the root."""
    is_configured: bool = True
    """Whether a toolrun.toml or a program makes it a project. Otherwise a script could write one that grants it all."""


def make_policy(
    level: str, permissions: Permissions, section: str, paths: ProjectPaths, program: Path, packages: Iterable[Path]
) -> Policy:
    """The policy of a process that runs `program` with what is in `packages`. Raises ExposedLinkError."""
    is_standard = level == STANDARD
    root = paths.root.resolve()
    home = Path("~").expanduser().resolve()
    exposed = _unique([root, *(path.resolve() for path in paths.writable)])
    resolve = partial(_resolve, root=root, exposed=exposed, section=section)
    read = [*packages, *map(resolve, permissions.read)]
    write = [*map(resolve, permissions.write)]
    if paths.is_configured or not is_below(str(home), str(root)):
        (write if is_standard and paths.is_configured else read).append(root)
    run = permissions.run
    return Policy(
        level=level,
        section=section,
        directory=_working_directory(paths, root, level),
        program=program,
        read=_unique(read),
        write=_unique(write),
        hidden=() if level == OFF else _unique(path.resolve() for path in paths.hidden),
        protected=tuple(path.resolve() for path in paths.protected),
        net=is_standard if permissions.net is None else permissions.net,
        run=is_standard if run is None else run if isinstance(run, bool) else _programs(run),
        home=home,
        given=permissions,
        exposed=exposed,
    )


def _working_directory(paths: ProjectPaths, root: Path, level: str) -> Path:
    """The root, in the place of a directory that is hidden from every process."""
    directory = root if paths.directory is None else paths.directory.resolve()
    hidden = () if level == OFF else paths.hidden
    return root if any(is_below(str(directory), str(it.resolve())) for it in hidden) else directory


def interpreter_roots(interpreter: Path) -> tuple[Path, ...]:
    """Where an interpreter keeps its library: its environment, and the installation that this is based on.

    An environment of uv names a link to the installation, so both spellings count; and the environment may be a link.
    """
    roots = [interpreter.parent.parent, interpreter.parent.parent.resolve()]
    step = interpreter
    while step.is_symlink():
        step = Path(os.path.normpath(step.parent / step.readlink()))
        roots.append(step.parent.parent)
    roots.append(step.resolve().parent.parent)
    return _unique(root for root in roots if root != Path("/"))


def is_below(path: str, root: str) -> bool:
    """Whether a path is `root`, or in it. On text: pathlib takes ten times as long, and this is done at each start."""
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")


def _programs(names: Iterable[str]) -> tuple[Path, ...]:
    """The files behind names of programs; a path may also be a directory."""
    found = (name if "/" in name else shutil.which(name) for name in names)
    return tuple(Path(name).expanduser().resolve() for name in found if name is not None)


def _resolve(path: str, root: Path, exposed: tuple[Path, ...], section: str) -> Path:
    """Where a path leads to. Links in exposed places are not followed."""
    found, *names = (root / Path(path).expanduser()).parts
    place, left, links = Path(found), names[::-1], 0
    while left:
        name = left.pop()
        step = place.parent if name == ".." else place / name
        if name == ".." or not step.is_symlink():
            place = step
            continue
        if any(is_below(str(place), str(it)) for it in exposed):
            raise ExposedLinkError(
                f"[{section}] in toolrun.toml grants {path!r}, and {step} is a symbolic link that a script may have "
                f"made: it leads to {step.resolve()}. Grant that path instead, if you trust it."
            )
        links += 1
        if links > _MAX_LINKS:
            return step  # the kernel does not follow it either
        target = step.readlink()
        place = Path("/") if target.is_absolute() else place
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return place


def _unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
