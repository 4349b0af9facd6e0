"""`toolrun describe --for PROVIDER TOOL`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.console import QUICKSTART, TOOLRUN, on_terminal, toolrun, write_project
from toolrun.clients.dialect import PROVIDERS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_each_provider_gets_is_shown_as_json(provider: str) -> None:
    done = toolrun("describe", "add", "--for", provider, "--json", cwd=QUICKSTART)
    shown = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert shown["tool"].get("function", shown["tool"])["name"] == "add"
    assert shown["simplified"] == []


def test_that_nothing_was_simplified_is_said() -> None:
    done = toolrun("describe", "add", "--for", "ollama", cwd=QUICKSTART)
    sent, _, report = done.stdout.partition("\n\n")
    assert json.loads(sent)["type"] == "function"
    assert report == "Nothing is simplified.\n"


def test_the_name_is_the_one_that_the_tool_gets_among_the_others(tmp_path: Path) -> None:
    write_project(
        tmp_path,
        names="""
            @tool(name="a_b")
            def one() -> str:
                "One."
                return "one"

            @tool(name="a.b")
            def other() -> str:
                "The other."
                return "other"
        """,
    )
    done = toolrun("describe", "a.b", "--for", "anthropic", cwd=tmp_path)
    sent, _, report = done.stdout.partition("\n\n")
    name = json.loads(sent)["name"]
    assert re.fullmatch("a_b_[0-9a-f]{8}", name)
    assert report == f"Simplified:\n  (tool): name a.b → sent as {name}\n"


def test_a_terminal_shows_the_same() -> None:
    code, shown = on_terminal(str(TOOLRUN), "describe", "set_light", "--for", "ollama", cwd=QUICKSTART)
    assert code == 0
    assert "brightness: default 100 → description" in shown


def test_an_unknown_provider_or_tool_is_wrong_usage() -> None:
    done = toolrun("describe", "add", "--for", "grok", cwd=QUICKSTART)
    assert done.returncode == 2
    assert "'grok' is not one of 'ollama', 'anthropic', 'openai', 'gemini', 'mcp'" in done.stderr
    done = toolrun("describe", "ad", "--for", "ollama", cwd=QUICKSTART)
    assert done.returncode == 2
    assert "Tool 'ad' not found" in done.stderr
    assert done.stdout == ""
