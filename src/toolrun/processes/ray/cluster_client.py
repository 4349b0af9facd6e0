"""The gateway's side of the placer: its start when the first place is needed, requests and answers, its end.

The placer is a process like any worker: started by the local engine, and gone with this program, however that ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

from toolrun.errors import SideEffects, UnavailableError
from toolrun.json import JSON, dumps, loads
from toolrun.logger import get_logger
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Exit, ProcessSpec, Worker
from toolrun.processes.framing import LineFramer
from toolrun.processes.local import LocalEngine
from toolrun.processes.ray.lease import FENCE
from toolrun.processes.ray.ray_worker import NodeError, ReplicaLocation

logger = get_logger("toolrun.worker")

_MODULE: Final = "toolrun.processes.ray.placer"
_CONNECT: Final = 90.0
"""Seconds that the placer may take until it is in the cluster."""
_ANSWER: Final = 60.0
"""Seconds more than a request for a place allows, in which it must be answered."""
_RETRY: Final = 5.0
"""Seconds after which a cluster that could not be used is tried again."""
_MAX_LINE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster, and on what terms."""

    address: str
    lease: float = 3.0
    timeout: float = 60.0
    """Seconds to wait for a place."""
    allow_cluster_without_token: bool = False


class OnReplicaEnd(Protocol):
    """Told that the actor of a replica has ended; `is_proven`: and that nothing of the replica is left."""

    def __call__(self, replica: str, how: str, *, is_proven: bool) -> None: ...


class Places(Protocol):
    """Where replicas can be had."""

    async def place(self, name: str, program: str, resources: Mapping[str, float], avoid: list[str]) -> ReplicaLocation:
        """A replica that listens. Raises NodeError if there is none now, UnavailableError if the cluster is not."""

    def release(self, replica: str) -> None:
        """Let go of a place, and of what may still run there."""

    async def close(self) -> None: ...


class Cluster:
    """Belongs to the event loop of its engine."""

    def __init__(
        self, settings: ClusterSettings, environ: Mapping[str, str], certificate: str, on_gone: OnReplicaEnd
    ) -> None:
        self.settings = settings
        self._environ = environ
        self._certificate = certificate
        self._on_gone = on_gone
        self._engine = LocalEngine(linger=settings.lease + FENCE)
        self._placer: _Placer | None = None
        self._count = 0
        """Replicas so far, of all placers: what the last one placed may still run when the next one starts."""
        self._failure = ""
        self._retry_at = 0.0

    async def place(self, name: str, program: str, resources: Mapping[str, float], avoid: list[str]) -> ReplicaLocation:
        placer = self._running()
        await placer.ready()
        self._count += 1
        answer = await placer.request(
            place=name,
            replica=str(self._count),
            program=program,
            resources=dict(resources),
            avoid=list(avoid),
            timeout=self.settings.timeout,
        )
        error = answer.get("error")
        if error is not None:
            raise PlaceError(str(error), str(answer.get("node") or ""))
        return ReplicaLocation(
            **{key: answer[key] for key in ("replica", "node", "address", "port", "name", "certificate")}
        )

    def release(self, replica: str) -> None:
        """If the placer has ended, then Ray has done so."""
        if self._placer is not None:
            self._placer.tell(remove=replica)

    async def close(self) -> None:
        if self._placer is not None:
            await self._placer.close()
        await self._engine.close()

    def _running(self) -> _Placer:
        """The placer, which is started if there is none. Raises UnavailableError."""
        if self._placer is not None and not self._placer.has_ended:
            return self._placer
        if monotonic() < self._retry_at:
            raise _unavailable(self._failure)
        spec = ProcessSpec(
            name="Ray placer",
            program=Path(sys.executable),
            arguments=("-P", "-m", _MODULE),
            directory=Path("/"),
            variables=child_environment(self._environ, lambda name: name.startswith("RAY_")),
            input=self._first_words(),
            label=f"Ray at {self.settings.address}",
        )
        self._placer = placer = _Placer(self)
        try:
            placer.worker = self._engine.start(spec, placer)
        except OSError as error:
            self._placer = None
            raise _unavailable(f"the process that speaks with it cannot be started: {error}") from None
        return placer

    def _first_words(self) -> bytes:
        settings = self.settings
        first = {
            "address": settings.address,
            "certificate": self._certificate,
            "lease": settings.lease,
            "allow_cluster_without_token": settings.allow_cluster_without_token,
        }
        return dumps(first) + b"\n"

    def failed(self, why: str) -> None:
        """The placer could not be used, and is not started again at once."""
        self._failure, self._retry_at = why, monotonic() + _RETRY

    def told(self, message: dict[str, Any]) -> None:
        """Something that is no answer."""
        if "gone" in message:
            self._on_gone(str(message["gone"]), str(message["how"]), is_proven=bool(message["is_proven"]))


