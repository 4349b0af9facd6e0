"""Loads the script and runs its functions one at a time; `concurrency.py` runs many. The contract is in `__main__.py`.

Imports as little as possible: the first answer is due within twice the time that Python itself needs to start.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # importing `signal` takes 4 ms, for its enums
import atexit
import os
import sys
from _contextvars import ContextVar
from _thread import allocate_lock

from . import codec, script
from .reply import failure, frames_of, refusal_of, success, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, NoReturn

_SMALL, _LARGE = 1 << 16, 1 << 20
_MAX_TRACEBACK = 4000


class InvalidRequestError(Exception):
    raised = ("toolrun.InvalidRequest",)


class UnknownFunctionError(Exception):
    raised = ("toolrun.UnknownFunction",)


class WorkerCall:
    """A request in progress."""

    __slots__ = ("config", "function", "id", "is_open", "key", "kwargs", "secrets", "trace")

    def __init__(self, request: dict[str, Any]) -> None:
        self.id: int = request["id"]
        self.key: str = request.get("key") or os.urandom(16).hex()  # of a host that sends none
        self.function = request.get("function")
        self.kwargs: dict[str, Any] = request.get("kwargs") or {}
        self.config: dict[str, Any] = request.get("config") or {}
        self.secrets: dict[str, Any] = request.get("secrets") or {}
        self.trace: dict[str, str] = request.get("trace") or {}
        self.is_open = True
        """Until its answer is posted; the host has forgotten a call that it has the answer to."""


current: ContextVar[WorkerCall] = ContextVar("call")
"""The call of this task or thread, where calls overlap."""
serial_call: WorkerCall | None = None
"""The call that runs, where calls do not overlap: threads that a tool starts do not inherit a context."""
port: Port | None = None


def running_call() -> WorkerCall | None:
    """For toolrun_sdk."""
    return serial_call or current.get(None)


def report_progress(progress: object, total: object, message: str) -> None:
    """For toolrun_sdk."""
    call = running_call()
    if call is not None and port is not None:
        data = codec.encode({"progress": progress, "total": total, "message": message})
        port.post(call, b'{"id":%d,"progress":%b}\n' % (call.id, data))
        port.flush()


def log(level: str, message: str, fields: dict[str, Any], call: WorkerCall | None = None, **more: str) -> None:
    """One record on standard error, in one write, so that records of several threads do not mix."""
    call = call or running_call()
    number = {} if call is None else {"call": call.id}
    line = memoryview(codec.encode({"level": level, "message": message, "fields": fields, **number, **more}) + b"\n")
    try:
        while line:
            line = line[os.write(2, line) :]
    except OSError:
        return  # nobody reads the log any more


class Port:
    """The protocol's two descriptors."""

    def __init__(self, requests: int, answers: int) -> None:
        self.requests = requests
        self._answers = answers
        self._process = os.getpid()
        self._parts: list[bytes] = []
        self._size = _SMALL
        self._lock = allocate_lock()
        self._pending: list[bytes] = []
        for descriptor in (requests, answers):
            os.set_blocking(descriptor, True)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a process that a tool forked: it must not answer as well."""
        if self.requests != -1:  # a forked process that forks again has closed them
            os.close(self.requests)
            os.close(self._answers)
        self.requests = self._answers = -1
        self._lock = allocate_lock()

    def lines(self) -> list[bytes]:
        """The lines that one read completes, perhaps none. Ends the process at the end of the input."""
        try:
            chunk = os.read(self.requests, self._size)
        except OSError:
            chunk = b""
        if not chunk:
            leave(0)
        self._size = _LARGE if len(chunk) >= _SMALL else _SMALL
        lines = chunk.split(b"\n")
        if self._parts and len(lines) > 1:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts = []
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        return lines

    def read_exactly(self, size: int) -> bytes:
        """The first bytes of the input. Ends the process if the input ends before."""
        data = b""
        while len(data) < size:
            chunk = os.read(self.requests, min(_LARGE, size - len(data)))
            if not chunk:
                leave(0)
            data += chunk
        return data

    def post(self, call: WorkerCall, data: bytes, *, last: bool = False) -> None:
        """Have `data` sent with the next flush, unless the call was answered before."""
        with self._lock:
            if call.is_open:
                call.is_open = not last
                self._pending.append(data)

    def flush(self) -> None:
        try:
            with self._lock:
                view = memoryview(b"".join(self._pending))
                self._pending.clear()
                while view:
                    view = view[os.write(self._answers, view) :]
        except OSError:  # the host is gone, or this process is one that a tool forked
            leave(0)

    def write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._pending.append(codec.encode(message) + b"\n")
        self.flush()

    @property
    def is_own(self) -> bool:
        return self._process == os.getpid()


def leave(code: int) -> NoReturn:
    """End the process now; threads and tasks may be running."""
    try:
        if port is not None and port.is_own:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.alarm(2)
            atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  handlers of the script; or this is not the main thread
        pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  the script may have replaced or closed it
            continue
    os._exit(code)


class ScriptWorker:
    """The functions of a script, and how to call them."""

    def __init__(self, port: Port, functions: dict[str, Callable[..., Any]]) -> None:
        self.port = port
        self.functions = functions
        self._bindings: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self._loop: Any = None

    def accept(self, line: bytes, cancel: Callable[[int], None]) -> WorkerCall | None:
        """The call that a line asks for. A line that is not a call is answered or logged here."""
        try:
            request = codec.decode(line)
        except (ValueError, RecursionError) as error:
            request, reason = _id_of(line), f"a request that cannot be read: {text_of(error)}"
        else:
            reason = _fault(request)
            if not reason:
                if request.get("cancel") is True:
                    cancel(request["id"])
                    return None
                call = WorkerCall(request)
                if call.function in self.functions:
                    return call
                self.refuse(call, UnknownFunctionError(f"there is no function '{call.function}' in the script"))
                return None
        if isinstance(request, dict) and type(request.get("id")) is int:
            self.refuse(WorkerCall({"id": request["id"]}), InvalidRequestError(reason))
        else:
            log("warning", f"the worker was sent {reason}", {"line": line[:100].decode("utf-8", "replace")})
        return None

    def refuse(self, call: WorkerCall, error: BaseException) -> None:
        self.port.post(call, failure(call, error), last=True)
        self.port.flush()

    def arguments(self, call: WorkerCall) -> dict[str, Any]:
        """The arguments as the types that the function's hints name. Raises InvalidArgumentsError."""
        name = str(call.function)
        bind = self._bindings.get(name)
        if bind is None:
            from . import describe

            bind = self._bindings[name] = describe.binding(describe.read_function(self.functions[name]))
        return bind(call.kwargs)

    def serve(self) -> NoReturn:
        """One call after the other."""
        is_first = True
        while True:
            for line in self.port.lines():
                call = self.accept(line, _ignore) if line else None
                if call is not None:
                    self._run(call)
                    if is_first:  # not earlier: importing orjson takes longer than the whole start
                        is_first = False
                        codec.use_orjson()

    def _run(self, call: WorkerCall) -> None:
        global serial_call
        serial_call = call
        caught: BaseException | None = None
        for name, value in call.trace.items():
            os.environ[name.upper()] = value
        try:
            result = self.functions[str(call.function)](**self.arguments(call))
            while hasattr(type(result), "__await__"):  # a coroutine may return one that it has not awaited
                result = self._complete(result)
            if may_be_stream(result):
                result = self._collected(result)
            data = success(call, result)
        except BaseException as error:  # noqa: BLE001  whatever a tool raises is an answer, SystemExit too
            data, caught = failure(call, error), error
        serial_call = None
        for name in call.trace:
            os.environ.pop(name.upper(), None)
        if caught is not None:
            log_traceback(call, caught)  # before the answer, with which the host's record of the call ends
        self.port.post(call, data, last=True)
        self.port.flush()

    def _collected(self, result: Any) -> Any:
        from . import stream

        result = stream.collect_blocking(result)
        return self._complete(result) if hasattr(type(result), "__await__") else result

    def _complete(self, awaitable: Awaitable[Any]) -> Any:
        from . import event_loop

        if self._loop is None or self._loop.is_closed():
            self._loop = event_loop.event_loop()
        return event_loop.complete(self._loop, awaitable)


