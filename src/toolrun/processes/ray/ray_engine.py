"""The engine whose workers are on the nodes of a Ray cluster: the pools above it do not change.

Does not import Ray. What it cannot do without Ray, it asks of a child (`cluster_client.py`). A node of which nothing
was heard gets no replica for a while, whatever the head of the cluster still thinks of it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias

from toolrun.cluster.head_address import parse_head_address
from toolrun.errors import ConfigError
from toolrun.extra import is_installed, missing
from toolrun.processes.engine import Listener, ProcessSpec, Recipe, StatusReporter, WorkerStatus
from toolrun.processes.forked_child import leave_at_fork
from toolrun.processes.ray.certificates import Identity, new_identity
from toolrun.processes.ray.cluster_client import Cluster, ClusterSettings, OnReplicaEnd, PlaceError, Places
from toolrun.processes.ray.lease import FENCE
from toolrun.processes.ray.ray_worker import NodeError, RayWorker, ReplicaLocation
from toolrun.processes.status_file import StatusFile

_AVOID: Final = 30.0
"""Seconds for which a node gets no replica after nothing was heard of one there."""
_CONNECT: Final = 5.0
"""Seconds that a connection to a replica may take."""
_ATTEMPTS: Final = 3
"""Replicas that are tried for one worker: a node may have gone a moment ago."""


OpenCluster: TypeAlias = Callable[[ClusterSettings, Mapping[str, str], str, OnReplicaEnd], Places]
"""How to get places. A test has a cluster of its own, without Ray."""


class RayEngine:
    """Starts processes on the nodes of a cluster. While it has workers, it belongs to their event loop."""

    def __init__(
        self, settings: ClusterSettings, environ: Mapping[str, str], open_cluster: OpenCluster = Cluster
    ) -> None:
        """Raises MissingExtraError without its packages, and ConfigError without an address that can be one.

        The cluster is used when a place is needed.
        """
        for package in ("ray", "cryptography"):
            if not is_installed(package):
                raise missing("ray", ImportError(name=package), '[workers] engine = "ray"')
        if not settings.address:
            raise ConfigError(
                '[workers] engine = "ray" needs the head of the cluster: set address = "HOST:6379", or RAY_ADDRESS'
            )
        parse_head_address(settings.address)
        self._settings = settings
        self._identity: Identity = new_identity()
        self._cluster = open_cluster(settings, environ, self._identity.certificate, self._actor_gone)
        self._workers: dict[str, RayWorker] = {}
        """Those that are there, by the name of their replica."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._avoided: dict[str, float] = {}
        """Nodes, and until when they are avoided."""
        self._status = StatusFile()
        leave_at_fork(self)

    @property
    def cluster(self) -> Places:
        return self._cluster

    @property
    def workers(self) -> list[RayWorker]:
        return list(self._workers.values())

    def leave_to_parent(self) -> None:
        """In a child that was forked."""
        for worker in self._workers.values():
            worker.leave_to_parent()
        self._workers = {}
        self._status.leave_to_parent()

    async def place(self, recipe: Recipe, on_progress: Callable[[str], None]) -> ProcessSpec:
        """A replica in which everything is ready. Raises OSError or CallError."""
        loop = asyncio.get_running_loop()
        assert not self._workers or self._loop is loop, "the workers of an engine belong to one event loop"
        self._loop = loop
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                worker = await self._place(recipe, on_progress)
            except PlaceError as error:
                if not error.node:
                    raise
                self._avoid(error.node)
                if attempt == _ATTEMPTS:
                    raise
            except NodeError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                # Program and directory are those of this machine, for whoever looks: the replica has its own.
                return ProcessSpec(recipe.name, Path(sys.executable), (), Path("/"), label=recipe.label, place=worker)
        raise AssertionError("the last attempt has raised")

    async def _place(self, recipe: Recipe, on_progress: Callable[[str], None]) -> RayWorker:
        moment = monotonic()
        avoided = [node for node, until in self._avoided.items() if until > moment]
        location = await self._cluster.place(recipe.name, recipe.program, recipe.resources, avoided)
        try:
            worker = await self._connect(location)
        except BaseException:
            self._cluster.release(location.replica)
            raise
        self._workers[location.replica] = worker

        def on_note(line: str) -> None:
            on_progress(f"{recipe.name}: {line} (node {location.shown})")

        try:
            await worker.prepare(dict(recipe.content), on_note)
        except BaseException:
            worker.abandon()
            self._forget(worker)
            raise
        return worker

    async def _connect(self, location: ReplicaLocation) -> RayWorker:
        """Raises NodeError."""
        context = self._identity.client_context(location.certificate)
        loop = asyncio.get_running_loop()
        worker = RayWorker(location, self._settings.lease, lambda silent: self._avoid(silent.location.node))
        try:
            async with asyncio.timeout(_CONNECT):
                await loop.create_connection(
                    lambda: worker, location.address, location.port, ssl=context, server_hostname=location.name
                )
        except OSError as error:  # TimeoutError and SSLError are such
            self._avoid(location.node)
            raise NodeError(f"its replica on {location.shown} cannot be reached: {error or 'no answer'}") from None
        return worker

    def start(self, spec: ProcessSpec, listener: Listener) -> RayWorker:
        worker = spec.place
        assert isinstance(worker, RayWorker), "what a RayEngine starts was placed by it"
        try:
            worker.start(listener, self._forget)
        except OSError:
            self._forget(worker)
            raise
        if isinstance(listener, StatusReporter):
            self._status.add(self._tag(worker), _Reporter(worker, listener, spec.label or spec.name))
        return worker

    def _tag(self, worker: RayWorker) -> str:
        return f"ray:{worker.location.replica}"

    def _forget(self, worker: RayWorker) -> None:
        if self._workers.pop(worker.location.replica, None) is not None:
            self._cluster.release(worker.location.replica)
        self._status.remove(self._tag(worker))

    def _avoid(self, node: str) -> None:
        self._avoided[node] = monotonic() + _AVOID

    def _actor_gone(self, replica: str, how: str, *, is_proven: bool) -> None:
        worker = self._workers.get(replica)
        if worker is not None and is_proven:
            worker.actor_ended(how)

    async def close(self) -> None:
        workers = list(self._workers.values())
        for worker in workers:
            worker.kill()
        for worker in workers:
            with suppress(TimeoutError):
                await asyncio.wait_for(worker.wait(), self._settings.lease + FENCE + 1.0)
        await self._cluster.close()


class _Reporter:
    """The status of a worker that no process table of this machine shows."""

    def __init__(self, worker: RayWorker, listener: StatusReporter, label: str) -> None:
        self.ready = listener.ready
        self._worker = worker
        self._listener = listener
        self._label = label

    def status(self) -> WorkerStatus:
        status, info = self._listener.status(), self._worker.describe()
        state = "silent" if self._worker.is_silent else status.state
        return replace(
            status,
            state=state,
            sandbox=info.sandbox,
            label=self._label,
            node=info.node,
            replica=self._worker.location.replica,
            pid=self._worker.pid,
            memory=info.memory or 0,
            age=round(self._worker.age(), 1),
        )
