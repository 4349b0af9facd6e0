"""The OpenAPI document is true: whatever is sent, the answer is one that it describes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.api_client import Asked, asked
from toolrun import Runtime
from toolrun.runtime import read_config
from toolrun.server.api import HttpApi
from toolrun.server.openapi import document
from toolrun.server.operation import Operation

ROOT = Path(__file__).parents[3]
TOOLS = '''
@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@tool(effects="once")
async def send(text: str) -> str:
    """Send."""
    raise TimeoutError("no answer")

@tool(approval="ask")
async def ask() -> str:
    """Ask first."""
    return ""
'''
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PAGE = (ROOT / "docs/reference/http.md").read_text()
STREAMS = {"/api/events", "/api/chat"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[Asked, asyncio.AbstractEventLoop]]:
    """An API on a loop in another thread, with calls of every kind in its journal."""
    ready: Future[tuple[Asked, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with asked(tmp_path / "project", TOOLS) as made:
            over = asyncio.Event()
            for tool, arguments in (("add", {"a": "1"}), ("add", {}), ("send", {"text": "x"}), ("ask", {}), ("no", {})):
                await made.call(tool, **arguments)
            ready.set_result((made, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    made, loop, over = ready.result(60)
    yield made, loop
    loop.call_soon_threadsafe(over.set)
    thread.join(60)


def test_whatever_is_sent_is_answered_as_the_document_says(api: tuple[Asked, asyncio.AbstractEventLoop]) -> None:
    made, loop = api

    document = asyncio.run_coroutine_threadsafe(made.get("/api/openapi.json"), loop).result(60)
    schema = schemathesis.openapi.from_dict(document)
    ids = {"id": ["1-1", "1-3", "run-1", "1", "x"], "name": ["add", "send", "ask", "no"]}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.path in STREAMS:
            continue

        @settings(
            max_examples=16,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy() | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
        def check(case: Any) -> None:
            for name, known in ids.items():
                if name in (case.path_parameters or {}):
                    case.path_parameters[name] = known[len(repr(case.body)) % len(known)]
            answer = asyncio.run_coroutine_threadsafe(_send(made, case), loop).result(60)
            case.validate_response(answer, checks=CHECKS)

        check()


async def _send(made: Asked, case: Any) -> Any:
    given = case.as_transport_kwargs()
    return await made.client.request(given["method"], given["url"], json=given.get("json"), params=given.get("params"))


@pytest.fixture
def operations(tmp_path: Path) -> tuple[Operation, ...]:
    (tmp_path / "toolrun.toml").touch()
    return HttpApi(Runtime(read_config(tmp_path / "toolrun.toml"))).operations


def test_the_reference_names_every_operation_and_no_other(operations: tuple[Operation, ...]) -> None:
    named = set(re.findall(r"`(GET|POST|DELETE) (/[^`?\s]*)", PAGE))
    assert named == {(it.method, it.path) for it in operations}


def test_the_reference_names_every_parameter_and_every_event(operations: tuple[Operation, ...]) -> None:
    for it in operations:
        for parameter in it.query:
            assert re.search(rf"{re.escape(it.path)}\?[^`]*\b{parameter.name}=", PAGE), (it.path, parameter.name)
        for event in it.events:
            assert re.search(rf"`{event}`|event: {event}\b", PAGE), (it.path, event)


def test_the_reference_has_every_status(operations: tuple[Operation, ...]) -> None:
    described: dict[str, Any] = document(operations)
    statuses = {code for path in described["paths"].values() for it in path.values() for code in it["responses"]}
    statuses |= {"405"}  # of a method that no operation has
    assert statuses - {"200"} == set(re.findall(r"\b[45]\d\d\b", PAGE.partition("| status |")[2].partition("\n\n")[0]))
