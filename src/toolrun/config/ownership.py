"""Whether a file that toolrun found by itself is the user's own.

A configuration starts commands. One that somebody else leaves in a parent folder would start them for whoever works
below that folder, with their rights; git had the same (CVE-2022-24765). So what was found, and not named, must belong
to the user or to root, and neither it nor a folder on the way to it may be one that others can write to.

Knows owners and modes; access control lists are not looked at. On Windows nothing is checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from toolrun.errors import ConfigError

PROJECT_FOLDER: Final = ".toolrun"
"""Beside a configuration: what toolrun remembers of the project."""
SAFE_DIRECTORY: Final = "TOOLRUN_SAFE_DIRECTORY"
"""The variable with directories in which everything is trusted, `:` between them; `*` stands for all."""
_ROOT: Final = 0
_MAX_LINKS: Final = 40
"""As many as Linux follows."""


class PathRole(Enum):
    """How far a file or folder is from what was found, and so how much is asked of it."""

    ENTRY = auto()
    """The file, or a link to it."""
    FOLDER = auto()
    """A folder with what toolrun found. With the sticky bit, others cannot replace what is in it."""
    TOOL_FOLDER = auto()
    """The folder of a file with tools. Others must not add files either: Python takes bytecode from beside a file."""
    ABOVE = auto()
    """A folder further up, which nobody may be able to replace everything in."""


class ControlledBy(Enum):
    """Why somebody else decides what is in a file."""

    OWNER = auto()
    GROUP = auto()
    EVERYBODY = auto()


@dataclass(frozen=True, slots=True)
class User:
    """Whose process this is, and whom and what this user trusts."""

    uid: int
    trusted: frozenset[int]
    """The users whose files are as good as one's own."""
    is_private_group: Callable[[int], bool]
    """Whether a group has no members but those users."""
    safe_directories: tuple[str, ...] = ()

    def is_safe(self, path: Path) -> bool:
        return any(it == "*" or path.is_relative_to(os.path.realpath(it)) for it in self.safe_directories)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a file that was found, or with a folder on the way to it."""

    place: Path
    controlled_by: ControlledBy
    status: os.stat_result
    link: Path
    """The file on whose way it is: the one that was found, or what a link there leads to."""

    def safe_directory(self, path: Path, root: Path) -> Path:
        """What has to be trusted, so that the file that was found is used in spite of this."""
        return root if self.link == path else Path(os.path.realpath(self.link.parent))


def judge(status: os.stat_result, role: PathRole, user: User) -> ControlledBy | None:
    """How somebody else decides what is there; None if nobody does. Pure."""
    mode = status.st_mode
    if role is not PathRole.ABOVE and status.st_uid not in user.trusted:
        return ControlledBy.OWNER
    is_kept = mode & stat.S_ISVTX and role in (PathRole.FOLDER, PathRole.ABOVE)
    if stat.S_ISLNK(mode) or is_kept:
        return None
    if mode & stat.S_IWOTH:
        return ControlledBy.EVERYBODY
    if mode & stat.S_IWGRP and role is not PathRole.ABOVE and not user.is_private_group(status.st_gid):
        return ControlledBy.GROUP
    return None


def current_user(environ: Mapping[str, str]) -> User | None:
    """None on systems where files have no owners. Root trusts the user who called sudo, as in git."""
    if not hasattr(os, "geteuid"):
        return None
    uid = os.geteuid()
    trusted = {uid, _ROOT}
    sudo = environ.get("SUDO_UID", "")
    if uid == _ROOT and sudo.isascii() and sudo.isdecimal():
        trusted.add(int(sudo))
    safe = tuple(str(Path(it).expanduser()) for it in environ.get(SAFE_DIRECTORY, "").split(os.pathsep) if it)
    return User(uid, frozenset(trusted), lambda gid: _is_private_group(gid, trusted), safe)


def find_fault(path: Path, user: User, root: Path | None = None) -> Fault | None:
    """Why a file that was found is not the user's own. `root`: it is a file with tools, found from that folder."""
    for link in _chain(path):
        if user.is_safe(Path(os.path.realpath(link.parent), link.name)):
            continue
        for place, role in _places(link, root):
            try:
                status = place.stat() if role is not PathRole.ENTRY else place.lstat()
            except OSError:
                continue  # whoever reads the file says why it cannot be read
            controlled_by = judge(status, role, user)
            if controlled_by is not None:
                return Fault(place, controlled_by, status, link)
    return None


