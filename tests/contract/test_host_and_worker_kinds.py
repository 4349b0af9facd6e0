"""As `test_host_and_worker.py`: names of types, styles of docstrings, and whatever can be called."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from support.host_and_worker import ENVIRONMENTS, Script, ask, host_answer, host_tool, load
from toolrun import ToolExecutor
from toolrun.errors import DefinitionError, ErrorKind

DATE = "2024-05-01"
NESTED = {"at": DATE, "below": [{"at": DATE, "named": {"x": {"at": DATE}, "y": None}}]}
ALIASES = load("aliases")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("aliases", {"a": {"x": [1, None, {"y": ["z"]}]}}),
    ("aliases", {"a": None, "b": [DATE, [DATE, []]], "c": 2, "d": [1, 2.5]}),
    ("in_quotes", {"a": [NESTED]}),
    ("in_quotes", {"a": [], "b": [[DATE]], "c": NESTED}),
    ("new_types", {"a": "x", "b": ["y"], "c": [1]}),
    ("not_unicode", {}),
    ("google", {"a": 1, "b": 2, "c": 3}),
    ("numpy", {"a": 1, "b": 2, "c": 3}),
    ("sphinx", {"a": 1, "b": 2, "c": 3}),
]
if "statements" in ALIASES.__all__:
    CALLS.append(("statements", {"a": 1, "b": [[2]], "c": [{"x": DATE}], "d": [[DATE]], "e": DATE}))
UNFIT: list[tuple[str, dict[str, Any]]] = [
    ("aliases", {"a": {"x": [1, {"y": [1.5]}]}}),
    ("aliases", {"a": 1, "b": [[1]]}),
    ("in_quotes", {"a": [{"at": DATE, "below": [{"at": 1}]}]}),
]


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def aliases(request: pytest.FixtureRequest) -> Script:
    return ask("aliases", CALLS, ENVIRONMENTS[request.param])


@pytest.mark.parametrize("name", ALIASES.__all__)
def test_a_name_of_a_type_has_the_same_schema(aliases: Script, name: str) -> None:
    tool, described = host_tool(ALIASES, name), aliases.functions[name]
    assert described["schema"] == tool.schema
    assert described["description"] == tool.description
    assert aliases.warnings == []
    jsonschema_rs.meta.validate(described["schema"])


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda it: f"{CALLS[it][0]} {it}")
async def test_a_name_of_a_type_makes_the_same_values(aliases: Script, executor: ToolExecutor, number: int) -> None:
    name, arguments = CALLS[number]
    result = await host_answer(executor, host_tool(ALIASES, name), arguments)
    assert (result.repairs, result.error) == ((), None)
    assert aliases.answers[number] == (result.result, None)


@pytest.mark.parametrize(("name", "arguments"), UNFIT)
async def test_a_type_that_contains_itself_is_checked_at_any_depth(
    executor: ToolExecutor, name: str, arguments: dict[str, Any]
) -> None:
    result = await host_answer(executor, host_tool(ALIASES, name), arguments)
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("name", "descriptions"),
    [
        ("google", ["The first: with a colon.", "The others.", "The others.", "The last."]),
        ("numpy", ["The first. Still the first.", "The others.", "The others.", "The last."]),
        ("sphinx", ["The first, over two lines.", "The second.", "The third.", "The last."]),
    ],
)
def test_every_parameter_that_a_docstring_describes_is_described(name: str, descriptions: list[str]) -> None:
    schema: Any = host_tool(ALIASES, name).schema
    assert [it.get("description") for it in schema["properties"].values()] == descriptions


CALLABLES = load("callables")


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def callables(request: pytest.FixtureRequest) -> Script:
    return ask("callables", [(name, {"count": 3.0}) for name in CALLABLES.TOOLS], ENVIRONMENTS[request.param])


@pytest.mark.parametrize("name", CALLABLES.TOOLS)
async def test_what_can_be_called_is_the_same_tool(callables: Script, executor: ToolExecutor, name: str) -> None:
    tool, described = host_tool(CALLABLES, name), callables.functions[name]
    assert (described["schema"], described["async"]) == (tool.schema, tool.is_async)
    assert described["description"] == tool.description
    result = await host_answer(executor, tool, {"count": 3.0})
    assert callables.answers[CALLABLES.TOOLS.index(name)] == (result.result, None)


@pytest.mark.parametrize("name", [*CALLABLES.GENERATORS, "module"])
def test_what_has_no_answer_is_no_tool_for_the_same_reason(callables: Script, name: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        host_tool(CALLABLES, name)
    assert str(caught.value) == f"Tool '{name}': {callables.skipped[name]}."
