"""What LangChain's packages send for our tools: the recorded requests, and that they are still sent so."""

from __future__ import annotations

from typing import Any

import pytest

from providers.record import bodies, recorded
from providers.rules import anthropic_problem, ollama_problem


@pytest.fixture(scope="module")
def sent() -> dict[str, dict[str, Any]]:
    return bodies()


@pytest.mark.parametrize("name", ["ollama", "ollama_without_us", "anthropic"])
def test_the_packages_send_what_was_recorded(sent: dict[str, dict[str, Any]], name: str) -> None:
    assert sent[name] == recorded(name)


def test_the_requests_break_no_rule_of_the_provider(sent: dict[str, dict[str, Any]]) -> None:
    assert anthropic_problem(sent["anthropic"]) is None
    assert ollama_problem(sent["ollama"]) is None


def test_ollama_gets_every_tool_with_the_meaning_that_its_package_would_drop() -> None:
    def properties(name: str) -> dict[str, Any]:
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in recorded(name)["tools"]}

    ours, theirs = properties("ollama"), properties("ollama_without_us")
    assert theirs["search"]["properties"]["limit"] == {}
    assert ours["search"]["properties"]["limit"]["type"] == ["integer", "string"]
    assert "properties" not in theirs["shape"]
    assert ours["drawing__shape"]["properties"]["kind"] == {"type": "string", "enum": ["circle", "box"]}
    assert theirs["draw"]["properties"]["start"] == {"type": "object", "description": "Where it begins."}
    start = "Where it begins. ({x: integer (Column, at least 0), y?: integer (Row, default 0)})"
    assert ours["draw"]["properties"]["start"] == {"type": "object", "description": start}
