"""The texts of a definition as models get them."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolrun.hidden_characters import has_hidden, reveal
from toolrun.json import dumps
from toolrun.trust.definition_text import UNLIMITED, clean_definition, clean_schema, clean_text, cut_schema, cut_text

ZW = "\u200b"


def test_a_long_text_is_cut_with_the_number_of_characters_that_are_missing() -> None:
    assert cut_text("abcdef", 4) == "abcd… (cut: 2 more characters)"
    assert cut_text("abcdef", 6) == "abcdef"
    assert clean_text(f"a{ZW}bcdef", 4) == "abc… (cut: 3 more characters)"


def test_texts_at_any_depth_are_cleaned() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "title": f"t{ZW}",
        "properties": {
            "description": {"type": "string", "description": f"d{ZW}", "default": f"x{ZW}", "examples": [f"e{ZW}"]},
            "list": {"items": {"anyOf": [{"title": f"deep{ZW}", "enumDescriptions": [f"one{ZW}"]}]}},
        },
        "$defs": {"a": {"$comment": f"c{ZW}", "x-vendor": {"hint": f"h{ZW}"}}},
    }
    clean, exact = clean_schema(schema, UNLIMITED)
    assert exact == []
    assert ZW.encode() not in dumps(clean)
    assert clean["properties"]["description"]["description"] == "d"
    assert ZW.encode() in dumps(schema)  # which is somebody else's


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"na{ZW}me": {}}},
        {"properties": {"a": {"enum": ["one", f"tw{ZW}o"]}}},
        {"properties": {"a": {"const": {"k": [f"v{ZW}"]}}}},
        {"required": [f"a{ZW}"]},
        {"$defs": {f"a{ZW}": {}}},
    ],
)
def test_what_a_caller_has_to_repeat_is_reported_and_not_changed(schema: dict[str, Any]) -> None:
    clean, exact = clean_schema(schema, UNLIMITED)
    assert clean == schema
    assert len(exact) == 1
    assert "<U+200B>" in exact[0]


@pytest.mark.parametrize("hidden", ["\b", "\f", "\r", "\x00", "\x1b", "\x7f"])
def test_what_is_hidden_in_a_short_ascii_schema_is_found(hidden: str) -> None:
    clean, exact = clean_schema({"properties": {f"n{hidden}": {"description": f"x{hidden}y"}}}, UNLIMITED)
    assert exact == [reveal(f"n{hidden}")]
    assert not has_hidden(clean["properties"][f"n{hidden}"]["description"])


def test_a_property_that_is_called_like_a_keyword_is_a_property() -> None:
    clean, exact = clean_schema({"properties": {"enum": {"description": f"d{ZW}"}, "const": {"title": "t"}}}, UNLIMITED)
    assert exact == []
    assert clean["properties"]["enum"] == {"description": "d"}


@pytest.mark.parametrize("hidden", [ZW, "\U000e0041", "\ufe00\ufe01", "\ufe0f\ufe0f\ufe0f"])
def test_a_pattern_means_the_same_without_hidden_characters(hidden: str) -> None:
    schema: dict[str, Any] = {"pattern": f"^[a{hidden}]+$", "patternProperties": {f"^{hidden}$": {"type": "null"}}}
    clean, exact = clean_schema(schema, UNLIMITED)
    assert exact == []
    assert not has_hidden(dumps(clean).decode())
    judge = jsonschema_rs.validator_for(clean)
    assert judge.is_valid(f"a{hidden}")
    assert not judge.is_valid("b")
    assert not judge.is_valid({hidden: 1})


def test_the_texts_of_a_schema_have_a_limit_each_and_together() -> None:
    texts = {str(number): {"description": "x" * 15} for number in range(30)}
    clean, _ = clean_schema({"properties": texts}, 10)
    found = [it["description"] for it in clean["properties"].values()]
    assert found[0] == "x" * 10 + "… (cut: 5 more characters)"
    assert found[-1] == "… (cut: 15 more characters)"
    assert sum(it.count("x") for it in found) == 100
    assert cut_schema({"properties": texts}, 10) == clean


def test_a_schema_without_anything_to_do_is_the_same() -> None:
    schema = {"type": "object", "properties": {"a": {"description": "plain\n\ttext"}}}
    assert clean_schema(schema, 1000) == (schema, [])


def test_what_is_nested_too_deeply_is_left_to_the_validator() -> None:
    schema: dict[str, Any] = {}
    for _ in range(900):
        schema = {"not": schema, "title": f"a{ZW}"}
    assert clean_schema(schema, UNLIMITED)[0]["title"] == "a"


def test_a_definition_in_the_form_of_mcp_is_cleaned_in_all_its_texts() -> None:
    texts = {"title": f"t{ZW}", "description": f"d{ZW}", "annotations": {"title": f"a{ZW}", "readOnlyHint": True}}
    schema = {"description": f"s{ZW}"}
    assert clean_definition({"name": "n", **texts, "inputSchema": schema, "outputSchema": schema}, UNLIMITED) == {
        "name": "n",
        "title": "t",
        "description": "d",
        "annotations": {"title": "a", "readOnlyHint": True},
        "inputSchema": {"description": "s"},
        "outputSchema": {"description": "s"},
    }