def may_be_stream(result: object) -> bool:
    """Whether it is worth importing `stream` to have a closer look."""
    kind = type(result)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def _ignore(number: int) -> None:
    """A cancellation where calls do not overlap: the worker has answered the call before it reads on."""


def _id_of(line: bytes) -> dict[str, int] | None:
    """The id of a request that is not JSON, if it is where the host puts it."""
    start, _, rest = line[:40].partition(b":")
    number = rest.split(b",")[0].split(b"}")[0].strip()
    return {"id": int(number)} if start.replace(b" ", b"") == b'{"id"' and number.isdigit() else None


def _fault(request: Any) -> str:
    """What is wrong with a request."""
    if not isinstance(request, dict) or type(request.get("id")) is not int:
        return "a request without an id"
    if request.get("cancel") is True:
        return ""
    if not isinstance(request.get("function"), str):
        return "a request without a function"
    for part in ("kwargs", "config", "secrets"):
        if not isinstance(request.get(part) or {}, dict):
            return f"a request whose {part} are no object"
    return ""


def log_traceback(call: WorkerCall, error: BaseException) -> None:
    """Log where in the script it happened."""
    if hasattr(type(error), "raised"):
        return
    import traceback

    try:
        text = "".join(traceback.format_exception(type(error), error, frames_of(error))).rstrip()
    except Exception:  # noqa: BLE001  the exception's own __str__ or __repr__
        return
    log("debug", text_of(error), {"function": call.function}, call, traceback=text[-_MAX_TRACEBACK:])


