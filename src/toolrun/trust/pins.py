"""Whether the tools of servers are still the ones that were agreed to.

A tool is agreed to when a server of the project lists it for the first time. If it is another one later, the change is
remembered beside the pin until somebody accepts it, or the server takes it back:

    on_change   the tool is                                    a person is told by
    warn        used                                           a warning, once; `toolrun list` and `doctor`
    refuse      held: neither offered nor called               the same
    ask         held where a person can be asked, else used    a question, else the same

What cannot be written is remembered as long as the process runs, and `problem` says why. Blocking; may be used by
several threads.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from toolrun.config.model import TrustSettings
from toolrun.errors import PinError
from toolrun.hidden_characters import has_hidden, reveal
from toolrun.logger import Indented, get_logger
from toolrun.trust.pin_file import Pin, PinFile, Pinned
from toolrun.trust.pinned_definition import PinnedDefinition, changed_parts, readable_difference, short_difference

logger = get_logger("toolrun.trust")

_Work: TypeAlias = Callable[[Pinned], None]


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A tool that is not the one that was agreed to."""

    server: str
    tool: str
    before: PinnedDefinition
    after: PinnedDefinition
    is_held: bool
    """Whether it is neither offered nor called until it is accepted."""

    @property
    def parts(self) -> list[str]:
        return changed_parts(self.before, self.after)

    @property
    def difference(self) -> str:
        """A unified diff."""
        return readable_difference(self.before, self.after)

    @property
    def command(self) -> str:
        """What accepts it."""
        tools = [] if has_hidden(self.tool) else [self.tool]
        return shlex.join(["toolrun", "trust", self.server, *tools])

    @property
    def reason(self) -> str:
        """Why it is not called."""
        what = " and ".join(self.parts)
        return (
            f"the MCP server '{self.server}' changed its definition ({what}) since it was accepted. A person has to "
            f"review and accept the change: {self.command}"
        )


