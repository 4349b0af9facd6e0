"""A pattern means what its author tested: pydantic takes and refuses the same values with toolrun as without."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from toolrun import ErrorKind, ToolExecutor, tool

PATTERNS = [
    *("^a", "b$", "a|b", "^a|b$", "^$", "", ".", "^.$", "^a.c$", "^[a-z]{2,4}$", "^(?:a|b)+$", "^(ab)?$", "^[^\\n]+$"),
    *(r"^a\.b$", r"^[a\-z]$", "^[-a]$", "^[A-Z]{3}-[0-9]{4}$", r"^\$[0-9]+$", "^é$", "^[à-ü]+$"),
    *(
        r"^\d+$",
        r"^\w+$",
        r"\s",
        r"\bfoo\b",
        "(?i)^abc$",
        "(?m)^b$",
        "(?s)^a.b$",
        "^(?P<x>ab)$",
        r"[\w.-]+@[\w-]+\.\w+",
    ),
]
OF_RUST = [*PATTERNS, r"\Aab\z", r"^\p{Lu}", "[[:alpha:]]", "^[a-z&&[^b]]$"]
OF_PYTHON = [*PATTERNS, r"^a\Z", "(?=a)a", "(?<!b)a", r"^(a)\1$"]
VALUES = [
    *(
        "",
        "a",
        "ab",
        "abc",
        "ABC",
        "b",
        "z",
        "-",
        "\\",
        "aa",
        "xx",
        "a\n",
        "ab\n",
        "b\n",
        "abc\n",
        "a\nb",
        "a\rb",
        "a\rc",
    ),
    *("a\u2028c", "١٢", "12", "é", "É", "aé", "ſ", "\u212a", "\u00a0", " ", "foo bar", "x foo", "a.b", "axb", "$12"),
    *("ABC-1234", "ABC-1234\n", "foo@bar.de", "a-z"),
]


def tool_with(hint: Any) -> Any:
    def take(a: Any) -> str:
        """Take it."""
        return "taken"

    take.__annotations__["a"] = hint
    return tool(take)


async def check_same_verdict(executor: ToolExecutor, hint: Any, wrap: Any = lambda value: value) -> None:
    executor.manager.add(tool_with(hint))
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    for value in VALUES:
        try:
            adapter.validate_python(wrap(value))
            expected = None
        except ValidationError:
            expected = ErrorKind.INVALID_ARGUMENTS
        result = await executor.execute("take", {"a": wrap(value)})
        assert (value, result.error_kind) == (value, expected)
        assert result.repairs == ()


@pytest.mark.parametrize("pattern", OF_RUST)
async def test_a_pattern_of_a_field_judges_as_pydantic_does(executor: ToolExecutor, pattern: str) -> None:
    await check_same_verdict(executor, Annotated[str, Field(pattern=pattern)])


@pytest.mark.parametrize("pattern", OF_PYTHON)
async def test_a_compiled_pattern_judges_as_python_does(executor: ToolExecutor, pattern: str) -> None:
    await check_same_verdict(executor, Annotated[str, Field(pattern=re.compile(pattern))])


async def test_the_flags_of_a_compiled_pattern_count(executor: ToolExecutor) -> None:
    await check_same_verdict(executor, Annotated[str, Field(pattern=re.compile("^abc", re.IGNORECASE))])


@pytest.mark.parametrize("pattern", OF_PYTHON)
async def test_a_pattern_in_a_model_for_pythons_engine_judges_as_python_does(
    executor: ToolExecutor, pattern: str
) -> None:
    class Model(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        text: str = Field(pattern=pattern)

    await check_same_verdict(executor, Model, lambda value: {"text": value})


@pytest.mark.parametrize("pattern", OF_RUST)
async def test_a_pattern_for_names_judges_as_pydantic_does(executor: ToolExecutor, pattern: str) -> None:
    hint = dict[Annotated[str, Field(pattern=pattern)], int]
    await check_same_verdict(executor, hint, lambda value: {value: 1})


def test_a_pattern_that_means_the_same_everywhere_stays_in_the_schema() -> None:
    made = tool_with(Annotated[str, Field(pattern="^[A-Z]{3}-[0-9]{4}$", description="The id")])
    assert made.schema["properties"]["a"] == {
        "type": "string",
        "pattern": "^[A-Z]{3}-[0-9]{4}$",
        "description": "The id",
    }


def test_a_pattern_that_json_schema_reads_otherwise_is_told_in_words() -> None:
    class Model(BaseModel):
        id: str = Field(pattern=r"^\d+$", description="The id")

    rule = r"Must match the regular expression ^\d+$"
    number = Annotated[str, Field(pattern=r"^\d+$")]
    assert tool_with(number).schema["properties"]["a"] == {"type": "string", "description": rule}
    assert tool_with(Annotated[number, "How many"]).schema["properties"]["a"]["description"] == f"How many\n{rule}"
    assert tool_with(list[number]).schema["properties"]["a"]["items"] == {"type": "string", "description": rule}
    inner = tool_with(Model).schema["properties"]["a"]["properties"]["id"]
    assert "pattern" not in inner
    assert inner["description"] == f"The id\n{rule}"


def test_the_words_of_a_docstring_stand_before_the_rule() -> None:
    def take(a: Annotated[str, Field(pattern=r"^\d+$")]) -> None:
        """Take it.

        Args:
            a: How many.
        """

    take.__annotations__["a"] = Annotated[str, Field(pattern=r"^\d+$")]
    made: Any = tool(take)
    description = made.schema["properties"]["a"]["description"]
    assert description == "How many.\nMust match the regular expression ^\\d+$"


def test_a_parameter_that_is_called_pattern_is_left_alone() -> None:
    class Search(BaseModel):
        pattern: str = Field(pattern=r"^\d$")
        limit: dict[str, str] = {"pattern": r"\d"}

    schema = tool_with(Search).schema["properties"]["a"]
    assert set(schema["properties"]) == {"pattern", "limit"}
    assert schema["properties"]["limit"]["default"] == {"pattern": r"\d"}
