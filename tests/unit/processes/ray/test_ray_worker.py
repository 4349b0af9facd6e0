"""A worker on a node, as its gateway sees it: its end is told once, whatever is said of it and in whatever order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from toolrun.processes.engine import Exit
from toolrun.processes.ray.frame import FrameType, encode_json
from toolrun.processes.ray.ray_worker import RayWorker, ReplicaLocation

SEAT = ReplicaLocation("0", "node-0", "127.0.0.1", 1, "name", "certificate")
ENDED = encode_json(FrameType.ENDED, {"code": 0, "tail": ""})


class Wire(asyncio.Transport):
    """Goes nowhere."""

    def write(self, data: object) -> None: ...

    def abort(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Ears:
    def __init__(self) -> None:
        self.ends: list[Exit] = []

    def received(self, data: bytes) -> None: ...

    def logged(self, line: str) -> None: ...

    def ended(self, exit: Exit) -> None:
        self.ends.append(exit)


EVENTS: dict[str, Callable[[RayWorker], object]] = {
    "the replica says so, twice": lambda worker: worker.data_received(ENDED + ENDED),
    "Ray says so": lambda worker: worker.actor_ended("has ended"),
    "the lease is over": lambda worker: worker._lose("nothing was heard of it"),
    "the connection breaks": lambda worker: worker.connection_lost(None),
    "it is abandoned": lambda worker: worker.abandon(),
}


async def test_an_end_is_told_once_by_whoever_comes_first() -> None:
    for order in itertools.permutations(EVENTS):
        gone: list[RayWorker] = []
        worker, ears = RayWorker(SEAT, 3.0, lambda silent: None), Ears()
        worker.connection_made(Wire())
        worker.start(ears, gone.append)
        for event in order:
            EVENTS[event](worker)
        assert len(ears.ends) == 1, order
        assert gone == [worker]
        first = next(event for event in order if event != "the connection breaks")  # which says nothing of the worker
        expected = {"the replica says so, twice": (0, False), "it is abandoned": (None, False)}.get(first, (None, True))
        assert (ears.ends[0].code, bool(ears.ends[0].lost)) == expected
