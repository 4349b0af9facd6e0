"""A secret of the project is in no answer of the API, in no event and in no metric, whoever brings it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.api_client import asked, listening

CANARY = "canary-7f3a9b2e51"
TOOLS = '''
@tool
async def tell(context: ToolContext) -> str:
    """Give the secret away."""
    context.progress(1, 2, f"it is {context.secrets['KEY']}")
    return f"it is {context.secrets['KEY']}"

@tool
async def fail(context: ToolContext) -> str:
    """Fail with the secret."""
    raise RuntimeError(f"no entry with {context.secrets['KEY']}")

@tool
async def take(text: str, number: int = 0) -> str:
    """Take a text."""
    return text

@tool(effects="once", approval="ask")
async def ask(text: str) -> str:
    """Ask first."""
    return text
'''
CONFIG = """
[secrets]
KEY = { env = "TOOLRUN_TEST_KEY" }
[tool.tell]
secrets = ["KEY"]
[tool.fail]
secrets = ["KEY"]
"""
PATHS = (
    "/api/tools",
    "/api/tools/tell",
    "/api/calls",
    "/api/stats",
    "/api/series",
    "/api/running",
    "/api/effects",
    "/api/approvals",
    "/api/health",
    "/api/conversations",
    "/api/trust",
    "/api/openapi.json",
    "/metrics",
)


async def test_a_secret_is_in_nothing_that_is_answered_recorded_or_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLRUN_TEST_KEY", CANARY)
    async with asked(tmp_path / "project", TOOLS, CONFIG) as api, listening(api.api) as listener:
        assert api.runtime.config.secrets == {"KEY": CANARY}
        texts: list[str] = []
        for tool, arguments in (
            ("tell", {}),
            ("fail", {}),
            ("take", {"text": CANARY}),
            ("take", {"text": 5, "number": CANARY}),
            ("ask", {"text": CANARY}),
            (CANARY, {}),
            (f"{'n' * 120}{CANARY}", {}),
        ):
            for route in ("check", "call"):
                answer = await api.client.post(f"/api/tools/{tool}/{route}", json={"arguments": arguments})
                texts.append(answer.text)
            streamed = await api.events(f"/api/tools/{tool}/call", {"arguments": arguments, "timeout": 1})
            texts.append(repr(streamed))
        texts += [(await api.client.get(path)).text for path in PATHS]
        rows = (await api.get("/api/calls", limit=500))["calls"]
        assert len(rows) == 14
        texts += [(await api.client.get(f"/api/calls/{row['id']}")).text for row in rows]
        texts += [(await api.client.get(f"/api/calls?q={CANARY}&outcome=ok")).text]
        texts.append(repr([await listener.next("call") for _ in range(28)]))
        assert not [text for text in texts if CANARY in text]
        assert "it is ***" in texts[1]
        assert api.runtime.journal is not None
        api.runtime.journal.flush()
    files = [file.read_bytes() for file in (tmp_path / "project").rglob("*") if file.is_file()]
    assert not [data for data in files if CANARY.encode() in data]
    captured = capfd.readouterr()
    assert CANARY not in captured.out + captured.err