class PlaceError(NodeError):
    """There is no place, or no replica could be started there."""

    def __init__(self, message: str, node: str) -> None:
        super().__init__(message)
        self.node = node
        """The node that failed, if it was one."""


class _Placer:
    """One placer process, as its listener."""

    def __init__(self, cluster: Cluster) -> None:
        self.worker: Worker | None = None
        self.has_ended = False
        self._cluster = cluster
        self._lines = LineFramer(_MAX_LINE)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0

    async def ready(self) -> None:
        """Wait until it is in the cluster. Raises UnavailableError."""
        done, _ = await asyncio.wait([self._ready], timeout=_CONNECT)
        if not done:
            self._fail(f"it does not answer within {_CONNECT:g} s")
            self.kill()
        await asyncio.shield(self._ready)

    async def request(self, **fields: JSON) -> dict[str, Any]:
        """Raises UnavailableError."""
        limit = self._cluster.settings.timeout + _ANSWER
        self._count += 1
        number = self._count
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._requests[number] = answer
        self.tell(id=number, **fields)
        try:
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError:
            raise _unavailable("its head does not answer") from None
        finally:
            if self._requests.pop(number, None) is not None and not answer.done():
                answer.cancel()

    def tell(self, **fields: JSON) -> None:
        if self.worker is not None and not self.has_ended:
            self.worker.send(dumps(fields) + b"\n")

    def kill(self) -> None:
        if self.worker is not None:
            self.worker.kill()

    async def close(self) -> None:
        if self.worker is not None and not self.has_ended:
            await self.worker.close(1.0)

    def received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            message = loads(line) if isinstance(line, bytes) else None
            if not isinstance(message, dict):
                self.kill()
                return
            self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        if "ready" in message and not self._ready.done():
            self._ready.set_result(None)
        elif "id" in message:
            answer = self._requests.pop(message["id"], None)
            if answer is not None and not answer.done():
                answer.set_result(message)
            elif "replica" in message:  # whoever asked has gone
                self.tell(remove=message["replica"])
        elif "error" in message:
            self._fail(str(message["error"]))
        else:
            self._cluster.told(message)

    def _fail(self, why: str) -> None:
        self._cluster.failed(why)
        if not self._ready.done():
            self._ready.set_exception(_unavailable(why))
            self._ready.exception()  # nobody may be waiting for it any more

    def logged(self, line: str) -> None:
        logger.debug("Ray: %s", line)

    def ended(self, exit: Exit) -> None:
        self.has_ended = True
        why = f"the process that speaks with it {exit.describe()}"
        if not self._ready.done():
            self._fail(f"{why}: {exit.tail[-500:]}" if exit.tail else why)
        requests, self._requests = self._requests, {}
        for answer in requests.values():
            if not answer.done():
                answer.set_exception(_unavailable(why))


def _unavailable(why: str) -> UnavailableError:
    return UnavailableError(f"The cluster cannot be used: {why}.", side_effects=SideEffects.NOT_STARTED)
