"""The process on a node that runs one worker, as on one machine, and speaks with its gateway over TLS.

Started by an actor of Ray (`actor.py`), which tells it on standard input whom to accept, and watches it: a line on
standard output says where it listens, and then a byte for each beat says that it lives. Knows nothing of Ray.

It ends, and its worker before it, as soon as one of these comes: the worker's own end; the gateway closes the
connection; nothing is heard of the gateway for the time of the lease; the actor ends. It serves one connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from toolrun.errors import CallError, ConfigError
from toolrun.json import JSON
from toolrun.processes.engine import Exit, ProcessSpec
from toolrun.processes.local import LocalEngine
from toolrun.processes.local_worker import LocalWorker
from toolrun.processes.ray.certificates import new_identity
from toolrun.processes.ray.frame import (
    FrameError,
    FrameReader,
    FrameType,
    decode_json,
    decode_numbers,
    encode,
    encode_data,
    encode_json,
    encode_numbers,
)
from toolrun.processes.ray.lease import BEAT, CHECK, Lease, now

Make: TypeAlias = Callable[[Mapping[str, JSON], Callable[[str], None]], Awaitable[ProcessSpec]]
"""Makes the process of a recipe. The second argument is told what is done meanwhile."""

_CONNECT: Final = 30.0
"""Seconds in which the gateway has to connect."""
_LAST_WORDS: Final = 0.5
"""Seconds that the last frame may take."""
_BUFFER: Final = 1 << 20
"""Bytes that wait for the network before the worker's output is not read any more."""
_PR_SET_PDEATHSIG: Final = 1


class Replica:
    """One worker and its gateway. Its process has one event loop."""

    def __init__(self, make: Make, lease: float) -> None:
        self._make = make
        self._duration = lease
        self._engine = LocalEngine()
        self._link: _Link | None = None
        self._lease: Lease | None = None
        self._spec: ProcessSpec | None = None
        self._worker: LocalWorker | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()
        """Set when nothing is left to do."""

    async def close(self) -> None:
        """End whatever runs."""
        for task in self._tasks:
            task.cancel()
        await self._engine.close()
        if self._link is not None:
            self._link.close()

    def accept(self, link: _Link) -> bool:
        """Whether this is the connection that the replica is for."""
        if self._link is not None:
            return False
        self._link = link
        self._lease = Lease(self._duration, now())
        self._keep(self._beat())
        return True

    def expect_gateway(self) -> None:
        """It must have connected by now."""
        if self._link is None:
            self.fence("no gateway connected")

    def fence(self, why: str) -> None:
        """Nothing may run here any more."""
        if self._worker is not None:
            self._worker.kill(f"killed by toolrun: {why}")
        self.over.set()

    async def _beat(self) -> None:
        assert self._lease is not None
        sent = 0.0
        while not self.over.is_set():
            moment = now()
            if self._lease.is_over(moment):
                self.fence("nothing was heard of its gateway")
                return
            if moment - sent >= BEAT:
                sent = moment
                worker = self._worker
                pid, memory = (0, 0) if worker is None else (worker.inner_pid, worker.describe().memory or 0)
                self._send(encode_numbers(FrameType.BEAT, self._lease.beat(moment), pid, memory))
                try:
                    os.write(1, b".")
                except BlockingIOError:  # the actor was stopped: this process is not
                    pass
                except OSError:
                    self.fence("its actor has ended")
            await asyncio.sleep(CHECK)

    def _send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    # What the gateway says.

    def handle(self, frame_type: FrameType, body: bytes) -> None:
        """Raises FrameError."""
        match frame_type:
            case FrameType.DATA:
                if self._worker is not None:
                    self._worker.send(body)
            case FrameType.ACKNOWLEDGE:
                assert self._lease is not None
                self._lease.acknowledge(decode_numbers(body)[0])
            case FrameType.RECIPE:
                self._keep(self._prepare(decode_json(body)))
            case FrameType.START:
                self._start()
            case FrameType.KILL:
                if self._worker is None:
                    self.over.set()
                else:
                    self._worker.kill()
            case FrameType.CLOSE:
                grace = decode_json(body).get("grace")
                if self._worker is None:
                    self.over.set()
                else:
                    self._keep(self._worker.close(grace if isinstance(grace, float) else 0.0))
            case _:
                raise FrameError(f"a gateway does not send {frame_type.name}")

    async def _prepare(self, recipe: Mapping[str, JSON]) -> None:
        try:
            self._spec = await self._make(recipe, lambda line: self._send(encode(FrameType.NOTE, line.encode())))
        except (CallError, ConfigError, OSError) as error:
            await self._end(
                encode_json(FrameType.REFUSED, {"message": str(error), "is_final": isinstance(error, CallError)})
            )
            return
        self._send(encode(FrameType.PREPARED))

    def _start(self) -> None:
        if self._spec is None or self._worker is not None:
            raise FrameError("a worker is started before it was prepared, or twice")
        try:
            self._worker = self._engine.start(self._spec, self)
        except OSError as error:
            self.ended(Exit(None, f"it cannot be started: {error}"))
            return
        sandbox = "" if self._spec.confinement is None else self._spec.confinement.rung
        self._send(encode_json(FrameType.STARTED, {"pid": self._worker.inner_pid, "sandbox": sandbox}))

    # What the worker says.

    def received(self, data: bytes) -> None:
        for frame in encode_data(data):
            self._send(frame)

    def logged(self, line: str) -> None:
        self._send(encode(FrameType.LOG, line.encode()))

    def outdated(self) -> None:
        self._send(encode(FrameType.OUTDATED))

    def ended(self, exit: Exit) -> None:
        self._keep(self._end(encode_json(FrameType.ENDED, {"code": exit.code, "tail": exit.tail})))

    async def _end(self, last: bytes) -> None:
        """Send the last frame, and give it a moment to arrive."""
        self._send(last)
        if self._link is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._link.gone.wait(), _LAST_WORDS)
        self.over.set()

    def pause(self, is_paused: bool) -> None:
        """The network takes no more for a while, or takes it again."""
        if self._worker is not None:
            self._worker.pause_reading(is_paused)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # nobody waits for a task here, but a gateway for what it should have said
            sys.stderr.write(f"the replica failed: {error!r}\n")
            self.fence("its replica failed")