def main(argv: list[str], requests: int, answers: int) -> None:
    """Serve one script until the input ends."""
    global port
    port = Port(requests, answers)
    # The host decides when its workers end. A handler, because SIG_IGN would be inherited by the tool's children.
    _signal.signal(_signal.SIGINT, lambda *_: None)
    stdout: Any = sys.stdout
    if stdout is not None:
        stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    path, limit, is_describing, size = _options(argv)
    try:
        loaded = script.load(path, None if size is None else port.read_exactly(size))
    except BaseException as error:  # noqa: BLE001  whatever the script does at import
        reason = f"{type(error).__name__}: {text_of(error)}{script.place(error, path)}{refusal_of(error)}"
        port.write({"ready": {"error": reason}})
        sys.excepthook(type(error), error.with_traceback(frames_of(error)), error.__traceback__)
        leave(1)
    ready: dict[str, Any] = {"pid": os.getpid(), "python": sys.version.split()[0], "sha256": loaded.sha256}
    if is_describing:
        from . import describe

        functions, warnings = describe.describe(loaded.functions)
        port.write({"ready": {**ready, "functions": functions, "skipped": loaded.skipped, "warnings": warnings}})
        leave(0)
    port.write({"ready": {**ready, "functions": list(loaded.functions)}})
    worker = ScriptWorker(port, loaded.functions)
    if limit > 1:
        from .concurrency import ConcurrentServer

        ConcurrentServer(worker, limit).serve()
    worker.serve()


def _options(argv: list[str]) -> tuple[str, int, bool, int | None]:
    limit, is_describing, size, paths = 1, False, None, []
    rest = iter(argv)
    for argument in rest:
        if argument == "--describe":
            is_describing = True
        elif argument == "--concurrency":
            limit = int(next(rest))
        elif argument == "--source":
            size = int(next(rest))
        else:
            paths.append(argument)
    (path,) = paths
    return path, limit, is_describing, size
