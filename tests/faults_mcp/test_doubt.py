"""A call that a real server was given and that nobody waits for any more: when it is known what became of it, and when
it may be made again. The recorder and the command line must not disagree.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from faults.bench import LIMIT, until
from faults_mcp.bench import Servers, Tools, Web
from support.console import toolrun
from toolrun import ErrorKind, NotDone, ToolResult, tool
from toolrun.journal.history import PastCall, open_history

KINDS = ["stdio", "stdio, connecting", "http", "sse"]
FOR_EVER = 3600.0


@tool(effects="none")
async def was_done(key: str, arguments: dict[str, Any]) -> NotDone:
    """Whether it was done."""
    return NotDone()


class Office:
    """A server with one tool that acts when it is let go, and the project that calls it."""

    def __init__(self, servers: Servers, kind: str, web: Web | None) -> None:
        self.servers = servers
        self.web = web
        self.is_slow = kind == "stdio, connecting"
        self.name = "do" if web is not None else "subject__wait_for"
        self.gate, self.acted = servers.root / "gate", servers.root / "acted"

    def declare(self, **settings: Any) -> None:
        self.servers.settings(self.name, effects="once", **settings)

    async def act(self, tools: Tools, timeout: float = LIMIT) -> ToolResult:
        """The one call of the test, each time with the same key."""
        if self.web is None:
            arguments = {"path": str(self.gate), "value": "acted"}
        else:
            code = f"with Path({str(self.acted)!r}).open('a') as file: file.write('begun ')\n"
            code += f"while not Path({str(self.gate)!r}).exists(): time.sleep(0.01)\nanswer = 'acted'"
            arguments = {"code": code}
        return await tools.runtime.executor.execute(self.name, arguments, key="k", timeout=timeout)

    async def give_up(self, tools: Tools, timeout: float | None = None) -> None:
        """Make the call, and do not wait for its end."""
        if self.is_slow:  # there is no session in the moment of the call
            await tools.run("os._exit(1)")
        if timeout is not None:
            assert (await self.act(tools, timeout)).error_kind is ErrorKind.TIMEOUT
            assert self.begun() == 1
        else:
            calling = asyncio.create_task(self.act(tools))
            await until(lambda: self.begun() == 1, "the call")
            calling.cancel()
            await asyncio.wait([calling])
        await until(lambda: self.call().state == "in_doubt", "the doubt")

    async def act_again(self, tools: Tools) -> ToolResult:
        """The same call for a server that lets only the second one go."""
        calling = asyncio.create_task(self.act(tools))
        await until(lambda: self.begun() == 2 or calling.done(), "the second call")
        await asyncio.to_thread(self.gate.touch)
        return await calling

    def begun(self) -> int:
        """How often the server was given the call."""
        if self.web is not None:
            return self.acted.read_text().count("begun") if self.acted.exists() else 0
        received = [it for it in self.servers.received() if it.get("method") == "tools/call"]
        return sum(it["params"]["name"] == "wait_for" for it in received)

    def call(self) -> PastCall:
        with open_history(self.servers.root / ".toolrun" / "journal.db") as history:
            return history.calls(tool=self.name)[-1]

    async def settled(self) -> PastCall:
        await until(lambda: self.call().settled_as is not None, "the end of the doubt")
        return self.call()

    async def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(toolrun, "effects", *arguments, cwd=self.servers.root)

    async def may_act(self) -> bool:
        """What the command line says."""
        found = json.loads((await self.cli("--json")).stdout)
        [doubt] = [it for it in found if it["id"] == self.call().shown_id]
        return bool(doubt["may_act"])


@contextmanager
def office_of(servers: Servers, kind: str) -> Iterator[Office]:
    if not kind.startswith("stdio"):
        with Web(servers.root).running() as web:
            url, transport = (web.url, "http") if kind == "http" else (web.url.replace("/mcp", "/sse"), "sse")
            servers.put("web", url=url, transport=transport)
            yield Office(servers, kind, web)
    else:
        yield Office(servers, kind, None)


@pytest.fixture
def office(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Office]:
    with office_of(servers, request.param) as office:
        yield office


@pytest.mark.parametrize("timeout", [3.0, None])
@pytest.mark.parametrize("office", KINDS, indirect=True)
async def test_an_answer_after_the_deadline_or_the_cancellation_settles_the_doubt(
    office: Office, timeout: float | None
) -> None:
    office.declare(settle_after=FOR_EVER)
    async with office.servers.open() as tools:
        await office.give_up(tools, timeout)
        assert (await office.act(tools)).error_kind is ErrorKind.IN_DOUBT
        await asyncio.to_thread(office.gate.touch)
        call = await office.settled()
        assert (call.state, call.settled_as, call.settled_by) == ("in_doubt", "done", "late")
        again = await office.act(tools)
        assert (again.result, again.replayed, office.begun()) == ("acted", True, 1)


@pytest.mark.parametrize("office", KINDS, indirect=True)
async def test_nobody_is_believed_that_it_has_not_acted_while_the_server_may_act(office: Office) -> None:
    office.declare(verify="was_done", settle_after=FOR_EVER)
    async with office.servers.open() as tools:
        tools.runtime.manager.add(was_done)
        await office.give_up(tools)
        early = await office.act(tools)
        assert early.error_kind is ErrorKind.IN_DOUBT
        assert "may still be running" in str(early.error)
        assert await office.may_act()
        refused = await office.cli("settle", office.call().shown_id, "--not-done")
        assert (refused.returncode, office.call().settled_as) == (1, None)
        assert "--force" in refused.stderr
        assert office.begun() == 1


@pytest.mark.parametrize("office", KINDS, indirect=True)
async def test_after_its_time_a_server_is_taken_not_to_act_any_more(office: Office) -> None:
    office.declare(verify="was_done", settle_after=0.001)
    async with office.servers.open() as tools:
        tools.runtime.manager.add(was_done)
        await office.give_up(tools)
        assert not await office.may_act()
        again = await office.act_again(tools)
        assert (again.result, again.replayed) == ("acted", False), again.error
        assert (office.call().settled_as, office.begun()) == ("not_done", 2)


@pytest.mark.parametrize("office", KINDS, indirect=True)
async def test_a_person_who_knows_better_says_that_it_did_not_happen(office: Office) -> None:
    office.declare(settle_after=FOR_EVER)
    async with office.servers.open() as tools:
        await office.give_up(tools)
        call = office.call().shown_id
        assert (await office.cli("settle", call, "--not-done")).returncode == 1
        forced = await office.cli("settle", call, "--not-done", "--force")
        assert forced.returncode == 0, forced.stderr
        assert office.call().settled_as == "not_done"
        assert ((await office.act_again(tools)).result, office.begun()) == ("acted", 2)


@pytest.mark.parametrize("office", ["stdio", "stdio, connecting"], indirect=True)
async def test_a_server_of_ours_that_died_cannot_act_any_more(office: Office) -> None:
    office.declare(verify="was_done", settle_after=FOR_EVER)
    async with office.servers.open() as tools:
        tools.runtime.manager.add(was_done)
        await office.give_up(tools)
        assert await office.may_act()
        await tools.run("os._exit(1)")
        await until(lambda: office.call().ended_at is not None, "the end of the attempt")
        assert not await office.may_act()
        again = await office.act_again(tools)
        assert (again.result, again.replayed, office.begun()) == ("acted", False, 2), again.error


@pytest.mark.parametrize("office", ["http", "sse"], indirect=True)
async def test_a_server_elsewhere_that_cannot_be_reached_may_still_act(office: Office) -> None:
    office.declare(verify="was_done", settle_after=FOR_EVER)
    async with office.servers.open() as tools:
        tools.runtime.manager.add(was_done)
        await office.give_up(tools)
        assert office.web is not None
        await asyncio.to_thread(office.web.stop)
        assert (await office.act(tools)).error_kind is ErrorKind.IN_DOUBT
        assert await office.may_act()
        assert (office.call().ended_at, office.call().settled_as) == (None, None)


@pytest.mark.parametrize(
    ("settings", "seconds"), [({}, 30), ({"timeout": 90}, 90), ({"timeout": 5}, 30), ({"settle_after": 7}, 7)]
)
@pytest.mark.parametrize("office", ["stdio", "http"], indirect=True)
async def test_how_long_a_server_may_act_is_on_record(office: Office, settings: dict[str, Any], seconds: int) -> None:
    office.declare(**settings)
    place = "server" if office.web is None else "remote"
    async with office.servers.open() as tools:
        await office.give_up(tools)
    found: dict[str, Any] = office.call().to_dict()
    assert (found["place"], found["settle_us"]) == (place, seconds * 1_000_000)


@pytest.mark.parametrize("office", ["stdio"], indirect=True)
async def test_a_changed_configuration_counts_from_the_next_call_on(office: Office) -> None:
    office.gate.touch()
    for seconds in (7, 3):
        office.declare(settle_after=seconds)
        async with office.servers.open() as tools:
            assert (await tools.call(office.name, path=str(office.gate), value="x")).success
        assert office.call().settle_us == seconds * 1_000_000
