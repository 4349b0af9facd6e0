"""One worker of a pool: the calls that run in it, and what its messages mean for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
from functools import partial
from typing import Final, Protocol
from weakref import ReferenceType, ref

from toolrun.errors import CallError, ProtocolError, SideEffects, UnavailableError, WorkerLostError
from toolrun.json import JSON, loads
from toolrun.logger import Indented, clean, get_logger
from toolrun.processes.engine import Confinement, Engine, Exit, ProcessSpec, Worker, WorkerInfo, WorkerStatus
from toolrun.processes.framing import LARGE, InvalidLine, LargeLine, LineFramer
from toolrun.result import Large
from toolrun.scripts.pool_state import PoolLimits, PoolState, WorkerRecord, WorkerState
from toolrun.scripts.request import Request
from toolrun.scripts.wire import (
    MAX_LINE,
    Answer,
    Message,
    Progressed,
    Raised,
    Ready,
    answered_call,
    decode,
    decode_large,
    encode_cancel,
    encode_request,
)
from toolrun.tools.context import Call, Progress

logger = get_logger("toolrun.worker")

_ID_BITS: Final = 59
"""Of the number of a worker's first call: it and all that follow have at most 18 digits, as the wire demands."""
_MAX_GIVEN_UP: Final = 1000
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_STATUS_WORDS: Final = {WorkerState.STARTING: "starting", WorkerState.DRAINING: "draining", WorkerState.ENDED: "ending"}


