"""One worker as the pool sees it: its state, the calls that run in it, and what its messages mean for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from enum import Enum
from typing import Final, Protocol

from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError, WorkerLostError
from toolrun.json import JSON, loads
from toolrun.processes.engine import Exit, Worker
from toolrun.scripts.request import Request
from toolrun.scripts.wire import Answer, Lines, Message, Progressed, Raised, Ready, Rubbish, decode
from toolrun.tools.context import Progress

logger = logging.getLogger("toolrun.worker")

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class State(Enum):
    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"
    """Gets no new calls, and ends when its last one has."""
    ENDED = "ended"
    """Gets nothing any more, and is gone or about to go."""


class Owner(Protocol):
    """Whoever gives a member its calls."""

    def call_ended(self, member: Member, *, answered: bool) -> None:
        """A call has left its place, with or without the worker's answer."""

    def worker_ended(self, member: Member, lost: WorkerLostError) -> None:
        """The worker has died. Its calls have their answers already."""


class Member:
    """Listens to a worker."""

    def __init__(self, name: str, owner: Owner | None, now: float) -> None:
        self.name = name
        self.worker: Worker | None = None
        self.state = State.STARTING
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.info: dict[str, JSON] = {}
        self.load = 0
        """Calls that have a place here."""
        self.calls = 0
        self.born = self.last_used = now
        self.must_be_killed = False
        """A call that was given up may still run in it."""
        self._owner = owner
        self._lines = Lines()
        self._running: dict[int, Request] = {}

    def is_free(self, concurrency: int) -> bool:
        return self.state is State.READY and self.load < concurrency

    def begin(self, request: Request, number: int, data: bytes) -> None:
        assert self.worker is not None
        # A worker that is busy anyway need not be woken for each request.
        at_once = not self._running
        self._running[number] = request
        request.sent(self, number)
        self.worker.send(data, at_once=at_once)

    def give_up(self, request: Request) -> None:
        """Nobody waits for this call any more, but it may go on in the worker."""
        if self._running.pop(request.number, None) is not None:
            self.must_be_killed = True
            if self.state is State.READY:
                self.state = State.RETIRING
            self._call_ended(answered=False)

    def received(self, data: bytes) -> None:
        if self.state is State.ENDED and not self._running:
            return  # its last words
        for line in self._lines.feed(data):
            message = line if isinstance(line, Rubbish) else decode(line)
            if type(message) is Answer:
                self._answer(message)
            else:
                self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case Progressed():
                self._progress(message)
            case Raised():
                if (request := self._running.get(message.id)) is not None:
                    request.raised = message.classes
            case Ready():
                self._be_ready(message)
            case Rubbish():
                self._rubbish(message)

    def _answer(self, answer: Answer) -> None:
        request = self._running.pop(answer.id, None)
        if request is None:  # of a call that was given up, or never made
            logger.debug("%s: an answer to no call (%d)", self.name, answer.id)
            return
        self._call_ended(answered=True)
        request.answered(answer.result, answer.error)

    def _call_ended(self, *, answered: bool) -> None:
        self.load -= 1
        if self._owner is not None:
            self._owner.call_ended(self, answered=answered)

    def _progress(self, message: Progressed) -> None:
        request = self._running.get(message.id)
        if request is None or request.call is None or request.call.on_progress is None:
            return
        data = message.progress
        done, total = data.get("progress"), data.get("total")
        if isinstance(done, int | float):
            with contextlib.suppress(Exception):  # the listener's own failure is not the call's
                request.call.on_progress(
                    Progress(done, total if isinstance(total, int | float) else None, str(data.get("message") or ""))
                )

    def _be_ready(self, message: Ready) -> None:
        if self.ready.done():
            return
        error = message.info.get("error")
        if isinstance(error, str):
            self._fail_start(
                UnavailableError(f"'{self.name}' cannot be loaded: {error}", side_effects=SideEffects.NOT_STARTED)
            )
            return
        self.info = message.info
        self.state = State.READY
        self.ready.set_result(None)

    def _rubbish(self, rubbish: Rubbish) -> None:
        """Nothing of a tool's can reach the protocol by accident, so whoever wrote this is not to be trusted."""
        logger.warning("%s: its worker wrote %s: %r", self.name, rubbish.reason, rubbish.excerpt)
        message = f"The worker of '{self.name}' wrote {rubbish.reason} instead of an answer."
        self.state = State.ENDED  # first: whoever waits must not be sent to a worker that is being killed
        self._fail_start(ProtocolError(message, side_effects=SideEffects.NOT_STARTED))
        self._fail(ProtocolError(message))
        if self.worker is not None:
            self.worker.kill()

    def logged(self, line: str) -> None:
        level, message = logging.INFO, line
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                data = loads(line)
                if isinstance(data, dict) and isinstance(data.get("message"), str):
                    level = _LEVELS.get(str(data.get("level")).lower(), logging.INFO)
                    fields = data.get("fields")
                    more = fields.items() if isinstance(fields, dict) else ()
                    message = " ".join([data["message"], *(f"{key}={value}" for key, value in more)])
        logger.log(level, "%s: %s", self.name, message, extra={"tool": self.name})

    def ended(self, exit: Exit) -> None:
        lost = worker_lost(self.name, exit, SideEffects.UNKNOWN)
        self.state = State.ENDED
        self._fail_start(worker_lost(self.name, exit, SideEffects.NOT_STARTED))
        self._fail(lost)
        if self._owner is not None:
            self._owner.worker_ended(self, lost)

    def _fail_start(self, failure: CallError) -> None:
        if not self.ready.done():
            self.ready.set_exception(failure)
            self.ready.exception()  # nobody may be waiting for it any more

    def _fail(self, failure: ProtocolError | WorkerLostError) -> None:
        while self._running:
            _, request = self._running.popitem()
            self._call_ended(answered=False)
            request.end((None, failure))


def worker_lost(name: str, exit: Exit, side_effects: SideEffects) -> WorkerLostError:
    """What to say of a worker that died."""
    how = "died"
    if exit.code is not None and exit.code < 0:
        with contextlib.suppress(ValueError):
            how = f"was killed by {signal.Signals(-exit.code).name}"
        if exit.code == -signal.SIGKILL:
            how += " (out of memory, or somebody killed it)"
    elif exit.code is not None:
        how = f"ended with exit code {exit.code}"
    last = f"Its last words:\n{exit.tail}" if exit.tail else ""
    return WorkerLostError(f"The worker of '{name}' {how}.", side_effects=side_effects, detail=last)