class Pins:
    """The pinned definitions of one project."""

    def __init__(self, root: Path, settings: TrustSettings, *, asks: bool = False) -> None:
        """`asks`: there is a person who will be asked about changes."""
        self._file = PinFile(root)
        self._is_holding = settings.on_change == "refuse" or (settings.on_change == "ask" and asks)
        self.limit = settings.max_description
        self.problem = ""
        """Why the pins cannot be read or written."""
        self._pinned: Pinned = {}
        """Replaced as a whole, so that a reader needs no lock."""
        self._listed: dict[str, Mapping[str, PinnedDefinition]] = {}
        """What each server has listed last."""
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        return self._file.path

    def load(self) -> Pinned:
        """What is in the file. Raises PinError."""
        self._pinned = self._file.read()
        return self._pinned

    def review(self, server: str, listed: Mapping[str, PinnedDefinition]) -> None:
        """Compare what a server lists with what was agreed to. Tools that are new are agreed to. Logs what is new."""
        with self._lock:
            self._listed[server] = listed
            self._review(server, listed)

    def refresh(self) -> None:
        """Take notice of what others have written: another process may have accepted a change."""
        with self._lock:
            for server, listed in self._listed.items():
                self._review(server, listed)

    def is_outdated(self) -> bool:
        """Whether `refresh` may find something."""
        return self._file.has_changed()

    def change_of(self, server: str, tool: str) -> DefinitionChange | None:
        """What is different about a tool, as of the last review."""
        pin = self._pinned.get(server, {}).get(tool)
        if pin is None or pin.changed is None:
            return None
        return DefinitionChange(server, tool, pin.definition, pin.changed, self._is_holding)

    def changes(self, servers: Collection[str] | None = None) -> list[DefinitionChange]:
        """All changes that nobody has accepted, of all servers or of these."""
        found = [
            self.change_of(server, tool)
            for server, tools in self._pinned.items()
            if servers is None or server in servers
            for tool in tools
        ]
        return [it for it in found if it is not None]

    def owners(self) -> dict[str, tuple[str, str]]:
        """The names without a prefix that are in use, and the server and tool that each belongs to."""
        return {pin.name: (server, tool) for server, tool, pin in _every(self._pinned) if pin.name}

    def establish(self, names: Mapping[str, tuple[str, str]]) -> None:
        """From now on these names belong to these tools, also in other processes."""
        with self._lock:
            self._change(lambda pinned: _establish(pinned, names))

    def accept(self, change: DefinitionChange, by: str) -> None:
        """Agree to what a tool has become: to what was looked at, and nothing later.

        Raises PinError, also if the tool has changed once more since.
        """
        server, tool = change.server, change.tool

        def work(pinned: Pinned) -> None:
            pin = pinned.get(server, {}).get(tool)
            now = None if pin is None else pin.changed or pin.definition
            if pin is None or now is None or now.hash != change.after.hash:
                raise PinError(f"'{reveal(tool)}' of '{server}' has changed again. Look at it once more: toolrun trust")
            if pin.changed is not None:
                pinned[server][tool] = replace(pin, definition=pin.changed, changed=None, at=_now(), by=by)

        with self._lock:
            self._pinned = self._file.change(work)

    def forget(self, server: str) -> int:
        """Drop all pins of a server, and return their number: what it lists next is agreed to. Raises PinError."""
        dropped: list[Pin] = []

        def work(pinned: Pinned) -> None:
            dropped.extend(pinned.pop(server, {}).values())

        with self._lock:
            self._pinned = self._file.change(work)
        return len(dropped)

    def _review(self, server: str, listed: Mapping[str, PinnedDefinition]) -> None:
        before = self._read().get(server, {})
        if _judge(before, listed):
            self._change(lambda pinned: pinned.setdefault(server, {}).update(_judge(pinned.get(server, {}), listed)))
        after = self._pinned.get(server, {})
        if before and (new := [tool for tool in after if tool not in before]):
            names = ", ".join(map(reveal, new))
            logger.info("MCP server '%s' has new tools, which are pinned as they are: %s", server, names)
        changes = [it for tool in listed if (it := self.change_of(server, tool)) is not None]
        self._tell(server, [it for it in changes if not _is_known(before.get(it.tool), it)])

    def _read(self) -> Pinned:
        """The file and, where it cannot be used, what is in memory."""
        try:
            pinned = self._file.read()
        except PinError:
            return self._pinned  # writing finds out whether that can be helped
        if self.problem:  # what could not be written
            pinned = _merged(pinned, self._pinned)
        self._pinned = pinned
        return pinned

    def _change(self, work: _Work) -> None:
        try:
            self._pinned, self.problem = self._file.change(work), ""
        except PinError as error:
            if not self.problem:
                logger.warning("the definitions of MCP tools cannot be remembered: %s", error, extra={"pins": True})
            self.problem = str(error)
            pinned = {server: dict(tools) for server, tools in self._pinned.items()}
            work(pinned)
            self._pinned = pinned

    def _tell(self, server: str, changes: list[DefinitionChange]) -> None:
        if not changes:
            return
        if all(it.parts == ["server"] for it in changes):
            tools = "its tool was" if len(changes) == 1 else f"its {len(changes)} tools were"
            what = f"is configured differently from when {tools} accepted"
            lines = [short_difference(changes[0].before, changes[0].after)]
        else:
            names = ", ".join(f"'{reveal(it.tool)}' ({', '.join(it.parts)})" for it in changes)
            what = f"changed tools since they were accepted: {names}"
            lines = [short_difference(it.before, it.after) for it in changes[:3]]
        use = "They are neither offered nor called until somebody accepts" if changes[0].is_held else "They stay in use"
        command = changes[0].command if len(changes) == 1 else shlex.join(["toolrun", "trust", server])
        text = "\n".join([*lines, f"{use}. 'toolrun trust' shows everything; {command} accepts it."])
        logger.warning("MCP server '%s' %s%s", server, what, Indented(text), extra={"server": server})


def _judge(pins: Mapping[str, Pin], listed: Mapping[str, PinnedDefinition]) -> dict[str, Pin]:
    """The pins that have to change."""
    news: dict[str, Pin] = {}
    for tool, definition in listed.items():
        pin = pins.get(tool)
        if pin is None:
            news[tool] = Pin(definition, _now())
        elif pin.definition.hash == definition.hash:
            if pin.changed is not None:
                news[tool] = replace(pin, changed=None)
        elif pin.changed is None or pin.changed.hash != definition.hash:
            news[tool] = replace(pin, changed=definition)
    return news


def _establish(pinned: Pinned, names: Mapping[str, tuple[str, str]]) -> None:
    for server, tool, pin in list(_every(pinned)):
        is_owner = pin.name and names.get(pin.name, (server, tool)) == (server, tool)
        if pin.name and not is_owner:
            pinned[server][tool] = replace(pin, name="")
    for name, (server, tool) in names.items():
        known = pinned.get(server, {}).get(tool)
        if known is not None and known.name != name:
            pinned[server][tool] = replace(known, name=name)


def _merged(file: Pinned, memory: Pinned) -> Pinned:
    """The pins of the file, with what could not be written to it."""
    merged = {server: dict(tools) for server, tools in file.items()}
    for server, tool, pin in _every(memory):
        known = file.get(server, {}).get(tool)
        if known is None or known.definition.hash == pin.definition.hash:
            merged.setdefault(server, {})[tool] = pin
    return merged


def _every(pinned: Pinned) -> Iterator[tuple[str, str, Pin]]:
    return ((server, tool, pin) for server, tools in pinned.items() for tool, pin in tools.items())


def _is_known(before: Pin | None, change: DefinitionChange) -> bool:
    return before is not None and before.changed is not None and before.changed.hash == change.after.hash


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
