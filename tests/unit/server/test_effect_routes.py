"""Doubts over HTTP: listed, and settled by what somebody knows or by what the tool can find out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.api_client import Asked, asked

TOOLS = '''
import asyncio
from toolrun import Done, NotDone

found = []

def look(key, arguments):
    return {"yes": Done("found it"), "no": NotDone()}.get(arguments["text"])

@tool(effects="once")
async def send(text: str) -> str:
    """Send a text."""
    raise TimeoutError("no answer")

@tool(effects="once", verify=look)
async def post(text: str) -> str:
    """Post a text."""
    raise TimeoutError("no answer")
'''


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(tmp_path / "project", TOOLS) as made:
        yield made


async def doubt(api: Asked, tool: str = "send", **body: Any) -> str:
    """The id of a call in doubt."""
    text = body.pop("text", "x")
    failed = await api.post(f"/api/tools/{tool}/call", {"arguments": {"text": text}, **body})
    assert failed["side_effects"] == "unknown"
    return str(failed["recorded_as"])


async def test_doubts_are_listed_with_what_is_known(api: Asked) -> None:
    first, second = await doubt(api), await doubt(api, "post")
    found = (await api.get("/api/effects"))["effects"]
    assert [(it["call"]["id"], it["can_verify"]) for it in found] == [(first, False), (second, True)]
    assert (found[0]["call"]["arguments"], found[0]["known"]) == ('{"text":"x"}', "its deadline passed while it ran")


async def test_what_somebody_knows_is_the_answer_for_whoever_repeats_the_key(api: Asked) -> None:
    id = await doubt(api, key="once")
    settled = await api.post(f"/api/effects/{id}", {"settle": "done", "result": {"sent": True}})
    assert settled == {"id": id, "state": "done", "result": {"sent": True}}
    again = await api.post("/api/tools/send/call", {"arguments": {"text": "x"}, "key": "once"})
    assert (again["replayed"], again["result"]) == (True, {"sent": True})
    shown = await api.get(f"/api/calls/{id}")
    assert (shown["outcome"], shown["settlement"]["by"]) == ("ok", "person:HTTP client")
    assert shown["timeline"][-1]["words"] == "settled as done by HTTP client"
    assert (await api.get("/api/effects"))["effects"] == []


@pytest.mark.parametrize(("text", "state"), [("yes", "done"), ("no", "not_done")])
async def test_the_tool_finds_out_what_happened(text: str, state: str, api: Asked) -> None:
    id = await doubt(api, "post", text=text)
    assert (await api.post(f"/api/effects/{id}", {"settle": "verify"}))["state"] == state
    assert (await api.get("/api/effects"))["effects"] == []


async def test_what_cannot_be_settled_says_why(api: Asked) -> None:
    id, other = await doubt(api), await doubt(api, "post", text="perhaps")
    for path, body, status, words in (
        (id, {"settle": "verify"}, 409, "'send' has no 'verify'"),
        (other, {"settle": "verify"}, 409, "its 'verify' cannot say whether it happened"),
        (id, {"settle": "perhaps"}, 400, "must be one of"),
        (id, {"settle": "done", "force": True}, 400, 'force is for "settle": "not_done"'),
        (id, {}, 400, "missing 'settle'"),
        ("1-999", {"settle": "done"}, 404, "there is no call 1-999"),
        ("x", {"settle": "done"}, 404, "ids are like 17-204"),
    ):
        refused = await api.client.post(f"/api/effects/{path}", json=body)
        assert (refused.status_code, words in refused.json()["error"]) == (status, True), refused.text
    await api.post(f"/api/effects/{id}", {"settle": "done"})
    twice = await api.post(f"/api/effects/{id}", {"settle": "done"}, status=409)
    assert twice["error"] == f"call {id} was settled before, as done"
