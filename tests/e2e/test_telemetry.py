"""Traces that go through everything: a client, a gateway, its upstream server, a script, and a collector."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.collector import Collected, collector
from support.console import TOOLRUN, toolrun
from support.serving import Served, headers, request, served

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "canary-2f9a"
HEADER = """\
# /// script
# requires-python = ">=3.9"
# dependencies = []
# [tool.toolrun]
# secrets = ["KEY"]
# ///
"""
WHERE = '''\
import os
import subprocess
import sys

from toolrun_sdk import secrets, trace_context


def where(text: str) -> dict:
    """Say which trace this is part of."""
    code = "import os; print(os.environ.get('TRACEPARENT', ''))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return {"own": os.environ.get("TRACEPARENT"), "sdk": trace_context(), "child": child.strip(), "key": secrets["KEY"]}
'''
HANG = '''\
def hang() -> None:
    """Never end."""
    while True:
        pass
'''


def project(root: Path, telemetry: str = "enabled = true") -> Path:
    """A gateway in front of a server with a script."""
    upstream = root / "upstream"
    (upstream / "tools").mkdir(parents=True)
    (upstream / "tools/where.py").write_text(HEADER + WHERE)
    (upstream / "tools/hang.py").write_text(HEADER + HANG)
    (upstream / "toolrun.toml").write_text(
        f'[telemetry]\n{telemetry}\n[secrets]\nKEY = "{SECRET}"\n'
        '[tool.where]\nsecrets = ["KEY"]\n[tool.hang]\nsecrets = ["KEY"]\ntimeout = 1\n'
    )
    env = ", ".join(f'{name} = "${{{name}:-}}"' for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "TOOLRUN_WORKERS_CACHE"))
    (root / "toolrun.toml").write_text(
        f"[telemetry]\n{telemetry}\n[servers.up]\n"
        f"command = {json.dumps(str(TOOLRUN))}\nargs = ['serve']\ncwd = 'upstream'\nenv = {{ {env} }}\n"
    )
    return root


def call(server: Served, tool: str, carrier: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    message = request("tools/call", name=tool, arguments=arguments, _meta=carrier)
    answer = httpx2.post(server.url, json=message, headers=headers("tools/call", tool), timeout=60).json()
    assert "result" in answer, (answer, server.log)
    result: dict[str, Any] = answer["result"]
    return result


def hexadecimal(data: bytes) -> str:
    return data.hex()


def attributes(span: Any) -> dict[str, Any]:
    return {it.key: it.value.string_value or it.value.int_value or it.value.bool_value for it in span.attributes}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collected, dict[str, Any], dict[str, Any]]:
    """What was collected of two calls, and the answers."""
    root = project(tmp_path_factory.mktemp("traced"))
    with collector() as collected:
        with served(cwd=root, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url}) as server:
            carrier = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
            answer = call(server, "where", carrier, text=SECRET)
            failed = call(server, "hang", carrier)
        assert server.process.wait(60) is not None
        return collected, answer, failed


def test_one_trace_goes_through_gateway_server_and_script(
    traced: tuple[Collected, dict[str, Any], dict[str, Any]],
) -> None:
    collected, answer, _ = traced
    spans = [span for span in collected.spans if span.name.endswith(" where")]
    assert {hexadecimal(span.trace_id) for span in spans} == {TRACE}
    by_id = {span.span_id: span for span in spans}
    (first,) = [span for span in spans if hexadecimal(span.parent_span_id) == PARENT]
    chain, current = [first.name], first
    while following := [span for span in spans if span.parent_span_id == current.span_id]:
        (current,) = following
        chain.append(current.name)
    assert chain == [
        "tools/call where",  # the gateway serves
        "execute_tool where",
        "tools/call where",  # the gateway asks
        "tools/call where",  # the server serves
        "execute_tool where",
    ]
    assert len(by_id) == len(spans) == 5
    said = json.loads(answer["content"][0]["text"])
    own = said["own"]
    assert own == f"00-{TRACE}-{hexadecimal(current.span_id)}-01"
    assert said["sdk"] == {"traceparent": own, "tracestate": "vendor=1"}
    assert said["child"] == own


def test_what_is_exported_has_the_names_of_the_conventions(
    traced: tuple[Collected, dict[str, Any], dict[str, Any]],
) -> None:
    collected, _, _ = traced
    client, *_ = [span for span in collected.spans if span.name == "tools/call where" and span.kind == 3]
    found = attributes(client)
    assert (found["mcp.method.name"], found["network.transport"], found["toolrun.server"]) == (
        "tools/call",
        "pipe",
        "up",
    )
    assert found["mcp.protocol.version"]
    assert collected.services == {"toolrun"}
    names = {"gen_ai.execute_tool.duration", "mcp.client.operation.duration", "mcp.server.operation.duration"}
    assert names <= collected.metrics


def test_a_tool_that_failed_is_an_error_in_every_span_although_the_answer_is_a_success(
    traced: tuple[Collected, dict[str, Any], dict[str, Any]],
) -> None:
    collected, _, failed = traced
    assert failed["isError"]
    spans = [span for span in collected.spans if span.name.endswith(" hang")]
    assert spans
    assert {span.status.code for span in spans} == {2}
    assert all(attributes(span)["error.type"] for span in spans)


def test_no_secret_and_no_content_is_exported(traced: tuple[Collected, dict[str, Any], dict[str, Any]]) -> None:
    collected, answer, _ = traced
    assert SECRET not in json.dumps(answer)
    assert collected.bodies
    assert not any(SECRET.encode() in body for body in collected.bodies)
    assert not any("gen_ai.tool.call.arguments" in attributes(span) for span in collected.spans)


def test_a_collector_that_is_not_there_costs_a_warning_and_no_call(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/add.py").write_text(
        'from toolrun import tool\n\n\n@tool\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'
    )
    (tmp_path / "toolrun.toml").write_text("[telemetry]\nenabled = true\n")
    done = toolrun("call", "add", "a=1", "b=2", cwd=tmp_path, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert "the collector did not take them" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_the_message_names_it(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text("[telemetry]\nenabled = true\n")
    code = "import sys; sys.modules['opentelemetry'] = None; from toolrun.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "list"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done
    assert "pip install 'toolrun[otel]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_off_imports_nothing() -> None:
    code = "import sys, asyncio, toolrun; from toolrun.runtime import Runtime\n"
    code += "async def main():\n    async with Runtime.open():\n        pass\n"
    code += "asyncio.run(main()); print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
