"""One worker of a pool: the calls that run in it, and what its messages mean for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
from typing import Final, Protocol

from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError, WorkerLostError
from toolrun.json import JSON, loads
from toolrun.logger import Indented, get_logger
from toolrun.processes.engine import Engine, Exit, ProcessSpec, Worker, WorkerInfo, WorkerStatus
from toolrun.processes.framing import InvalidLine, LineFramer
from toolrun.scripts.pool_state import PoolLimits, PoolState, State, WorkerRecord
from toolrun.scripts.request import Request
from toolrun.scripts.wire import (
    MAX_LINE,
    Answer,
    Message,
    Progressed,
    Raised,
    Ready,
    decode,
    encode_cancel,
    encode_request,
)
from toolrun.tools.context import Progress

logger = get_logger("toolrun.worker")

_NUMBERS: Final = itertools.count(1)
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_STATUS_WORDS: Final = {State.STARTING: "starting", State.DRAINING: "draining", State.ENDED: "ending"}


class Owner(Protocol):
    """The pool, as a worker sees it."""

    def worker_loaded(self, worker: PooledWorker) -> None: ...

    def worker_failed(self, worker: PooledWorker) -> None:
        """It is about to be killed. Its calls have not been answered yet."""

    def worker_ended(self, worker: PooledWorker, lost: WorkerLostError) -> None:
        """It has died. Its calls have their answers already."""

    def call_answered(self, worker: PooledWorker) -> None: ...

    def call_lost(self, worker: PooledWorker) -> None: ...

    def call_given_up(self, worker: PooledWorker) -> None: ...


class PooledWorker(WorkerRecord):
    """Listens to a worker."""

    def __init__(self, name: str, owner: Owner, now: float) -> None:
        super().__init__(now)
        self.name = name
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.info: dict[str, JSON] = {}
        self._owner = owner
        self._worker: Worker | None = None
        self._lines = LineFramer(MAX_LINE)
        self._running: dict[int, Request] = {}

    def start(self, engine: Engine, spec: ProcessSpec) -> None:
        """Raises OSError if it cannot be started."""
        self._worker = engine.start(spec, self)

    def send(self, request: Request) -> None:
        """The call gets this worker, whose load it is part of already."""
        assert self._worker is not None
        request.number = number = next(_NUMBERS)
        try:
            data = encode_request(number, request.function, request.kwargs, request.config, request.secrets)
        except TypeError as error:
            self._owner.call_lost(self)
            failure = ProtocolError(f"The arguments cannot be sent: {error}", side_effects=SideEffects.NOT_STARTED)
            request.resolve(None, failure)
            return
        request.worker = self
        if request.call is not None:
            request.call.phase = ""  # from here on the call may have had effects
        # A worker that is busy anyway need not be woken for each request.
        is_busy = bool(self._running)
        self._running[number] = request
        self._worker.send(data, coalesce=is_busy)

    def give_up(self, request: Request) -> None:
        """Nobody waits for this call any more, but it may go on in the worker."""
        if self._running.pop(request.number, None) is None:
            return
        if self._running and self._worker is not None:  # otherwise it is killed now
            self._worker.send(encode_cancel(request.number))
        self._owner.call_given_up(self)

    def kill(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    async def close(self, grace: float) -> None:
        if self._worker is not None:
            await self._worker.close(grace)

    def describe(self) -> WorkerInfo | None:
        """Where it runs and what it uses, once it was started."""
        return None if self._worker is None else self._worker.describe()

    def status(self) -> WorkerStatus:
        """For `toolrun workers`."""
        state = _STATUS_WORDS.get(self.state) or ("busy" if self.load else "ready")
        return WorkerStatus(state, self.calls, self.load)

    def received(self, data: bytes) -> None:
        if not self._running and self.state is State.ENDED:
            return  # its last words
        for line in self._lines.feed(data):
            message = line if isinstance(line, InvalidLine) else decode(line)
            if type(message) is Answer:
                self._answered(message)
            else:
                self._handle(message)

    def _handle(self, message: Message) -> None:
        match message:
            case Progressed():
                self._progress(message)
            case Raised():
                if (request := self._running.get(message.id)) is not None:
                    request.raised = message.classes
            case Ready():
                self._loaded(message)
            case InvalidLine():
                self._distrust(message)

    def _answered(self, answer: Answer) -> None:
        request = self._running.pop(answer.id, None)
        if request is None:  # of a call that was given up, or never made
            logger.debug("%s: an answer to no call (%d)", self.name, answer.id)
            return
        self._owner.call_answered(self)
        request.resolve(answer.result, None if answer.error is None else request.failure(answer.error))

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

    def _loaded(self, message: Ready) -> None:
        if self.ready.done():
            return
        error = message.info.get("error")
        if isinstance(error, str):
            self._fail_start(
                UnavailableError(f"'{self.name}' cannot be loaded: {error}", side_effects=SideEffects.NOT_STARTED)
            )
            return
        self.info = message.info
        self._owner.worker_loaded(self)
        self.ready.set_result(None)

    def _distrust(self, invalid: InvalidLine) -> None:
        """Nothing of a tool's can reach the protocol by accident, so whoever wrote this is not to be trusted."""
        logger.warning("%s: its worker wrote %s: %r", self.name, invalid.reason, invalid.excerpt)
        message = f"The worker of '{self.name}' wrote {invalid.reason} instead of an answer."
        self._owner.worker_failed(self)  # first: whoever waits must not be sent to a worker that is being killed
        self._fail_start(ProtocolError(message, side_effects=SideEffects.NOT_STARTED))
        self._fail(ProtocolError(message))
        self.kill()

    def logged(self, line: str) -> None:
        level, message = logging.INFO, line
        below: object = ""
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                data = loads(line)
                if isinstance(data, dict) and isinstance(data.get("message"), str):
                    level = _LEVELS.get(str(data.get("level")).lower(), logging.INFO)
                    fields = data.get("fields")
                    more = fields.items() if isinstance(fields, dict) else ()
                    message = " ".join([data["message"], *(f"{key}={value}" for key, value in more)])
                    below = data.get("traceback")
        traceback = Indented(below if isinstance(below, str) else "")
        logger.log(level, "%s: %s%s", self.name, message, traceback, extra={"tool": self.name})

    def ended(self, exit: Exit) -> None:
        lost = worker_lost(self.name, exit, SideEffects.UNKNOWN)
        self._owner.worker_failed(self)
        self._fail_start(worker_lost(self.name, exit, SideEffects.NOT_STARTED))
        self._fail(lost)
        self._owner.worker_ended(self, lost)

    def _fail_start(self, failure: CallError) -> None:
        if not self.ready.done():
            self.ready.set_exception(failure)
            self.ready.exception()  # nobody may be waiting for it any more

    def _fail(self, failure: ProtocolError | WorkerLostError) -> None:
        while self._running:
            _, request = self._running.popitem()
            self._owner.call_lost(self)
            request.resolve(None, failure)


def worker_lost(name: str, exit: Exit, side_effects: SideEffects) -> WorkerLostError:
    """What to say of a worker that died."""
    how = exit.describe()
    if exit.code == -signal.SIGKILL:
        how += " (out of memory, or somebody killed it)"
    last = f"Its last words:\n{exit.tail}" if exit.tail else ""
    return WorkerLostError(f"The worker of '{name}' {how}.", side_effects=side_effects, detail=last)


class NoPool:
    """The owner of a worker that gets no calls: it is started to say what is in its script."""

    def __init__(self) -> None:
        self._state: PoolState[PooledWorker, None] = PoolState(PoolLimits())

    def worker_loaded(self, worker: PooledWorker) -> None:
        self._state.loaded(worker)

    def worker_failed(self, worker: PooledWorker) -> None:
        self._state.failed(worker)

    def worker_ended(self, worker: PooledWorker, lost: WorkerLostError) -> None: ...

    def call_answered(self, worker: PooledWorker) -> None: ...

    def call_lost(self, worker: PooledWorker) -> None: ...

    def call_given_up(self, worker: PooledWorker) -> None: ...
