"""Places on this machine, without Ray: real actors with their replicas, which only Ray's own part is missing of.

    engine = RayEngine(ClusterSettings("here:1", lease=1.0), os.environ, DirectCluster)

Each replica is a "node" of its own unless the test says otherwise. A link can be cut: bytes then go nowhere in either
direction, and neither end is told, as with a cable that is pulled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolrun.processes.ray.actor import ReplicaActor
from toolrun.processes.ray.cluster_client import ClusterSettings, OnReplicaEnd, PlaceError
from toolrun.processes.ray.ray_worker import ReplicaLocation
from toolrun.version import __version__


class _Actor(ReplicaActor):
    def find_place(self) -> tuple[str, str]:
        return "127.0.0.1", "node"


class Link:
    """A proxy in front of one replica."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._flows.clear()

    def heal(self) -> None:
        self._flows.set()

    def break_off(self) -> None:
        """Both ends are told, as when a process ends."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self._flows.set()
        for task in self._tasks:
            task.cancel()
        self.break_off()
        if self._server is not None:
            self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, back]
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self._flows.wait()  # what comes meanwhile waits in the system's buffers
                target.write(data)
                await target.drain()
        await self._flows.wait()  # an end is not noticed either
        target.close()


@dataclass
class Place:
    """One replica, for a test to disturb."""

    name: str
    node: str
    actor: _Actor
    link: Link
    is_released: bool = False
    avoided: list[str] = field(default_factory=list)
    resources: dict[str, float] = field(default_factory=dict)

    @property
    def replica_pid(self) -> int:
        return self.actor.replica_pid


class DirectCluster:
    """Stands for `Cluster`. `nodes`: names, taken in turn."""

    opened: DirectCluster

    def __init__(
        self, settings: ClusterSettings, environ: Mapping[str, str], certificate: str, on_gone: OnReplicaEnd
    ) -> None:
        self.settings = settings
        self.places: list[Place] = []
        self.failures: list[Exception] = []
        """Raised by the next places."""
        self._certificate = certificate
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._tells = True
        DirectCluster.opened = self

    def be_quiet(self) -> None:
        """Say nothing of the ends of actors any more: the head cannot know."""
        self._tells = False

    async def place(self, name: str, program: str, resources: Mapping[str, float], avoid: list[str]) -> ReplicaLocation:
        if self.failures:
            raise self.failures.pop(0)
        actor = await asyncio.to_thread(_Actor, program, self._certificate, self.settings.lease, __version__)
        try:
            opened: dict[str, Any] = await asyncio.to_thread(actor.open)
        except RuntimeError as error:
            raise PlaceError(str(error), "node") from None
        link = Link(opened["port"])
        await link.open()
        number = str(len(self.places))
        place = Place(name, f"node-{number}", actor, link, avoided=list(avoid), resources=dict(resources))
        self.places.append(place)
        threading.Thread(target=self._watch, args=(number, actor), name="direct-cluster", daemon=True).start()
        return ReplicaLocation(number, place.node, "127.0.0.1", link.port, opened["name"], opened["certificate"])

    def _watch(self, number: str, actor: _Actor) -> None:
        how = actor.wait()
        if self._tells:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(lambda: self._on_gone(number, how, is_proven=True))

    def release(self, replica: str) -> None:
        place = self.places[int(replica)]
        place.is_released = True
        place.actor.kill()

    async def close(self) -> None:
        for place in self.places:
            place.actor.kill()
            await place.link.close()
            await asyncio.to_thread(place.actor.wait)


def is_alive(pid: int) -> bool:
    """Whether a process can still act: it is there, has not ended, and is not about to, with its memory gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  of /proc
        fields = file.read().rpartition(b")")[2].split()
        return fields[0] not in (b"Z", b"X") and fields[20] != b"0"
    return False
