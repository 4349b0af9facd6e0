"""Nodes that are lost: what has ended when its end is told, and who is let in.

Real replicas with their actors, without Ray (`support/direct_cluster.py`). The lease is short, so that nobody waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.direct_cluster import DirectCluster, is_alive
from support.engine_world import Ears, World, open_world
from toolrun.errors import UnavailableError
from toolrun.processes.engine import Exit, Recipe, Worker, WorkerStatus
from toolrun.processes.process_table import find_remote_workers
from toolrun.processes.ray.certificates import new_identity
from toolrun.processes.ray.cluster_client import PlaceError
from toolrun.processes.ray.ray_engine import RayEngine
from toolrun.processes.ray.ray_worker import NodeError

LEASE = 1.0


@pytest_asyncio.fixture
async def world(tmp_path: Path, process_tag: str) -> AsyncIterator[World]:
    async with open_world("node", tmp_path, lease=LEASE) as opened:
        yield opened


async def busy(world: World, ears: Ears) -> tuple[Worker, int]:
    """A worker in the middle of a call, and its pid."""
    worker = await world.start(ears)
    worker.send(world.request("hang", seconds=600))
    async with asyncio.timeout(10):
        while not (worker.describe().memory and is_alive(pid_of(worker))):  # noqa: ASYNC110  told with a beat
            await asyncio.sleep(0.01)
    return worker, pid_of(worker)


def pid_of(worker: Worker) -> int:
    return int(worker.describe().place.removeprefix("pid "))


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def read_one(context: ssl.SSLContext, port: int, name: str | None = None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        await reader.readexactly(1)
    finally:
        writer.transport.abort()


class Witness(Ears):
    """Looks whether a process is alive in the moment in which the end is told."""

    def __init__(self) -> None:
        super().__init__()
        self.pid = 0
        self.was_alive: bool | None = None

    def ended(self, exit: Exit) -> None:
        self.was_alive = is_alive(self.pid)
        super().ended(exit)


async def test_a_worker_behind_a_cut_link_is_gone_when_its_end_is_told(world: World) -> None:
    ears = Witness()
    _, ears.pid = await busy(world, ears)
    DirectCluster.opened.be_quiet()
    DirectCluster.opened.places[0].link.cut()
    exit = await ears.end()
    assert "was lost with its node" in exit.describe()
    assert ears.was_alive is False
    assert ears.times_outdated, "it gets no new calls from the first silence on"


async def test_a_link_that_heals_within_the_lease_costs_nothing(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    link = DirectCluster.opened.places[0].link
    for number in range(5):
        link.cut()
        worker.send(world.request("add", a=number, b=0))
        link.heal()
        assert (await ears.message(number))["result"] == number
    assert not ears.ends


async def test_a_worker_keeps_its_lease_for_as_long_as_it_is_heard(world: World) -> None:
    """A call of three leases."""
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("hang", seconds=3 * LEASE))
    assert (await ears.message(0))["error"] is None
    assert not ears.ends


async def test_a_replica_that_was_stopped_is_killed_with_its_worker_before_the_end_is_told(world: World) -> None:
    """It cannot look at its lease: its actor does."""
    ears = Witness()
    _, ears.pid = await busy(world, ears)
    DirectCluster.opened.be_quiet()
    replica = DirectCluster.opened.places[0].replica_pid
    os.kill(replica, signal.SIGSTOP)
    exit = await ears.end()
    assert exit.lost
    assert ears.was_alive is False
    assert not is_alive(replica)


async def test_a_replica_that_is_killed_takes_its_worker_with_it(world: World) -> None:
    ears = Witness()
    _, ears.pid = await busy(world, ears)
    os.kill(DirectCluster.opened.places[0].replica_pid, signal.SIGKILL)
    exit = await ears.end()
    assert "was killed by SIGKILL" in exit.lost
    assert ears.was_alive is False


async def test_a_gateway_that_is_gone_ends_the_worker_at_once(tmp_path: Path, process_tag: str) -> None:
    """Long before its lease would."""
    async with open_world("node", tmp_path, lease=600.0) as world:
        _, pid = await busy(world, Ears())
        DirectCluster.opened.places[0].link.break_off()
        async with asyncio.timeout(30):
            while is_alive(pid):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        DirectCluster.opened.places[0].actor.kill()  # so that the engine need not wait for the lease


async def test_an_end_is_told_once_whatever_comes_together(world: World) -> None:
    ears = Ears()
    worker, _ = await busy(world, ears)
    place = DirectCluster.opened.places[0]
    worker.kill()
    os.kill(place.replica_pid, signal.SIGKILL)
    place.link.cut()
    await ears.end()
    place.link.heal()
    await world.engine.close()
    assert len(ears.ends) == 1
    assert not ears.after_end


async def test_the_place_is_let_go_of_when_the_worker_has_ended(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    await worker.close(5.0)
    assert DirectCluster.opened.places[0].is_released


async def test_the_place_is_let_go_of_if_nobody_waits_for_it_any_more(world: World) -> None:
    placing = asyncio.create_task(world.spec(b"# /// script\n# dependencies = ['attrs']\n# ///\n"))
    async with asyncio.timeout(10):
        while not world.notes:  # noqa: ASYNC110  its environment is being made
            await asyncio.sleep(0.01)
    placing.cancel()
    await asyncio.wait([placing])
    assert placing.cancelled()
    assert DirectCluster.opened.places[0].is_released


async def test_a_node_that_fails_is_avoided_and_another_one_is_tried(world: World) -> None:
    engine = world.engine
    assert isinstance(engine, RayEngine)
    DirectCluster.opened.failures.append(PlaceError("it is dead", "node-7"))
    worker = await world.start(Ears())
    assert pid_of(worker) >= 0
    assert DirectCluster.opened.places[0].avoided == ["node-7"]


async def test_a_node_of_which_nothing_is_heard_is_avoided(world: World) -> None:
    ears = Ears()
    await world.start(ears)
    DirectCluster.opened.be_quiet()
    DirectCluster.opened.places[0].link.cut()
    await ears.end()
    await world.start(Ears())
    assert DirectCluster.opened.places[1].avoided == ["node-0"]


async def test_an_environment_that_cannot_be_made_is_told_with_its_node(world: World) -> None:
    with pytest.raises(UnavailableError, match=r"on node 127\.0\.0\.1 .*Cannot create the environment"):
        await world.spec(b"# /// script\n# dependencies = ['there-is-no-such-package-anywhere']\n# ///\n")
    assert DirectCluster.opened.places[0].is_released


async def test_a_replica_that_fails_by_itself_ends_so_that_nobody_waits_for_it(world: World) -> None:
    """Here it is told nothing of what it should run."""
    engine = world.engine
    assert isinstance(engine, RayEngine)
    recipe = Recipe("subject", "subject", "toolrun.scripts.on_node", content={}, resources={})
    async with asyncio.timeout(30):
        with pytest.raises(NodeError, match="has ended"):
            await engine.place(recipe, world.notes.append)
    assert all(place.is_released for place in DirectCluster.opened.places)


async def test_nobody_but_the_gateway_is_let_in_not_even_before_it(world: World) -> None:
    engine = world.engine
    assert isinstance(engine, RayEngine)
    location = await DirectCluster.opened.place("subject", "toolrun.scripts.on_node", {}, [])
    stranger = new_identity()
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with_own = stranger.client_context(stranger.certificate)
    for context in (anonymous, with_own):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((OSError, EOFError)):  # asyncio.IncompleteReadError is the latter
            await read_one(context, location.port)
    await read_one(engine._identity.client_context(location.certificate), location.port, location.name)  # a beat


async def test_a_replica_lets_in_one_connection(world: World) -> None:
    """Also its own gateway: what a second one would say could mix with what the first one does."""
    engine = world.engine
    assert isinstance(engine, RayEngine)
    location = await DirectCluster.opened.place("subject", "toolrun.scripts.on_node", {}, [])
    context = engine._identity.client_context(location.certificate)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", location.port, ssl=context, server_hostname=location.name
    )
    await reader.readexactly(1)
    with pytest.raises((OSError, EOFError)):
        await read_one(context, location.port, location.name)
    await reader.readexactly(40)  # a beat and a half: the first one is not disturbed
    writer.transport.abort()


async def test_a_replica_is_told_no_variable_of_ray(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say where the token of the cluster is."""
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/somewhere/token")
    await DirectCluster.opened.place("subject", "toolrun.scripts.on_node", {}, [])
    variables = environment_of(DirectCluster.opened.places[0].replica_pid)
    assert b"PATH=" in variables
    assert b"RAY_" not in variables


