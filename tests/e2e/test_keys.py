"""Who says "this is the same call" gets its answer, from whatever side and in whatever process the call comes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.console import LIMIT, started, toolrun, write_project
from support.raw_mcp import gateway
from support.serving import ERAS, Served, headers, http_client, request, served, stdio_client
from toolrun import Runtime

TOOLS = '''
    import asyncio
    import os
    from pathlib import Path
    from toolrun import ToolContext, ToolError

    HERE = Path(__file__).parent.parent

    def note(text):
        with (HERE / "effects").open("a") as file:
            file.write(f"{text}\\n")

    @tool
    def act(n: int, context: ToolContext) -> str:
        """Act."""
        note(context.idempotency_key)
        return f"done {n}"

    @tool
    def act_when_told(n: int) -> str:
        """Say that it has begun, wait, and act."""
        with (HERE / "begun").open("w") as pipe:
            pipe.write("begun")
        with (HERE / "go").open() as pipe:
            pipe.read()
        note(n)
        return f"done {n}"

    @tool
    async def act_slowly(name: str) -> str:
        """Say that it has begun, wait, and act."""
        note(f"{name}-begun")
        try:
            while not (HERE / "go-on").exists():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            note(f"{name}-cancelled")
            raise
        note(f"{name}-done")
        return f"done {name}"

    @tool
    def fail(n: int) -> str:
        """Fail the first time."""
        note("failed")
        if len((HERE / "effects").read_text().splitlines()) == 1:
            raise ToolError("not now")
        return "done"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, work=TOOLS)
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def effects(project: Path) -> list[str]:
    file = project / "effects"
    return file.read_text().split() if file.exists() else []


def journal(project: Path, *arguments: str) -> Any:
    done = toolrun(*arguments, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if arguments == ("log",) else json.loads(done.stdout)


def until(is_so: Callable[[], object]) -> None:
    """What another process does can only be looked at again and again."""
    end = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


# The command line.


def test_a_repeated_command_prints_the_stored_answer_only_with_a_key(project: Path) -> None:
    commands = [("--key", "k"), ("--key", "k"), (), (), ("--key", "other")]
    done = [toolrun("call", "act", "n=1", *options, cwd=project) for options in commands]
    assert [(it.returncode, it.stdout) for it in done] == [(0, "done 1\n")] * 5
    assert ["made before with the same key" in it.stderr for it in done] == [False, True, False, False, False]
    assert len(effects(project)) == 4  # equal arguments never make two calls the same
    assert len(set(effects(project))) == 4


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_cannot_be_one_is_refused(project: Path, key: str) -> None:
    done = toolrun("call", "act", "n=1", "--key", key, cwd=project)
    assert (done.returncode, done.stdout, effects(project)) == (2, "", [])
    assert "a key is text of 1 to 255 characters" in done.stderr


def test_a_key_where_nothing_is_recorded_is_refused(project: Path) -> None:
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    done = toolrun("call", "act", "n=1", "--key", "k", cwd=project)
    assert (done.returncode, done.stdout, effects(project)) == (2, "", [])
    assert "A key needs a journal" in done.stderr


def test_a_key_for_other_arguments_is_refused_and_names_the_first_call(project: Path) -> None:
    toolrun("call", "act", "n=1", "--key", "k", cwd=project)
    done = toolrun("call", "act", "n=2", "--key", "k", cwd=project)
    (first,) = [call for call in journal(project, "log") if call["state"] == "done"]
    assert (done.returncode, done.stdout, len(effects(project))) == (2, "", 1)
    assert f"another call, {first['id']} of 'act'" in done.stderr


def test_a_command_that_failed_runs_again_under_its_key(project: Path) -> None:
    done = [toolrun("call", "fail", "n=1", "--key", "k", cwd=project) for _ in range(3)]
    assert [(it.returncode, it.stdout) for it in done] == [(1, ""), (0, "done\n"), (0, "done\n")]
    assert effects(project) == ["failed"] * 2


def test_a_command_waits_for_the_same_call_in_another_process_and_prints_its_answer(project: Path) -> None:
    call = ("call", "act_when_told", "n=1", "--key", "k")
    with started(*call, cwd=project) as first:
        assert (project / "begun").read_text() == "begun"
        early = toolrun(*call, "--timeout", "2", cwd=project)  # its own deadline
        assert (early.returncode, early.stdout) == (1, "")
        (running,) = [it for it in journal(project, "log") if it["state"] == "started"]
        assert f"Call {running['id']} with the same key is still running" in early.stderr
        assert "toolrun call act_when_told n=1 --key k" in early.stderr
        with started(*call, cwd=project) as second:
            until(lambda: processes(project) == 3)
            (project / "go").write_text("go")
            assert [it.communicate(timeout=LIMIT)[0] for it in (first, second)] == ["done 1\n"] * 2
    assert effects(project) == ["1"]


def processes(project: Path) -> int:
    """How many processes have written to the journal, apart from those that only read it."""
    import sqlite3

    connection = sqlite3.connect(f"file:{project}/.toolrun/journal.db?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM process").fetchone()[0])
    finally:
        connection.close()


def test_a_command_whose_process_was_killed_is_in_doubt_until_somebody_settles_it(project: Path) -> None:
    call = ("call", "act_when_told", "n=1", "--key", "k")
    with started(*call, cwd=project) as first:
        assert (project / "begun").read_text() == "begun"
        first.kill()
        first.communicate(timeout=LIMIT)
    doubt = toolrun(*call, cwd=project)
    (listed,) = journal(project, "effects")
    assert (doubt.returncode, doubt.stdout, effects(project)) == (1, "", [])
    assert f"toolrun effects settle {listed['id']} --done" in doubt.stderr
    assert "Repeat it" not in doubt.stderr
    settled = toolrun("effects", "settle", listed["id"], "--not-done", cwd=project)
    assert settled.returncode == 0, settled.stderr
    with started(*call, cwd=project) as second:
        assert (project / "begun").read_text() == "begun"
        (project / "go").write_text("go")
        assert second.communicate(timeout=LIMIT)[0] == "done 1\n"
    assert (toolrun(*call, cwd=project).stdout, effects(project)) == ("done 1\n", ["1"])


def test_a_call_that_was_settled_as_done_is_not_made_again(project: Path) -> None:
    call = ("call", "act_when_told", "n=1", "--key", "k")
    with started(*call, cwd=project) as first:
        assert (project / "begun").read_text() == "begun"
        first.kill()
        first.communicate(timeout=LIMIT)
    toolrun(*call, cwd=project)
    (listed,) = journal(project, "effects")
    assert toolrun("effects", "settle", listed["id"], "--done", cwd=project).returncode == 0
    again = toolrun(*call, cwd=project)
    assert (again.returncode, again.stdout, effects(project)) == (1, "", [])
    assert "its answer was not kept" in again.stderr
    assert listed["id"] in again.stderr


def test_what_a_destination_knows_a_call_by_is_shown(project: Path) -> None:
    toolrun("call", "act", "n=1", "--key", "order-17", cwd=project)
    toolrun("call", "act", "n=1", cwd=project)
    for call, key in zip(("1-1", "2-1"), effects(project), strict=True):
        assert journal(project, "show", call)["idempotency_key"] == key
        found = journal(project, "show", call)
        assert (found["key"], found["replayed"]) == (key if call == "1-1" else None, False)
        assert f"sent as:      {key}" in toolrun("show", call, cwd=project).stdout
        assert "order-17" not in toolrun("show", call, cwd=project).stdout


# MCP clients.


def text(answer: dict[str, Any]) -> tuple[str, bool, bool]:
    """What the answer says, whether it is a failure, and whether it is a stored one."""
    result = answer["result"]
    is_replayed = result.get("_meta", {}).get("toolrun/replayed", False)
    return result["content"][0]["text"], bool(result.get("isError")), is_replayed


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_mcp_client_gets_a_stored_answer_only_for_a_key(project: Path, transport: str, era: str) -> None:
    act = {"name": "act", "arguments": {"n": 1}}
    with calling(transport, project, era) as call:
        for field in ("toolrun/idempotencyKey", "idempotencyKey", "idempotency-key"):
            assert text(call(act, {field: field})) == ("done 1", False, False)
            assert text(call(act, {field: field})) == ("done 1", False, True)
        assert call(act, {"idempotencyKey": "idempotencyKey"})["result"]["_meta"]["toolrun/key"] == "idempotencyKey"
        assert [text(call(act, {}))[2] for _ in range(2)] == [False, False]
        assert [text(call(act, {"x.example/key": "k"}))[2] for _ in range(2)] == [False, False]
        said, is_error, _ = text(call({"name": "act", "arguments": {"n": 2}}, {"idempotencyKey": "idempotencyKey"}))
        assert is_error
        assert "in use for another call" in said
        for bad in ("", "x" * 256, 7, None, ["k"]):
            said, is_error, _ = text(call(act, {"idempotencyKey": bad}))
            assert is_error
            assert "a key is text of 1 to 255 characters" in said
        refused = call(act, {"idempotencyKey": "a", "idempotency-key": "b"})
        assert "several keys that differ" in refused["error"]["message"]
    assert len(effects(project)) == 3 + 2 + 2
    with calling(transport, project, era) as call:  # another process, and another connection
        assert text(call(act, {"idempotencyKey": "idempotencyKey"})) == ("done 1", False, True)


@contextmanager
def calling(transport: str, project: Path, era: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """Calls a tool with a `_meta`, and over HTTP with headers."""
    with gateway(transport, project, era) as ask:

        def call(params: dict[str, Any], meta: dict[str, Any], **head: str) -> dict[str, Any]:
            more = {name.replace("_", "-"): value for name, value in head.items()}
            return ask("tools/call", **params, _meta=meta, **({"head": more} if more else {}))

        yield call


@pytest.mark.parametrize("era", ERAS)
def test_over_http_the_header_gives_the_key_as_well(project: Path, era: str) -> None:
    act = {"name": "act", "arguments": {"n": 1}}
    with calling("http", project, era) as call:
        assert text(call(act, {}, idempotency_key="order-17")) == ("done 1", False, False)
        assert text(call(act, {}, idempotency_key='"order-17"')) == ("done 1", False, True)
        assert text(call(act, {"idempotencyKey": "order-17"})) == ("done 1", False, True)
        assert text(call(act, {"idempotencyKey": "order-17"}, idempotency_key="order-17")) == ("done 1", False, True)
        refused = call(act, {"idempotencyKey": "order-18"}, idempotency_key="order-17")
        assert "several keys that differ" in refused["error"]["message"]
        said, is_error, _ = text(call(act, {}, idempotency_key=""))
        assert is_error
        assert "a key is text of 1 to 255 characters" in said
    assert len(effects(project)) == 1


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_remembers_nothing_refuses_keys_but_not_the_calls_of_toolrun(project: Path, era: str) -> None:
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    act = {"name": "act", "arguments": {"n": 1}}
    with calling("http", project, era) as call:
        for answer in (call(act, {"idempotencyKey": "k"}), call(act, {}, idempotency_key="k")):
            said, is_error, _ = text(answer)
            assert is_error
            assert "A key needs a journal" in said
        assert effects(project) == []
        for _ in range(2):
            assert text(call(act, {"toolrun/idempotencyKey": "k"}, idempotency_key="k")) == ("done 1", False, False)
    assert len(effects(project)) == 2


def test_clients_do_not_get_each_others_answers(project: Path) -> None:
    act = {"name": "act", "arguments": {"n": 1}}
    other = {"io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"}}
    with calling("http", project, "2026-07-28") as call:
        assert [text(call(act, {"idempotencyKey": "k", **more}))[2] for more in ({}, other, {}, other)] == [
            False,
            False,
            True,
            True,
        ]
    assert toolrun("call", "act", "n=1", "--key", "k", cwd=project).returncode == 0
    assert len(effects(project)) == 3


# Clients that leave.


def leave(server: Served, project: Path, name: str, meta: dict[str, Any], head: dict[str, str]) -> None:
    """Call, and leave when the call runs."""
    message = request("tools/call", name="act_slowly", arguments={"name": name}, _meta=meta)
    body, lines = json.dumps(message).encode(), headers("tools/call", "act_slowly") | {"host": "localhost"} | head
    with socket.create_connection(server.place, LIMIT) as connection:
        text = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{text}content-length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: f"{name}-begun" in effects(project))


@pytest.mark.parametrize("more", [{}, {"progressToken": 1}], ids=["plain", "progress"])
@pytest.mark.parametrize("way", ["header", "meta"])
def test_a_client_that_leaves_gets_the_answer_when_it_comes_back_with_its_key(
    project: Path, way: str, more: dict[str, Any]
) -> None:
    given: dict[str, str] = {"idempotency-key": "k"} if way == "header" else {}
    meta = more | ({} if way == "header" else {"idempotencyKey": "k"})
    with served(cwd=project) as server:
        leave(server, project, "keyed", meta, given)
        for name, without in (("bare", more), ("chain", more | {"toolrun/idempotencyKey": "auto"})):
            leave(server, project, name, without, {})
            until(lambda name=name: f"{name}-cancelled" in effects(project))  # type: ignore[misc]
        assert {it["state"] for it in journal(project, "log") if "keyed" in str(it["arguments"])} == {"started"}
        (project / "go-on").touch()
        message = request("tools/call", name="act_slowly", arguments={"name": "keyed"}, _meta=meta)
        answer = httpx2.post(
            server.url, json=message, headers=headers("tools/call", "act_slowly") | given, timeout=LIMIT
        )
        lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
        said = json.loads(lines[-1].removeprefix("data: ") if lines else answer.text)
    assert text(said) == ("done keyed", False, True)
    assert [it for it in effects(project) if it.startswith("keyed")] == ["keyed-begun", "keyed-done"]


def test_a_server_that_ends_gives_up_the_calls_of_clients_that_have_left(project: Path) -> None:
    with served(cwd=project) as server:
        leave(server, project, "keyed", {}, {"idempotency-key": "k"})
        leave(server, project, "bare", {}, {})
        until(lambda: "bare-cancelled" in effects(project))
        server.process.terminate()
        assert server.end() == 0
    assert "keyed-cancelled" in effects(project)
    assert sorted(it["state"] for it in journal(project, "log")) == ["in_doubt"] * 2


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_says_that_it_cancels_cancels_a_call_with_a_key(project: Path, transport: str) -> None:
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            client = await stack.enter_async_context(stdio_client(project, "legacy"))
        else:
            server = stack.enter_context(served(cwd=project))
            client = await stack.enter_async_context(http_client(server.url, "legacy"))
        meta: Any = {"idempotencyKey": "k"}
        calling = asyncio.create_task(client.call_tool("act_slowly", {"name": "keyed"}, meta=meta))
        await asyncio.to_thread(until, lambda: "keyed-begun" in effects(project))
        calling.cancel()
        await asyncio.to_thread(until, lambda: "keyed-cancelled" in effects(project))
        await asyncio.wait([calling])
    assert [it["state"] for it in journal(project, "log")] == ["in_doubt"]


# MCP servers.

SERVER = Path(__file__).parents[1] / "mcp_servers" / "puppet.py"


def received(project: Path) -> list[dict[str, Any]]:
    """The `_meta` of each call that the server got."""
    lines = [json.loads(line) for line in (project / "server" / "received").read_text().splitlines()]
    return [line["params"]["_meta"] for line in lines if line.get("method") == "tools/call"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_mcp_server_gets_the_key_of_each_call_in_its_meta(tmp_path: Path, era: str) -> None:
    (tmp_path / "server").mkdir()
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(SERVER), era])}\ncwd = 'server'\n"
    (tmp_path / "toolrun.toml").write_text(f"[servers.puppet]\n{command}")
    code = 'say({"id": number, "error": {"code": -32603, "message": "no"}}); answer = None'
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        await runtime.ready()
        execute = runtime.executor.execute
        for key in ("k", "k", "other", None, None):
            await execute("run", {"code": code}, key=key)
        with_progress = await execute("run", {"code": "answer = 1"}, on_progress=lambda progress: None)
        assert with_progress.success
    keys = [meta["toolrun/idempotencyKey"] for meta in received(tmp_path)]
    assert keys[0] == keys[1]
    assert (len(keys), len(set(keys)), {len(key) for key in keys}) == (6, 5, {32})


async def test_a_chain_of_toolruns_makes_a_call_once(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    front = tmp_path_factory.mktemp("front")
    with served(cwd=project) as server:
        (front / "toolrun.toml").write_text(f"[servers.back]\nurl = '{server.url}'\n[tool.act]\neffects = 'keyed'\n")
        for key, is_replayed in (("k", False), ("k", True), ("other", False), (None, False), (None, False)):
            async with Runtime.open(front / "toolrun.toml") as runtime:
                await runtime.ready()
                result = await runtime.executor.execute("act", {"n": 1}, key=key)
                assert (result.result, result.replayed) == ("done 1", is_replayed)
        assert len(set(effects(project))) == 4
        (front / ".toolrun" / "journal.db").rename(front / "lost.db")  # who repeats it has forgotten it
        async with Runtime.open(front / "toolrun.toml") as runtime:
            await runtime.ready()
            result = await runtime.executor.execute("act", {"n": 1}, key="k")
            assert (result.result, result.replayed) == ("done 1", False)
    assert len(effects(project)) == 4


PAY = {
    "name": "pay",
    "description": "Pay. Make up a new idempotency_key for each call.",
    "inputSchema": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "idempotency_key": {"type": "string"}},
        "required": ["amount", "idempotency_key"],
    },
}


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_servers_own_parameter_for_the_key_is_filled_and_hidden(tmp_path: Path, is_closed: bool) -> None:
    (tmp_path / "server").mkdir()
    schema = {**PAY["inputSchema"], **({"additionalProperties": False} if is_closed else {})}  # type: ignore[dict-item]
    (tmp_path / "server" / "tools.json").write_text(json.dumps([{**PAY, "inputSchema": schema}]))
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(SERVER)])}\ncwd = 'server'\n"
    settings = "[tool.shop__pay]\nkey_argument = 'idempotency_key'\n"
    (tmp_path / "toolrun.toml").write_text(f"[servers.shop]\n{command}{settings}")
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        await runtime.ready()
        execute = runtime.executor.execute
        made = [await execute("pay", {"amount": 1}, key=key) for key in ("k", None, None)]
        sent = await execute("pay", {"amount": 1, "idempotency_key": "of the model's own"})
        found = runtime.manager.get("pay")
        assert found is not None
        assert sorted(found.schema["properties"]) == ["amount"]  # type: ignore[attr-defined]
        missing = await execute("pay", {})
        assert "idempotency_key" not in missing.text
    got = [json.loads(str(it.result).removeprefix("pay ")) for it in (*made, sent)]
    assert [sorted(it) for it in got] == [["amount", "idempotency_key"]] * 4
    metas = [meta["toolrun/idempotencyKey"] for meta in received(tmp_path)]
    assert [it["idempotency_key"] for it in got] == metas
    assert len(set(metas)) == 4
    described = toolrun("describe", "pay", "--json", cwd=tmp_path)
    assert "idempotency_key" not in json.loads(described.stdout)["schema"]["properties"]
    with calling("stdio", tmp_path, "2026-07-28") as call:
        assert text(call({"name": "pay", "arguments": {"amount": 2}}, {}))[1] is False
