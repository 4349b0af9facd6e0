"""The examples of docs/guides/frameworks.md, as they are, against servers that speak the providers' protocols."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from providers.anthropic import AnthropicServer
from providers.base import Asked, Server, Step
from providers.openai import OpenAIServer

pytestmark = pytest.mark.xdist_group("adapters")

GUIDE = Path(__file__).parents[2] / "docs/guides/frameworks.md"
BLOCK = re.compile(r"^```python no-run\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
EXAMPLES = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
AGENTS = [(code, printed) for code, printed in EXAMPLES if printed]


def test_there_is_an_example_for_each_framework() -> None:
    imported = {name for code, _ in EXAMPLES for name in re.findall(r"from toolrun.adapters import (.*)", code)}
    assert {name for names in imported for name in names.split(", ")} == {
        "ToolrunMiddleware",
        "ToolrunNode",
        "langchain_tools",
        "ToolrunToolset",
        "ToolrunAgent",
        "AnthropicTools",
        "OpenAITools",
        "get_executor",
        "runtime_lifespan",
    }


@pytest.mark.parametrize(("code", "printed"), AGENTS, ids=lambda it: "".join(re.findall(r"adapters import (\w+)", it)))
def test_an_example_prints_what_the_guide_says(code: str, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: dict[str, Server] = {"OPENAI": OpenAIServer(), "ANTHROPIC": AnthropicServer()}
    wanted = servers["ANTHROPIC" if "AsyncAnthropic" in code else "OPENAI"]
    wanted.play(Step(calls=[Asked("add", {"a": 2, "b": "3"})]), Step(text="2 + 3 is 5."))
    output = io.StringIO()
    with contextlib.ExitStack() as stack:
        for name, server in servers.items():
            stack.enter_context(server)
            monkeypatch.setenv(f"{name}_BASE_URL", server.url)
            monkeypatch.setenv(f"{name}_API_KEY", "key")
        stack.enter_context(contextlib.redirect_stdout(output))
        exec(compile(code, "frameworks.md", "exec"), {"__name__": "example"})
    assert output.getvalue() == printed
    assert wanted.remaining == 0


async def test_the_application_of_the_guide_runs_the_tools_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sums.py").write_text(
        "from toolrun import tool\n\n@tool\nasync def add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b\n"
    )
    [code] = [code for code, _ in EXAMPLES if "FastAPI" in code]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "frameworks.md", "exec"), names)
    app = names["app"]
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state or {})}, receive, send)

        transport = httpx.ASGITransport(with_state)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answer = (await client.post("/tools/add", json={"a": 2, "b": "3"})).json()
    assert (answer["success"], answer["result"]) == (True, 5)
