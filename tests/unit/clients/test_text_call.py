"""Calls that a model writes as text: read strictly, and not shown as text."""

from __future__ import annotations

import pytest

from toolrun.clients.text_call import SpokenText, read_calls

KNOWN = {"add", "sub"}
CALL = '{"name": "add", "arguments": {"a": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n {CALL} \n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<think>Hm, {{}}</think>\n{CALL}",
        '{"name": "add", "parameters": {"a": 1}}',
        '```json\n{\n  "name": "add",\n  "arguments": {\n    "a": 1\n  }\n}\n```',
    ],
)
def test_a_text_that_is_a_call_is_read_as_one(text: str) -> None:
    [call] = read_calls(text, KNOWN)
    assert (call.name, call.arguments) == ("add", {"a": 1})


def test_several_tags_are_several_calls() -> None:
    text = f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"name": "sub", "arguments": {{}}}}</tool_call>'
    assert [call.name for call in read_calls(text, KNOWN)] == ["add", "sub"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        f"Use this: {CALL}",
        f"{CALL} That is the call.",
        f"{CALL}{CALL}",
        f"```json\n{CALL}\n```\nThis calls it.",
        f"```python\n{CALL}\n```",
        f"```json\n{CALL}",
        f"[{CALL}]",
        f"<tool_call>{CALL}",
        f"<tool_call>{CALL}</tool_call> Done.",
        f'<tool_call>{CALL}</tool_call><tool_call>{{"name": "nobody", "arguments": {{}}}}</tool_call>',
        '{"name": "nobody", "arguments": {}}',
        '{"name": "add", "arguments": "{}"}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "arguments": null}',
        '{"name": "add"}',
        '{"name": ["add"], "arguments": {}}',
        '{"name": "add", "arguments": {}, "comment": "for example"}',
        '{"name": "add", "arguments": {"a": 1}',
        "{'name': 'add', 'arguments': {}}",
        '{"answer": {"name": "add", "arguments": {}}}',
        '{"name": "add", "arguments": ' + '{"a":' * 3000 + "1" + "}" * 3001,
    ],
)
def test_every_other_text_is_just_text(text: str) -> None:
    assert read_calls(text, KNOWN) == []


def shown(text: str, size: int, *, may_be_call: bool = True) -> tuple[str, str]:
    spoken = SpokenText(may_be_call=may_be_call)
    early = "".join(spoken.feed(text[start : start + size]) for start in range(0, len(text), size))
    return early, spoken.rest()


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_text_is_shown_as_it_comes_and_what_may_be_a_call_at_the_end(size: int) -> None:
    assert shown("Hello, you.", size) == ("Hello, you.", "")
    assert shown(f" {CALL}", size) == ("", f" {CALL}")
    assert shown("```py\nx\n```", size) == ("", "```py\nx\n```")
    assert shown("```py\nx\n```", size, may_be_call=False) == ("```py\nx\n```", "")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_halves_of_a_character_are_shown_together(size: int) -> None:
    assert shown("ab\ud83d\ude00c", size) == ("ab😀c", "")
    assert "".join(shown("ab\ud83d", size)) == "ab\ufffd"
