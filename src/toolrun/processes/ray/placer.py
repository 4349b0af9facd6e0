"""The child of a gateway that knows Ray: it asks a cluster for places, starts actors there, and lets go of them.

usage: python -m toolrun.processes.ray.placer, with Ray's own variables (RAY_AUTH_TOKEN, …) in the environment. One JSON
object a line, both ways. It ends with its standard input; Ray then ends its actors. First it is told

    {"address": "10.0.0.1:6379", "program": "…", "certificate": "…", "lease": 3.0, "allow_cluster_without_token": false}

and answers {"ready": true} or {"error": "…"}. Then, with an id for each request:

    {"id": 1, "place": "weather", "replica": "7", "program": "…", "resources": {"CPU": 1}, "avoid": ["<node>"],
     "timeout": 60}
        → {"id": 1, "replica": "7", "node": …, "address": …, "port": …, "name": …, "certificate": …}
        → {"id": 1, "error": "…", "node": "<where>"}
    {"remove": "7"}
    ← {"gone": "7", "how": "ended with exit code 0", "is_proven": true}     the actor has ended

A gateway decides for itself when a worker has ended (`ray_worker.py`). `is_proven`: nothing of the replica is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from toolrun.processes.ray.actor import ReplicaActor
from toolrun.processes.ray.cluster_check import ClusterError, check_cluster
from toolrun.version import __version__

_NODE: Final = "ray.io/node-id"
_LEAST: Final = {"CPU": 0.001}
"""A placement group must ask for something."""
_QUICK: Final = 3.0
"""Seconds in which a place on the preferred nodes is found, if there is one."""
_LOOK: Final = 1.0
"""Seconds between two looks at the nodes."""
_SILENCE: Final = 8.0
"""Seconds without an answer after which the head is taken for gone. Ray itself waits for a minute."""
_WAITING: Final = 256
"""Threads: a request that waits for a place on a cluster that is full holds one."""
_OPEN: Final = 45.0
"""Seconds that the start of an actor and its replica may take."""


@dataclass(frozen=True, slots=True)
class _Placed:
    name: str
    node: str
    actor: Any
    group: Any


class Placer:
    """Places replicas, for one gateway: its process has one event loop."""

    def __init__(self, settings: dict[str, Any], answers: int) -> None:
        self._settings = settings
        self._answers = answers
        self._placed: dict[str, _Placed] = {}
        self._starting: list[tuple[str, str]] = []
        """The tools and nodes of replicas that do not listen yet."""
        self._choosing: dict[str, asyncio.Lock] = {}
        """Held while a node is chosen for a tool."""
        self._head_is_gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, **message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._answers, data) :]

    def connect(self) -> None:
        """Raises ClusterError."""
        check_cluster(self._settings["address"], self._settings["allow_cluster_without_token"])
        import ray

        try:
            ray.init(
                address=self._settings["address"], log_to_driver=False, logging_level="ERROR", configure_logging=False
            )
        except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
            raise ClusterError(_why_not(self._settings["address"], error)) from None
        self._remote = ray.remote(ReplicaActor)

    async def serve(self) -> None:
        """Until the gateway ends."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_WAITING))
        reader = asyncio.StreamReader(limit=1 << 20)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._keep(self._look())
        while line := await reader.readline():
            request = json.loads(line)
            if "place" in request:
                self._keep(self._place(request))
            else:
                self._keep(self._remove(request["remove"]))

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        """Whether the head answers. Those who wait for a place are told if it does not."""
        import ray

        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)  # for itself: those that wait hold the others
        while True:
            asking = loop.run_in_executor(thread, ray.nodes)
            if not (await asyncio.wait([asking], timeout=_SILENCE))[0]:
                self._head_is_gone.set()
            try:
                await asking
            except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
                sys.stderr.write(f"the head does not say which nodes there are: {_first_line(error)}\n")
                self._head_is_gone.set()
            else:
                self._head_is_gone.clear()
            await asyncio.sleep(_LOOK)

    async def _place(self, request: dict[str, Any]) -> None:
        placing = asyncio.ensure_future(self._place_in_time(request))
        silence = asyncio.ensure_future(self._head_is_gone.wait())
        await asyncio.wait([placing, silence], return_when=asyncio.FIRST_COMPLETED)
        silence.cancel()
        if not placing.done():
            self.say(id=request["id"], error="the head of the cluster does not answer")
        self.say(id=request["id"], **await placing)  # a place that comes too late is let go of by the gateway

    async def _place_in_time(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._find_place(request)
        except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
            return {"error": _first_line(error)}

    async def _find_place(self, request: dict[str, Any]) -> dict[str, Any]:
        end = monotonic() + request["timeout"]
        bundle = {name: value for name, value in request["resources"].items() if value > 0} or _LEAST
        name = request["place"]
        async with self._choosing.setdefault(name, asyncio.Lock()):  # the next choice has to know this one
            group = await self._reserve(bundle, name, set(request["avoid"]), end)
            try:
                node = await self._node_of(group)
            except BaseException:
                _release(None, group)
                raise
            self._starting.append((name, node))
        try:
            return await self._start(request, bundle, group, node)
        finally:
            self._starting.remove((name, node))

    async def _start(self, request: dict[str, Any], bundle: dict[str, float], group: Any, node: str) -> dict[str, Any]:
        """An actor in the place that was reserved for it."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        actor = None
        try:
            actor = self._remote.options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                memory=bundle.get("memory", 0),
                resources={name: value for name, value in bundle.items() if name not in ("CPU", "GPU", "memory")},
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
                max_restarts=0,  # a restarted replica has no environment, no worker and no gateway
                max_task_retries=0,
                max_concurrency=4,
            ).remote(request["program"], self._settings["certificate"], self._settings["lease"], __version__)
            opened: dict[str, Any] = await asyncio.wait_for(actor.open.remote(), _OPEN)
        except Exception as error:  # noqa: BLE001  as above
            await asyncio.to_thread(_release, actor, group)
            return {"error": _why_not_started(node, error), "node": node}
        except BaseException:
            _release(actor, group)
            raise
        replica = request["replica"]
        self._placed[replica] = _Placed(request["place"], opened["node"], actor, group)
        self._keep(self._watch(replica, actor))
        return {"replica": replica, **opened}

    async def _reserve(self, bundle: dict[str, float], name: str, avoided: set[str], end: float) -> Any:
        """A placement group: on a node with few replicas of the tool, if there is room; never on one to be avoided,
        unless there is no other."""
        import ray

        nodes = [it["NodeID"] for it in await asyncio.to_thread(ray.nodes) if it["Alive"]]
        counts = Counter(it.node for it in self._placed.values() if it.name == name)
        counts.update(node for other, node in self._starting if other == name)
        preferred, usable = choose_nodes(nodes, avoided, counts)
        if len(preferred) < len(usable):
            group = await self._try_to_reserve(bundle, preferred, _QUICK)
            if group is not None:
                return group
        group = await self._try_to_reserve(bundle, usable, max(_QUICK, end - monotonic()))
        if group is None:
            wanted = ", ".join(f"{name} {value:g}" for name, value in bundle.items())
            raise TimeoutError(f"no node of the cluster has {wanted} free ({len(usable)} nodes are usable)")
        return group

    async def _try_to_reserve(self, bundle: dict[str, float], nodes: list[str], timeout: float) -> Any:
        from ray.util.placement_group import placement_group, remove_placement_group

        selector = [{_NODE: f"in({','.join(nodes)})"}] if nodes else None
        group = placement_group([bundle], strategy="SPREAD", bundle_label_selector=selector)
        try:
            if await asyncio.to_thread(group.wait, timeout):
                return group
        except BaseException:
            remove_placement_group(group)
            raise
        remove_placement_group(group)
        return None

    async def _node_of(self, group: Any) -> str:
        from ray.util.placement_group import placement_group_table

        table = await asyncio.to_thread(placement_group_table, group)
        return str(next(iter(table.get("bundles_to_node_id", {}).values()), ""))

    async def _watch(self, replica: str, actor: Any) -> None:
        """Tell how the actor ended."""
        from ray.exceptions import RayActorError

        is_proven = False
        try:
            how = await actor.wait.remote()
            is_proven = True
        except RayActorError as error:
            how = _first_line(error)
        except Exception as error:  # noqa: BLE001  as above
            how = _first_line(error)
        if replica in self._placed:
            self.say(gone=replica, how=how, is_proven=is_proven)

    async def _remove(self, replica: str) -> None:
        placed = self._placed.pop(replica, None)
        if placed is not None:
            await asyncio.to_thread(_release, placed.actor, placed.group)


def choose_nodes(nodes: list[str], avoided: set[str], counts: Counter[str]) -> tuple[list[str], list[str]]:
    """The nodes with the fewest replicas of a tool, out of those that may be used; and all of the latter. Pure."""
    usable = [node for node in nodes if node not in avoided] or nodes
    least = min((counts[node] for node in usable), default=0)
    return [node for node in usable if counts[node] == least], usable


def _release(actor: Any, group: Any) -> None:
    """Kill an actor and give back what was reserved for it."""
    import ray
    from ray.util.placement_group import remove_placement_group

    try:
        if actor is not None:
            ray.kill(actor)
        remove_placement_group(group)
    except Exception as error:  # noqa: BLE001  as above; the head may be gone, and so is the reservation then
        sys.stderr.write(f"a place cannot be given back: {_first_line(error)}\n")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]


def _why_not_started(node: str, error: BaseException) -> str:
    text = str(error)
    if "No module named 'toolrun" in text:
        return f"toolrun is not installed on node {node[:8]}: pip install 'toolrun[ray]=={__version__}' there"
    if "No module named 'cryptography'" in text:
        return f"node {node[:8]} has toolrun without its extra: pip install 'toolrun[ray]' there"
    found = next((line.strip() for line in text.splitlines() if line.strip().startswith("RuntimeError: ")), "")
    return f"node {node[:8]}: {found.removeprefix('RuntimeError: ') or _first_line(error) or type(error).__name__}"


def _why_not(address: str, error: Exception) -> str:
    text = str(error)
    if "Version mismatch" in text:
        return f"the cluster at {address} has other versions than this program: {' '.join(text.split())[:400]}"
    return f"the cluster at {address} does not let this program in: {_first_line(error)}"


def main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # Ray prints notices
    placer = Placer(json.loads(sys.stdin.buffer.readline()), answers)
    try:
        placer.connect()
    except ClusterError as error:
        placer.say(error=str(error))
        os._exit(1)
    placer.say(ready=True)
    try:
        asyncio.run(placer.serve())
    finally:
        os._exit(0)  # Ray's own end waits for a head that may be gone; the node ends our actors


if __name__ == "__main__":
    main()