class Owner(Protocol):
    """The pool, as a worker sees it."""

    def worker_loaded(self, worker: PooledWorker) -> None: ...

    def worker_outdated(self, worker: PooledWorker) -> None:
        """It is to get no more calls. May be said more than once."""

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
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its process has ended."""
        self.info: dict[str, JSON] = {}
        self._owner = owner
        self._worker: Worker | None = None
        self._confinement: Confinement | None = None
        self._lines = LineFramer(MAX_LINE, large=LARGE)
        self._first = secrets.randbits(_ID_BITS)
        """The number of its first call. Nobody else knows it, so nobody else can answer in this worker's place."""
        self._next = self._first
        self._running: dict[int, Request] = {}
        self._place = ""
        self._given_up: dict[int, Request] = {}
        """Calls that nobody waits for, and whose outcome somebody wants to know all the same."""
        self._last: ReferenceType[Request] | None = None
        """The call that was answered last, as its lines may come a moment later than its answer."""

    def start(self, engine: Engine, spec: ProcessSpec) -> None:
        """Raises OSError if it cannot be started."""
        self._confinement = spec.confinement
        self._worker = engine.start(spec, self)

    def send(self, request: Request) -> bool:
        """The call gets this worker, whose load it is part of already. False if the worker cannot have got it."""
        assert self._worker is not None
        request.number = number = self._next
        self._next = number + 1
        call, key = request.call, ""
        if call is not None and (call.key is not None or call.record is not None or request.sends_key):
            key = call.idempotency_key  # otherwise nobody remembers it, and the worker makes one up
        trace = None if call is None or call.trace is None else call.trace.carrier
        try:
            data = encode_request(number, key, request.function, request.kwargs, request.config, request.secrets, trace)
        except TypeError as error:
            self._owner.call_lost(self)
            failure = ProtocolError(f"The arguments cannot be sent: {error}", side_effects=SideEffects.NOT_STARTED)
            request.resolve(None, failure)
            return True
        request.worker = self
        if call is not None:
            call.phase = ""  # from here on the call may have had effects
            call.gone = self.gone
            if call.record is not None:
                call.record.worker = self._place or self._find_place()
        # A worker that is busy anyway need not be woken for each request.
        is_busy = bool(self._running)
        self._running[number] = request
        return self._worker.send(data, coalesce=is_busy) or self._take_back(request)

    def _take_back(self, request: Request) -> bool:
        """The worker has ended, or reads no more, and the engine has not told so yet: the call goes to another one."""
        del self._running[request.number]
        if request.call is not None and not request.is_repeated:
            request.call.phase = "its worker had just ended"
        self._owner.worker_failed(self)
        self._owner.call_lost(self)
        self.kill()
        return False

    def give_up(self, request: Request) -> None:
        """Nobody waits for this call any more, but it may go on in the worker."""
        if self._running.pop(request.number, None) is None:
            return
        if self._running and self._worker is not None:  # otherwise it is killed now
            self._worker.send(encode_cancel(request.number))
            if request.on_late_end is not None and len(self._given_up) < _MAX_GIVEN_UP:
                self._given_up[request.number] = request
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

    def _find_place(self) -> str:
        """For the journal. Asked for once, as it takes some looks at the system."""
        info = self.describe()
        if info is not None:
            parts = (f"node {info.node}" if info.node else "", info.place, info.sandbox)
            self._place = ", ".join(filter(None, parts))
        return self._place

    def status(self) -> WorkerStatus:
        """For `toolrun workers`."""
        state = _STATUS_WORDS.get(self.state) or ("busy" if self.load else "ready")
        return WorkerStatus(state, self.calls, self.load, self._confinement.rung if self._confinement else "")

    def received(self, data: bytes) -> None:
        if not self._running and self.state is WorkerState.ENDED:
            return  # its last output
        for line in self._lines.feed(data):
            if isinstance(line, LargeLine):
                self._read_large(line)
                continue
            message = decode(line) if isinstance(line, bytes) else line
            if type(message) is Answer:
                self._answered(message)
            else:
                self._handle(message)

    def _read_large(self, line: LargeLine) -> None:
        """Find out in a thread what a line says. Others may overtake it: each names the call that it is about.

        If it is an answer, then its call has ended here and now, whatever becomes of the worker meanwhile.
        """
        number = answered_call(line)
        request = None if number is None else self._running.pop(number, None)
        if request is not None:
            self._owner.call_answered(self)
        elif number is not None:
            request = self._given_up.pop(number, None)
            if request is None:
                self._answered_nothing(number, line.head)
                return
        reading = asyncio.get_running_loop().run_in_executor(None, decode_large, line)
        reading.add_done_callback(partial(self._large_was_read, request))

    def _large_was_read(self, request: Request | None, reading: asyncio.Future[Message]) -> None:
        if reading.cancelled():
            return
        message = reading.result()
        if request is None:
            self._handle(message)
        elif type(message) is Answer and message.id == request.number:
            if message.error is None:
                request.resolve(Large(message.result), None)
            else:
                request.resolve(None, request.failure(message.error))
        else:
            invalid = message if type(message) is InvalidLine else InvalidLine("an answer with two ids", b"")
            request.resolve(None, ProtocolError(self._distrust(invalid)))

    def _handle(self, message: Message) -> None:
        match message:
            case Progressed():
                self._progress(message)
            case Raised():
                request = self._running.get(message.id) or self._given_up.get(message.id)
                if request is not None:
                    request.raised = message.classes
            case Ready():
                self._loaded(message)
            case Answer():
                self._answered(message)
            case InvalidLine():
                self._distrust(message)

    def _answered(self, answer: Answer) -> None:
        request = self._running.pop(answer.id, None)
        if request is not None:
            self._last = ref(request)
            self._owner.call_answered(self)
        else:
            request = self._given_up.pop(answer.id, None)
        if request is None:
            self._answered_nothing(answer.id)
            return
        request.resolve(answer.result, None if answer.error is None else request.failure(answer.error))

    def _answered_nothing(self, number: int, line: bytes = b"") -> None:
        """A call that was given up may be answered all the same, and a tool may answer twice."""
        if self._first <= number < self._next:
            logger.debug("%s: an answer to no call", self.name)
        elif self.state is not WorkerState.ENDED:  # the rest of what it wrote is no news
            self._distrust(InvalidLine("an answer to a call that it did not get", line))

    def _progress(self, message: Progressed) -> None:
        request = self._running.get(message.id)
        if request is None or request.call is None:
            return
        data = message.progress
        done, total = data.get("progress"), data.get("total")
        if isinstance(done, int | float):
            with contextlib.suppress(Exception):  # the listener's own failure is not the call's
                request.call.progressed(
                    Progress(done, total if isinstance(total, int | float) else None, str(data.get("message") or ""))
                )

    def _loaded(self, message: Ready) -> None:
        if self.ready.done():
            return
        sandbox, error = message.info.get("sandbox"), message.info.get("error")
        if isinstance(sandbox, str) and self._confinement is not None:
            self._confinement.on_failure()  # the next start finds out what the system allows by now
            reason = (
                f"The sandbox of '{self.name}' cannot be set up: {sandbox}. `toolrun doctor` shows what works here."
            )
            self._fail_start(UnavailableError(reason, side_effects=SideEffects.NOT_STARTED))
            return
        if isinstance(error, str):
            self._fail_start(
                UnavailableError(f"'{self.name}' cannot be loaded: {error}", side_effects=SideEffects.NOT_STARTED)
            )
            return
        self.info = message.info
        self._owner.worker_loaded(self)
        self.ready.set_result(None)

    def _distrust(self, invalid: InvalidLine) -> str:
        """Nothing of a tool's can reach the protocol by accident, so whoever wrote this is not to be trusted.

        Returns what the callers are told.
        """
        logger.warning("%s: its worker wrote %s: %r", self.name, invalid.reason, invalid.excerpt)
        message = f"The worker of '{self.name}' wrote {invalid.reason} instead of an answer."
        self._owner.worker_failed(self)  # first: whoever waits must not be sent to a worker that is being killed
        self._fail_start(ProtocolError(message, side_effects=SideEffects.NOT_STARTED))
        self._fail(ProtocolError(message))
        self.kill()
        return message

    def logged(self, line: str) -> None:
        level, message = logging.INFO, line
        below: object = ""
        number: object = None
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                data = loads(line)
                if isinstance(data, dict) and isinstance(data.get("message"), str):
                    level = _LEVELS.get(str(data.get("level")).lower(), logging.INFO)
                    fields = data.get("fields")
                    more = fields.items() if isinstance(fields, dict) else ()
                    message = " ".join([data["message"], *(f"{key}={value}" for key, value in more)])
                    below, number = data.get("traceback"), data.get("call")
        traceback = Indented(below if isinstance(below, str) else "")
        call = self._caller(number)
        if call is not None:
            call.logged(logging.getLevelName(level).lower(), f"{clean(message)}{traceback}")
        info = None if self._worker is None else self._worker.describe()
        if info is None or not info.node:
            logger.log(level, "%s: %s%s", self.name, message, traceback, extra={"tool": self.name})
            return
        extra = {"tool": self.name, "node": info.node, "worker": info.place}
        logger.log(level, "%s (node %s, %s): %s%s", self.name, info.node, info.place, message, traceback, extra=extra)

    def _caller(self, number: object) -> Call | None:
        """The call that a line belongs to. One without a number belongs to the only call that runs."""
        last = None if self._last is None else self._last()
        if number is None:
            found = next(iter(self._running.values()), last) if len(self._running) < 2 else None
        elif last is not None and last.number == number:
            found = last
        else:
            found = self._running.get(number) if isinstance(number, int) else None
        return None if found is None else found.call

    def outdated(self) -> None:
        self._owner.worker_outdated(self)

    def ended(self, exit: Exit) -> None:
        lost = worker_lost(self.name, exit, SideEffects.UNKNOWN)
        self.is_lost = bool(exit.lost)
        self._owner.worker_failed(self)
        self._fail_start(worker_lost(self.name, exit, SideEffects.NOT_STARTED))
        self._fail(lost)
        self._owner.worker_ended(self, lost)
        if not self.gone.done():
            self.gone.set_result(None)

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
    last = f"Its last output:\n{exit.tail}" if exit.tail else ""
    return WorkerLostError(f"The worker of '{name}' {how}.", side_effects=side_effects, detail=last)


class NoPool:
    """The owner of a worker that gets no calls: it is started to say what is in its script."""

    def __init__(self) -> None:
        self._state: PoolState[PooledWorker, None] = PoolState(PoolLimits())

    def worker_loaded(self, worker: PooledWorker) -> None:
        self._state.loaded(worker)

    def worker_failed(self, worker: PooledWorker) -> None:
        self._state.failed(worker)

    def worker_outdated(self, worker: PooledWorker) -> None: ...

    def worker_ended(self, worker: PooledWorker, lost: WorkerLostError) -> None: ...

    def call_answered(self, worker: PooledWorker) -> None: ...

    def call_lost(self, worker: PooledWorker) -> None: ...

    def call_given_up(self, worker: PooledWorker) -> None: ...
