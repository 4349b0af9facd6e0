"""Every exception that toolrun raises, and what each says about a call.

Definition, configuration and usage errors are raised to whoever made them. Call errors are raised by tools and sources
*inside* a call; the executor turns each into a `ToolResult` and never lets one out.

    ToolrunError
    ├── DefinitionError            a tool that cannot be registered
    ├── ConfigError                a configuration that cannot be used
    ├── UsageError                 toolrun called in a way that cannot work (e.g. blocking the event loop)
    │   └── MissingExtraError  a package is not installed that comes with an extra of toolrun; an ImportError too
    ├── JournalError               the record of calls cannot be opened, read or written
    ├── PinError                   the pinned definitions of tools cannot be read or written
    ├── SpeechError                sound that cannot be heard, words that cannot be spoken
    └── CallError                  ends a call; carries kind and side effects
        ├── ToolError              the tool says that it failed; its message is for the model
        ├── UnknownToolError       no tool of that name
        ├── InvalidArgumentsError  refused before the tool ran
        ├── CallTimeoutError       the deadline passed
        ├── UnavailableError       what the tool needs cannot be reached
        ├── OverloadedError        refused because of a limit
        ├── WorkerLostError        the process that ran the tool died
        ├── ProtocolError          the other side answered something that is no answer
        ├── InDoubtError           the call was made before, and nobody knows whether it acted
        └── NotApprovedError       a rule or a person says that the call may not be made
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class ErrorKind(StrEnum):
    """Why a call has no result."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    TOOL_ERROR = "tool_error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"
    WORKER_LOST = "worker_lost"
    PROTOCOL = "protocol"
    IN_DOUBT = "in_doubt"
    NOT_APPROVED = "not_approved"


class SideEffects(StrEnum):
    """What is known about the effects of a call that failed."""

    NOT_STARTED = "not_started"
    """The tool never ran, or could not reach what it acts on."""
    FAILED = "failed"
    """The tool ran and said itself that it failed."""
    UNKNOWN = "unknown"
    """The tool may have acted: it was given up while it ran, and may still act; or it raised what does not tell."""
    DONE = "done"
    """The tool has acted, and only its answer is missing."""


class ToolrunError(Exception):
    """The base of everything that toolrun raises on purpose."""


class DefinitionError(ToolrunError, ValueError):
    """A tool that cannot be registered: the message names the tool, what is wrong and what to do."""


class ConfigError(ToolrunError, ValueError):
    """A configuration that cannot be used: the message names the file, the key and what to do."""


class UsageError(ToolrunError, RuntimeError):
    """toolrun was called in a way that cannot work."""


class MissingExtraError(UsageError, ImportError):
    """A package is not installed: the message names it and the command that installs it."""


class JournalError(ToolrunError):
    """The record of calls cannot be used: the message says which file, why, and what to do."""


class PinError(ToolrunError):
    """The pinned definitions of tools cannot be read or written."""


class SpeechError(ToolrunError):
    """Speech in or out does not work: the message says what is missing and what to do."""


class CallError(ToolrunError):
    """Ends the running call with the given kind. Raised by tools and sources, caught by the executor alone."""

    kind: ClassVar[ErrorKind] = ErrorKind.TOOL_ERROR
    side_effects: SideEffects = SideEffects.FAILED
    answer: object = None
    """What the tool said all the same, as a `Content`: the answer to the call keeps it beside the error."""

    def __init__(self, message: str, *, side_effects: SideEffects | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        """Further lines for the model only, for instance the parameters that the tool takes."""
        if side_effects is not None:
            self.side_effects = side_effects


class ToolError(CallError):
    """Raise it in a tool to tell the model what went wrong, in your own words."""


class UnknownToolError(CallError):
    """There is no tool of that name."""

    kind = ErrorKind.UNKNOWN_TOOL
    side_effects = SideEffects.NOT_STARTED


class InvalidArgumentsError(CallError):
    """The arguments cannot be used. Raised before the tool acts."""

    kind = ErrorKind.INVALID_ARGUMENTS
    side_effects = SideEffects.NOT_STARTED
    problems: tuple[object, ...] = ()
    """Each thing that is wrong, as a `schema.Problem`, if that is known."""


class CallTimeoutError(CallError):
    """The call did not finish by its deadline."""

    kind = ErrorKind.TIMEOUT
    side_effects = SideEffects.UNKNOWN


class UnavailableError(CallError):
    """What the tool needs (a service, a server, a broker) cannot be reached."""

    kind = ErrorKind.UNAVAILABLE


class OverloadedError(CallError):
    """The call was refused because a limit is reached."""

    kind = ErrorKind.OVERLOADED
    side_effects = SideEffects.NOT_STARTED


class WorkerLostError(CallError):
    """The process that ran the tool died before it answered."""

    kind = ErrorKind.WORKER_LOST
    side_effects = SideEffects.UNKNOWN


class ProtocolError(CallError):
    """The other side of a pipe or connection answered something that is no answer."""

    kind = ErrorKind.PROTOCOL
    side_effects = SideEffects.UNKNOWN


class InDoubtError(CallError):
    """The same call was made before, and nobody knows whether it has acted, so it is not made again."""

    kind = ErrorKind.IN_DOUBT
    side_effects = SideEffects.UNKNOWN


class NotApprovedError(CallError):
    """A rule or a person says that the call may not be made, or nobody is there to say that it may."""

    kind = ErrorKind.NOT_APPROVED
    side_effects = SideEffects.NOT_STARTED