class _Link(asyncio.Protocol):
    """The connection, as bytes. One that is not the first is refused."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._is_accepted = False
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(_BUFFER)
        _send_at_once(transport)
        self._is_accepted = self._replica.accept(self)
        if not self._is_accepted:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame_type, body in self._frames.feed(data):
                self._replica.handle(frame_type, body)
        except FrameError as error:
            sys.stderr.write(f"the connection is closed: {error}\n")
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set()
        if self._is_accepted:
            self._replica.fence("its gateway closed the connection")

    def pause_writing(self) -> None:
        self._replica.pause(True)

    def resume_writing(self) -> None:
        self._replica.pause(False)

    def send(self, frame: bytes) -> None:
        if self._transport is not None and not self.gone.is_set():
            self._transport.write(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _send_at_once(transport: asyncio.Transport) -> None:
    """Requests are small, and must not wait for more."""
    plain = transport.get_extra_info("socket")
    if plain is not None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _die_with_actor() -> None:
    """Have the kernel kill this process with the thread that started it, even while it is stopped."""
    if sys.platform == "linux":
        import ctypes

        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


async def _serve(make: Make) -> None:
    loop = asyncio.get_running_loop()
    settings = json.loads(await asyncio.to_thread(sys.stdin.buffer.readline))
    identity = new_identity()
    replica = Replica(make, float(settings["lease"]))
    context = identity.server_context(settings["certificate"])
    server = await loop.create_server(lambda: _Link(replica), settings["address"], 0, ssl=context)
    opened = {"port": server.sockets[0].getsockname()[1], "name": identity.name, "certificate": identity.certificate}
    os.write(1, json.dumps(opened).encode() + b"\n")
    os.set_blocking(1, False)
    loop.add_reader(0, lambda: replica.fence("its actor has ended"))  # nothing more is sent, so this is its end
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, replica.fence, "it was told to end")
    loop.call_later(_CONNECT, replica.expect_gateway)
    try:
        await replica.over.wait()
    finally:
        loop.remove_reader(0)
        server.close()
        await replica.close()


def serve(make: Make) -> None:
    """The main program of a replica."""
    _die_with_actor()
    asyncio.run(_serve(make))
