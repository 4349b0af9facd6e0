"""One worker on a node, as its gateway sees it: a connection to its replica, and the watch over the lease.

Its end is told once, by `_end`, whichever of these comes first: the replica says that the worker has ended; Ray says
that the actor has, with all that it started; the lease is over. A connection that breaks is not an end: the replica may
be alive behind it, so until the lease is over the worker only gets no new calls.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from toolrun.errors import SideEffects, UnavailableError
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.processes.engine import Exit, Listener, Replaceable, WorkerInfo
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
from toolrun.processes.ray.lease import CHECK, Watch, now

logger = get_logger("toolrun.worker")

_BUFFER: Final = 1 << 17
"""Bytes that wait for the network before more are kept here, where an acknowledgement overtakes them."""


@dataclass(frozen=True, slots=True)
class ReplicaLocation:
    """Where a replica is."""

    replica: str
    """Its name in the cluster: a number, unique among those of this gateway."""
    node: str
    """The id of the node."""
    address: str
    port: int
    name: str
    """The name in its certificate."""
    certificate: str

    @property
    def shown(self) -> str:
        """The node, for people."""
        return f"{self.address} ({self.node[:8]})"


class NodeError(OSError):
    """A replica cannot be used, for a reason that another one may not have."""


class RayWorker(asyncio.Protocol):
    """Belongs to the event loop that connected it."""

    def __init__(self, location: ReplicaLocation, lease: float, on_silent: Callable[[RayWorker], None]) -> None:
        """`on_silent` is told once, when nothing is heard of the replica any more."""
        self._loop = asyncio.get_running_loop()
        self.location = location
        self._on_silent = on_silent
        self._on_gone: Callable[[RayWorker], None] = lambda worker: None
        self._born = now()
        self._watch = Watch(lease, self._born)
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._is_connected = False
        self._is_paused = False
        self._outgoing: deque[bytes] = deque()
        self._coalesced: list[bytes] = []
        self._listener: Listener | None = None
        self._prepared: asyncio.Future[None] = self._loop.create_future()
        self._on_note: Callable[[str], None] = lambda line: None
        self._gone = asyncio.Event()
        self._is_silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._pid = 0
        self._memory: int | None = None
        self._sandbox = ""

    async def prepare(self, recipe: JSON, on_note: Callable[[str], None]) -> None:
        """Have the replica make everything that the process needs. Raises UnavailableError, or NodeError."""
        self._on_note = on_note
        self._timer = self._loop.call_later(CHECK, self._check)
        self._write(encode_json(FrameType.RECIPE, recipe))
        try:
            await self._prepared
        except asyncio.CancelledError:
            self._end(Exit(None, ""))
            raise

    def start(self, listener: Listener, on_gone: Callable[[RayWorker], None]) -> None:
        """Start the process that was prepared. Raises OSError if the replica is gone."""
        if self._gone.is_set() or not self._is_connected:
            raise NodeError(f"its replica on {self.location.shown} has just ended")
        self._listener, self._on_gone = listener, on_gone
        self._write(encode(FrameType.START))

    # What the engine's users call.

    def send(self, data: bytes, *, coalesce: bool = False) -> bool:
        if self._gone.is_set() or not self._is_connected:
            return False
        if coalesce or self._coalesced:
            if not self._coalesced:
                self._loop.call_soon(self._send_coalesced)
            self._coalesced.append(data)
            return True
        self._send_data(data)
        return True

    def _send_coalesced(self) -> None:
        data, self._coalesced = b"".join(self._coalesced), []
        if self._is_connected:
            self._send_data(data)

    def _send_data(self, data: bytes) -> None:
        for frame in encode_data(data):
            if self._is_paused or self._outgoing:
                self._outgoing.append(frame)
            else:
                self._write(frame)

    def kill(self) -> None:
        self._write(encode(FrameType.KILL))

    async def close(self, grace: float) -> None:
        self._write(encode_json(FrameType.CLOSE, {"grace": grace}))
        if self._listener is None:
            self._end(Exit(None, ""))
        await self.wait()

    async def wait(self) -> None:
        await self._gone.wait()

    @property
    def is_silent(self) -> bool:
        """Whether nothing is heard of it."""
        return self._is_silent

    @property
    def pid(self) -> int:
        """Of its process on the node; 0 until that has started."""
        return self._pid

    def age(self) -> float:
        """Seconds since its replica was there."""
        return now() - self._born

    def leave_to_parent(self) -> None:
        """In a child that was forked: the connection is not its own."""
        plain = None if self._transport is None else self._transport.get_extra_info("socket")
        if plain is not None and self._is_connected:
            os.close(plain.fileno())
        self._is_connected = False

    def abandon(self) -> None:
        """The replica was never started, and nobody will."""
        self._end(Exit(None, ""))

    def describe(self) -> WorkerInfo:
        return WorkerInfo(f"pid {self._pid}", self._memory, self._sandbox, node=self.location.shown)

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._is_connected = True
        self._watch.heard(now())
        transport.set_write_buffer_limits(_BUFFER)
        plain = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        try:
            for frame_type, body in self._frames.feed(data):
                if frame_type is FrameType.DATA:
                    if self._listener is not None:
                        self._listener.received(body)
                else:
                    self._handle(frame_type, body)
        except FrameError as error:
            logger.warning("the replica on %s sent something that is not a frame: %s", self.location.shown, error)
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_connected = False
        self._outgoing.clear()
        if self._gone.is_set():
            return
        if self._listener is None:  # nothing runs
            self._end(Exit(None, ""))
        else:
            self._suspect()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        while self._outgoing and not self._is_paused:
            self._write(self._outgoing.popleft())

    def _write(self, frame: bytes) -> None:
        if self._transport is not None and self._is_connected:
            self._transport.write(frame)

    def _handle(self, frame_type: FrameType, body: bytes) -> None:
        match frame_type:
            case FrameType.BEAT:
                number, self._pid, memory = decode_numbers(body)
                self._watch.heard(now())
                self._memory = memory or None
                self._write(encode_numbers(FrameType.ACKNOWLEDGE, number))
            case FrameType.LOG:
                if self._listener is not None:
                    self._listener.logged(body.decode("utf-8", "replace"))
            case FrameType.NOTE:
                self._on_note(body.decode("utf-8", "replace"))
            case FrameType.PREPARED:
                if not self._prepared.done():
                    self._prepared.set_result(None)
            case FrameType.REFUSED:
                self._refuse(decode_json(body))
            case FrameType.STARTED:
                about = decode_json(body)
                pid, sandbox = about.get("pid"), about.get("sandbox")
                self._pid, self._sandbox = pid if isinstance(pid, int) else 0, str(sandbox or "")
            case FrameType.OUTDATED:
                self._outdate()
            case FrameType.ENDED:
                about = decode_json(body)
                code = about.get("code")
                self._end(Exit(code if isinstance(code, int) else None, str(about.get("tail") or "")))
            case _:
                raise FrameError(f"a replica does not send {frame_type.name}")

    def _refuse(self, about: dict[str, JSON]) -> None:
        message = f"on node {self.location.shown}: {about.get('message')}"
        failure: Exception = NodeError(message)
        if about.get("is_final"):
            failure = UnavailableError(message, side_effects=SideEffects.NOT_STARTED)
        if not self._prepared.done():
            self._prepared.set_exception(failure)

    # Its end.

    def _check(self) -> None:
        moment = now()
        if self._watch.is_over(moment):
            self._lose(f"nothing was heard of it for {self._watch.age(moment):.1f} s")
            return
        if self._watch.is_silent(moment):
            self._suspect()
        self._timer = self._loop.call_later(CHECK, self._check)

    def _suspect(self) -> None:
        """The replica may be alive, but nobody should rely on it."""
        if not self._is_silent:
            self._is_silent = True
            self._on_silent(self)
            self._outdate()

    def _outdate(self) -> None:
        listener: object = self._listener
        if isinstance(listener, Replaceable):
            listener.outdated()

    def _lose(self, why: str) -> None:
        self._end(Exit(None, "", lost=f"was lost with its node {self.location.shown}: {why}"))

    def actor_ended(self, why: str) -> None:
        """Ray says that the actor has ended, and so everything that it started."""
        self._end(Exit(None, "", lost=f"was lost: its replica on {self.location.shown} {why}"))

    def _end(self, exit: Exit) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if not self._prepared.done():
            self._prepared.set_exception(NodeError(exit.lost or f"its replica on {self.location.shown} has ended"))
            self._prepared.exception()  # nobody may be waiting for it any more
        self._on_gone(self)
        if self._listener is not None:
            self._listener.ended(exit)
