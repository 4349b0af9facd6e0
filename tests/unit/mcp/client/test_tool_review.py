"""What becomes of the tools that a server lists, before anybody else sees them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolrun.config.model import McpSettings, ServerSettings
from toolrun.mcp.client.channel import Server
from toolrun.mcp.client.session import ListedTool
from toolrun.mcp.client.tool_review import reached_by, review_tools
from toolrun.processes.local import LocalEngine
from toolrun.redaction import Redactor

ZW = "\u200b"


def server(environ: dict[str, str] | None = None, **settings: Any) -> Server:
    given = ServerSettings(**(settings or {"command": "lamps"}))
    return Server("lamps", given, McpSettings(), Path(), environ or {}, LocalEngine(), Path())


def reviewed(listed: ListedTool, limit: int = 10_000) -> ListedTool | None:
    tools = review_tools(server(), [listed], limit, None, Redactor())
    return tools[0] if tools else None


def test_a_tool_without_anything_hidden_is_passed_on_as_it_is() -> None:
    listed = ListedTool("dim", "Dim a lamp.", {"type": "object"})
    passed = reviewed(listed)
    assert passed is not None
    assert replace(passed, definition="") == listed
    assert passed.schema is listed.schema


def test_models_get_clean_texts_and_people_the_ones_that_were_said() -> None:
    said = ListedTool(
        "dim",
        f"Dim{ZW} a lamp.",
        {"type": "object", "properties": {"a": {"description": f"x{ZW}"}}},
        title=f"T{ZW}",
        output_schema={"type": "object", "description": f"o{ZW}"},
        annotations={"title": f"A{ZW}", "readOnlyHint": True},
    )
    clean = reviewed(said)
    assert clean is not None
    assert (clean.description, clean.title) == ("Dim a lamp.", "T")
    assert clean.schema["properties"] == {"a": {"description": "x"}}
    assert clean.output_schema == {"type": "object", "description": "o"}
    assert clean.annotations == {"title": "A", "readOnlyHint": True}
    assert clean.as_said is not None
    assert clean.as_said.description == said.description
    assert clean.as_said.schema == said.schema


def test_a_description_of_5_mb_is_cut_for_everybody() -> None:
    size = 5_000_000
    clean = reviewed(ListedTool("dim", ZW * size, {"type": "object", "description": "y" * size}), 100)
    assert clean is not None
    assert clean.description == f"… (cut: {size - 100:,} more characters)"
    assert clean.schema["description"] == "y" * 100 + f"… (cut: {size - 100:,} more characters)"
    assert clean.as_said is not None
    assert len(clean.as_said.description) < 200


def test_a_tool_whose_parameters_cannot_be_shown_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert reviewed(ListedTool(f"di{ZW}m", "", {"type": "object", "properties": {f"na{ZW}me": {}}})) is None
    assert "the schema of 'di<U+200B>m' has hidden characters in names or values" in caplog.text
    assert "na<U+200B>me" in caplog.text


def test_hidden_characters_in_a_name_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    assert reviewed(ListedTool(f"di{ZW}m", "Dim a lamp.", {"type": "object"})) is not None
    assert "lists a tool with hidden characters in its name: di<U+200B>m" in caplog.text


def test_how_a_server_is_reached_has_no_secrets() -> None:
    args = ("-y", "pkg@1", "--api-key", "k-1", "--token=k-2", "--config", "hunter2hunter2", "s-e-c-r-e-t", "--key-file")
    environ = {"DB_PASSWORD": "hunter2hunter2", "PATH": "pkg@1"}
    found = reached_by(server(environ, command="npx", args=args), Redactor(["s-e-c-r-e-t"]))
    assert found == {
        "command": "npx",
        "args": ["-y", "pkg@1", "--api-key", "***", "--token=***", "--config", "***", "***", "--key-file"],
    }
    address = "https://user:pass@tools.example:8443/mcp?key=abc#part"
    assert reached_by(server(url=address), Redactor()) == {"url": "https://tools.example:8443/mcp"}