def check_found(path: Path, environ: Mapping[str, str]) -> None:
    """Raises ConfigError, with all ways out, for a configuration that was found and is not the user's own."""
    user = current_user(environ)
    fault = None if user is None else find_fault(path, user) or _find_planted_memory(path.parent, user, environ)
    if user is None or fault is None:
        return
    is_memory = fault.place.name == PROJECT_FOLDER
    remedies = [
        f"name it: --config {_quoted(path)}",
        f"trust its folder: {_trust(fault.safe_directory(path, path.parent), environ)}",
        f"do without what is in it: rm -r {_quoted(fault.place)}"
        if is_memory
        else f"make it yours alone: {_mend(fault, user)}",
    ]
    listed = "".join(f"\n- {remedy}" for remedy in remedies)
    raise ConfigError(
        f"{path} is not used: {_words(fault, path, user)}. Nobody named this file, toolrun found it, and it could run "
        f"what others want. If you trust it, do one of these:{listed}"
    )


def _find_planted_memory(root: Path, user: User, environ: Mapping[str, str]) -> Fault | None:
    """What is wrong with the folder in which toolrun remembers what was agreed to.

    Where others can add files, as in /tmp, somebody else may have made it, with answers in it that nobody has given.
    """
    memory = root / PROJECT_FOLDER
    is_there = os.path.lexists(memory)
    return find_fault(memory, user) if is_there and others_may_add(root, environ) else None


def refusal(path: Path, root: Path, config: Path | None, environ: Mapping[str, str]) -> str:
    """Why a file with tools is not loaded of a configuration that was found; empty if it is the user's own."""
    user = current_user(environ)
    fault = None if user is None else find_fault(path, user, root)
    if user is None or fault is None:
        return ""
    folder = root if path.is_relative_to(root) else path.parent
    ways = [_mend(fault, user), _trust(fault.safe_directory(path, folder), environ)]
    if config is not None:
        ways.append(f"name the configuration: --config {_quoted(config)}")
    return f"is not loaded: {_words(fault, path, user)}. If you trust it: {'; or '.join(ways)}"


def others_may_add(folder: Path, environ: Mapping[str, str]) -> bool:
    """Whether somebody else can put files into a folder, such as /tmp."""
    user = current_user(environ)
    if user is None or user.is_safe(Path(os.path.realpath(folder))):
        return False
    return judge(folder.stat(), PathRole.TOOL_FOLDER, user) is not None


def _chain(path: Path) -> Iterator[Path]:
    """The path; if it is a link, also what it leads to, link by link."""
    for _ in range(_MAX_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.realpath(path.parent)) / path.readlink()


def _places(path: Path, root: Path | None) -> Iterator[tuple[Path, PathRole]]:
    """A file or link, the folders that it is in, and what is above them."""
    yield path, PathRole.ENTRY
    folders = [path.parent]
    if root is not None and path.is_relative_to(root):
        folders += [it for it in path.parent.parents if it.is_relative_to(root)]
    for folder in folders:
        if folder.is_symlink():
            yield folder, PathRole.ENTRY
        yield folder, PathRole.FOLDER if root is None or folder != path.parent else PathRole.TOOL_FOLDER
    for folder in folders:
        for above in Path(os.path.realpath(folder)).parents:
            yield above, PathRole.ABOVE


def _is_private_group(gid: int, uids: set[int]) -> bool:
    """Whether the group is the one that a system makes for each user: of the same name, and without further members.

    In containers, users often have numbers and no names.
    """
    import grp
    import pwd

    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid in uids
    for uid in uids:
        try:
            owner = pwd.getpwuid(uid)
        except KeyError:
            continue
        if owner.pw_gid == gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}:
            return True
    return False


def _words(fault: Fault, path: Path, user: User) -> str:
    mode = fault.status.st_mode
    kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    what = "it" if fault.place == path else f"the {kind} {fault.place}"
    if fault.controlled_by is ControlledBy.OWNER:
        return f"{what} belongs to {_user(fault.status.st_uid)}, and you are {_user(user.uid)}"
    who = "everybody" if fault.controlled_by is ControlledBy.EVERYBODY else f"the group {_group(fault.status.st_gid)}"
    return f"{who} may write to {what}"


def _mend(fault: Fault, user: User) -> str:
    """The command that takes it from others."""
    place = _quoted(fault.place)
    sudo = "" if user.uid in (_ROOT, fault.status.st_uid) else "sudo "
    if fault.controlled_by is ControlledBy.OWNER:
        return f"{sudo}chown {'-h ' if stat.S_ISLNK(fault.status.st_mode) else ''}{user.uid} {place}"
    return f"{sudo}chmod {'o' if fault.controlled_by is ControlledBy.EVERYBODY else 'g'}-w {place}"


def _trust(folder: Path, environ: Mapping[str, str]) -> str:
    """The command that has a folder trusted, beside those that are already."""
    known = environ.get(SAFE_DIRECTORY, "")
    return f"export {SAFE_DIRECTORY}={_quoted(f'{known}{os.pathsep}{folder}' if known else folder)}"


def _user(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"with gid {gid}"


def _quoted(path: Path | str) -> str:
    import shlex

    return shlex.quote(str(path))
