"""Names there and back, forms, and arguments as the model meant them."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from providers.offered import QUERY, SHAPE, TOOLS, set_light
from toolrun import ErrorKind, ToolExecutor, tool
from toolrun.clients.dialect import PROVIDERS, for_provider, unparse
from toolrun.errors import DefinitionError
from toolrun.json import JSON


def named(name: str) -> Any:
    return SimpleNamespace(name=name, description="Try.", schema={"type": "object"})


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [it.get("function", it)["name"] for it in tools]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_tool_is_offered_in_order_and_leads_back(provider: str) -> None:
    offer = for_provider(TOOLS, provider)
    assert [offer.name_of(name) for name in names(offer.tools)] == [it.name for it in TOOLS]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_offer_is_json(provider: str) -> None:
    tools = for_provider(TOOLS, provider).tools
    assert json.loads(json.dumps(tools)) == tools


def test_names_are_what_the_provider_accepts() -> None:
    given = ["a.b", "a_b", "2nd", "x" * 128]
    sent = names(for_provider(map(named, given), "anthropic").tools)
    assert sent[1:3] == ["a_b", "2nd"]
    assert len(set(sent)) == 4
    assert max(map(len, sent)) == 64
    assert names(for_provider(map(named, given), "gemini").tools)[:3] == ["a.b", "a_b", "_2nd"]
    assert names(for_provider(map(named, given), "ollama").tools) == given


def test_a_name_that_was_not_offered_stays_for_the_executor_to_refuse() -> None:
    offer = for_provider([set_light], "anthropic")
    assert offer.name_of("lights_on") == "lights_on"
    assert offer.arguments_of("lights_on", {"a": 1}) == {"a": 1}


def test_a_new_name_is_reported() -> None:
    (report,) = for_provider([set_light], "anthropic").report
    assert report.to_dict() == {
        "tool": "lights.set",
        "path": "",
        "what": "name lights.set",
        "where": "sent as lights_set",
    }


def test_parameters_get_names_that_the_provider_accepts_and_their_own_ones_back() -> None:
    offer = for_provider([QUERY], "anthropic")
    schema: Any = offer.tools[0]["input_schema"]
    assert list(schema["properties"]) == ["_top", "filter_name_", "tags"]
    assert schema["required"] == ["filter_name_"]
    sent: dict[str, JSON] = {"_top": 3, "filter_name_": "lamp", "tags": [], "more": 1}
    assert offer.arguments_of("list_items", sent) == {"$top": 3, "filter[name]": "lamp", "tags": [], "more": 1}
    assert list(QUERY.schema["properties"]) == ["$top", "filter[name]", "tags"]


def test_the_name_of_langchain_is_offered_and_leads_to_the_tool() -> None:
    offer = for_provider([SHAPE], "mcp")
    assert names(offer.tools) == ["drawing__shape"]
    assert offer.name_of("drawing__shape") == "shape"


def test_mcp_gets_the_schema_as_it_is() -> None:
    assert for_provider([QUERY], "mcp").tools == [
        {"name": "list_items", "description": "List what is there.", "inputSchema": QUERY.schema}
    ]


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no dialect for 'grok'; there are ollama, anthropic, openai, gemini, mcp"):
        for_provider([], "grok")


def test_a_tool_without_a_schema_is_named() -> None:
    with pytest.raises(DefinitionError, match="Tool 'odd': there is no schema"):
        for_provider([SimpleNamespace(name="odd", description="Try.")], "ollama")


def test_only_ollama_is_told_of_in_the_log_as_qwen(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "toolrun"):
        for_provider(TOOLS, "anthropic")
    assert caplog.messages == ["🔧 Converted 6 tools from LangChain to Anthropic format"]


TEXTS: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
        "choice": {"enum": ["[1]", "b"]},
        "both": {"type": ["string", "object"]},
        "list": {"type": "array"},
        "any": {},
    },
    "$defs": {"text": {"allOf": [{"type": "string"}, {"maxLength": 100}]}},
}


@pytest.mark.parametrize(
    ("name", "parsed", "unparsed"),
    [
        ("text", {"a": [1, None]}, '{"a": [1, null]}'),
        ("text", ["ä"], '["ä"]'),
        ("text", [("a", 1)], "[('a', 1)]"),
        ("text", {1: "a"}, "{1: 'a'}"),
        ("text", [{1}], "[{1}]"),
        ("text", "[1]", "[1]"),
        ("text", 5, 5),
        ("maybe", [1], "[1]"),
        ("choice", [1], "[1]"),
        ("both", {"a": 1}, {"a": 1}),
        ("list", [1], [1]),
        ("any", [1], [1]),
        ("unknown", [1], [1]),
    ],
)
def test_text_that_arrived_parsed_is_text_again_where_only_text_will_do(name: str, parsed: Any, unparsed: Any) -> None:
    arguments = {name: parsed}
    assert unparse(arguments, TEXTS) == {name: unparsed}
    assert arguments == {name: parsed}


def test_a_parameter_of_an_alternative_at_the_root_is_found() -> None:
    schema: dict[str, Any] = {"oneOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": TEXTS}}
    assert unparse({"text": [1]}, schema) == {"text": "[1]"}


def test_ollamas_arguments_are_unparsed_by_the_offer() -> None:
    given = SimpleNamespace(name="write", description="Write.", schema=TEXTS)
    assert for_provider([given], "ollama").arguments_of("write", {"text": {"a": 1}}) == {"text": '{"a": 1}'}
    assert for_provider([given], "anthropic").arguments_of("write", {"text": {"a": 1}}) == {"text": {"a": 1}}


async def test_what_fits_the_simplified_schema_alone_is_refused_by_the_original(executor: ToolExecutor) -> None:
    @tool
    def dim(level: int, room: str | None = None) -> str:
        """Dim the light."""
        return f"{level} {room}"

    properties: Any = dim.schema["properties"]
    properties["level"] |= {"maximum": 100}
    executor.manager.add(dim)
    offer = for_provider(executor.manager, "ollama")
    assert offer.tools[0]["function"]["parameters"]["properties"]["level"] == {  # type: ignore[index,call-overload]
        "type": "integer",
        "description": "at most 100",
    }
    assert (await executor.execute("dim", {"level": 101})).error_kind is ErrorKind.INVALID_ARGUMENTS
    assert (await executor.execute("dim", {"level": 100, "room": None})).text == "100 None"


async def test_an_object_that_gemini_sends_as_text_arrives_as_one(executor: ToolExecutor) -> None:
    @tool
    def label(labels: dict[str, str]) -> str:
        """Label it."""
        return str(labels)

    executor.manager.add(label)
    declared: Any = for_provider(executor.manager, "gemini").tools[0]
    assert declared["parameters"]["properties"]["labels"]["type"] == "string"
    assert (await executor.execute("label", {"labels": '{"a": "b"}'})).text == "{'a': 'b'}"