async def test_a_replica_that_is_somebody_else_gets_nothing(world: World) -> None:
    """Whoever listens at the address of the replica has not its key."""
    impostor, gateway = new_identity(), new_identity()
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=impostor.server_context(gateway.certificate))
    port = server.sockets[0].getsockname()[1]
    expected = new_identity()
    with pytest.raises(ssl.SSLError):
        await asyncio.open_connection(
            "127.0.0.1", port, ssl=gateway.client_context(expected.certificate), server_hostname=expected.name
        )
    server.close()
    await server.wait_closed()
    assert not got


async def test_toolrun_workers_shows_the_node_the_replica_and_whether_anything_is_heard_of_it(tmp_path: Path) -> None:
    async with open_world("node", tmp_path, lease=60.0) as world:  # long enough to be seen in silence
        ears = Ears()
        _, pid = await busy(world, ears)
        ears.ready.set_result(None)
        link = DirectCluster.opened.places[0].link

        async def shown(state: str) -> WorkerStatus:
            async with asyncio.timeout(30):
                while True:
                    for it in find_remote_workers():
                        if it.host == os.getpid() and it.status.state == state and it.status.pid == pid:
                            return it.status
                    await asyncio.sleep(0.05)

        status = await shown("ready")
        assert (status.node, status.replica) == ("127.0.0.1 (node-0)", "0")
        assert status.memory > 0
        link.cut()
        await shown("silent")
        link.heal()


async def test_an_environment_is_made_once_for_all_replicas_of_a_node(world: World, tmp_path: Path) -> None:
    source = b"# /// script\n# dependencies = ['attrs']\n# ///\ndef one() -> int:\n    return 1\n"
    await asyncio.gather(world.spec(source), world.spec(source))
    first = len(world.notes)
    await world.spec(source)
    assert len([it for it in (tmp_path / "cache" / "environments").iterdir() if it.is_dir()]) == 1
    assert len([it for it in world.notes if "Installed" in it]) == 1, world.notes
    assert len(world.notes) == first, "nothing is to be done for a third one"
