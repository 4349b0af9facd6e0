"""The same function has the same schema and gives the same answer as `@tool` and as a script.

On the host it runs in an executor, as a script in a real worker: once with this environment's packages, among them
orjson and pydantic, and once with the standard library only. What differs is listed at the end, with the reason.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import jsonschema_rs
import pytest

from support.host_and_worker import ENVIRONMENTS, Script, ask, host_answer, host_tool, load
from support.worker_process import PYTHON
from toolrun import ToolExecutor
from toolrun.errors import DefinitionError, ErrorKind

ADDRESS = re.compile(r"0x[0-9a-f]+")


# Functions whose parameters need no package.

DATE = "2024-05-01"
MOMENT = f"{DATE}T12:30:00"
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("nothing", {}),
    ("unhinted", {"a": 3.0}),
    ("unhinted", {"a": [1], "b": {"x": 1}, "c": "c"}),
    ("plain", {"a": "x", "b": 3.0, "c": 3, "d": True}),
    ("plain", {"a": "", "b": 2**70, "c": 1.5, "d": False, "e": None, "f": [1], "g": {"x": None}}),
    ("as_text", {"a": "x"}),
    ("as_text", {"a": "x", "b": 2.0, "c": [{"x": 1}]}),
    ("containers", {"a": [1, "b"], "b": {"c": 1}}),
    ("containers", {"a": [], "b": {}, "c": [1], "d": [2, 1], "e": [3], "f": {"x": 1}}),
    ("lists", {"a": [1.0, 2]}),
    ("lists", {"a": [], "b": [[1]], "c": ["x"], "d": [4.0]}),
    ("mappings", {"a": {"x": 1}}),
    ("mappings", {"a": {}, "b": {"x": [1]}, "c": {"7": "a"}, "e": {"x": 1.0}, "f": {"x": [{"y": 2.0}]}}),
    ("mappings", {"a": {}, "g": {"00000000-0000-0000-0000-000000000005": 1}}),
    ("sets", {"a": [2, 1]}),
    ("sets", {"a": [], "b": ["x"]}),
    ("tuples", {"a": [1.0, "x"]}),
    ("tuples", {"a": [1, "x"], "b": [1, 2.5], "c": []}),
    ("named_tuples", {"a": [1.0]}),
    ("named_tuples", {"a": [1, "x"], "b": [1, "y"], "c": [2]}),
    ("unions", {"a": 3.0}),
    ("unions", {"a": "3", "b": 2.0, "c": 2, "d": MOMENT, "e": {"side": 2}, "f": 1, "g": [1.0]}),
    ("unions", {"a": 1, "b": None, "c": 2.5, "d": "later", "e": {"radius": 2}, "f": False, "g": {"x": 1.0}}),
    ("literals", {"a": "fast"}),
    ("literals", {"a": "slow", "b": 2.0, "c": 1, "d": "red", "e": True}),
    ("literal_members", {"a": "low"}),
    ("literal_members", {"a": "high", "b": 2.0, "c": "ROUND", "d": 1, "e": ["low", 7.0], "f": "red"}),
    ("literal_members", {"a": "low", "c": "none", "d": 0.5, "f": None}),
    ("enums", {"a": "red"}),
    ("enums", {"a": 2, "b": 1.0, "c": "ROUND", "d": "red"}),
    ("records", {"a": {"x": 1.0}}),
    ("records", {"a": {"x": 1, "y": 2, "tags": ["t"], "wait": "PT1H"}, "c": [{"x": 2}], "d": {"k": {"x": 3}}}),
    ("scaled", {"a": {"size": 2, "factor": 3}}),
    ("recursive", {"a": {"value": 1, "children": [{"value": 2.0}]}}),
    ("recursive", {"a": {"value": 1}, "b": {"value": 2}, "c": {"city": "Rome", "via": {"city": "Oslo"}}}),
    ("typed_dicts", {"a": {"city": "Rome"}}),
    ("typed_dicts", {"a": {"city": "Rome"}, "b": {"city": "Oslo", "stops": [{"city": "Bonn"}]}, "c": []}),
    ("moments", {"a": MOMENT}),
    ("moments", {"a": f"{MOMENT}Z", "b": f"{DATE}T00:00:00", "c": "01:02:03", "d": "P1DT2H3M4.5S", "e": None}),
    ("moments", {"a": f"{DATE} 12:30:00+02:00", "d": "-PT1M"}),
    ("moments", {"a": DATE, "d": "1 day, 2:00:00"}),
    ("moments", {"a": MOMENT, "d": "00:01:30"}),
    ("texts", {}),
    ("texts", {"a": "00000000000000000000000000000007", "b": "x/y", "c": "z", "d": "ä", "e": 0.1}),
    ("texts", {"e": "1e5"}),
    ("described", {"a": 1}),
    ("described", {"a": 1, "b": "x", "c": [1.0], "d": {"x": 1}, "e": 4.0}),
    ("odd_defaults", {}),
    ("further", {"a": 1, "z": 2, "y": 3}),
    ("further", {"a": 1, "z": 2.0}),
    ("further_moments", {"a": 1, "z": DATE}),
    ("further_records", {"p": {"x": 1.0}, "q": None}),
    ("further_values", {"z": [1], "y": None}),
    ("options", {"a": 1.0, "unit": "C"}),
    ("options", {"a": 1, "unit": "F", "depth": 2.0, "until": DATE}),
    ("options_as_text", {}),
    ("options_as_text", {"until": DATE}),
    ("yielded", {"count": 3}),
    ("yielded", {"count": 0}),
    ("mapped", {"words": ["a", "b"]}),
    ("wrapped_stream", {"a": DATE}),
    ("held_streams", {"count": 3}),
    ("awaited_held_streams", {"count": 2}),
    ("awaited_stream", {"count": 2}),
    ("async_stream", {"count": 2}),
    ("plain_async_stream", {"count": 2}),
    ("class_method", {"a": 1.0}),
    ("static_method", {"a": 1.0}),
    ("google", {"a": 1}),
    ("numpy", {"a": 1}),
    ("sphinx", {"a": 1, "b": "y"}),
    ("behind_a_decorator", {"a": 1.0, "b": {"x": 1}}),
    ("cached", {}),
    ("method", {"a": 1.0, "b": {"x": 1}}),
    ("adder", {"a": 1.0}),
    ("partial", {"a": 1}),
    ("waited", {"a": "PT90S"}),
    ("bars", {"a": 1.0, "b": [1.0], "c": "x"}),
    ("bars", {"a": None, "b": {"k": {"x": 1}}, "c": {"x": 1}}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("further_moments", {"a": 1, "z": "soon"}),
    ("further_records", {"p": {"x": 1, "wait": "x"}}),
    ("options", {"a": 1, "unit": "C", "until": "soon"}),
    ("moments", {"a": "yesterday"}),
    ("moments", {"a": MOMENT, "b": MOMENT}),
    ("moments", {"a": MOMENT, "c": "noon"}),
    ("moments", {"a": MOMENT, "d": "soon"}),
    ("moments", {"a": MOMENT, "d": "P"}),
    ("texts", {"a": "5"}),
    ("texts", {"e": "x"}),
    ("texts", {"e": "NaN"}),
    ("scaled", {"a": {"size": 1, "factor": 0}}),
    ("mappings", {"a": {}, "c": {"x": "a"}}),
    ("mappings", {"a": {}, "d": {"3": 1}}),
    ("containers", {"a": [], "b": {}, "d": [[1]]}),
    ("records", {"a": {"x": 1, "wait": "x"}, "c": []}),
    ("records", {"a": {"x": 1}, "c": [{"x": 1}, {"x": 1, "wait": "x"}]}),
]
"""What fits the schema, and not the type."""
UNFIT: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("plain", {"a": 1, "b": "x", "c": None, "d": "maybe"}),
    ("lists", {"a": [1, "x"]}),
    ("literals", {"a": "fats"}),
    ("literal_members", {"a": "middle"}),
    ("further", {"a": 1, "z": "two"}),
    ("further_moments", {"a": 1, "z": 5}),
    ("options", {"a": 1}),
    ("options", {"a": 1, "unit": "K"}),
    ("options", {"a": 1, "unit": "C", "depth": "deep"}),
    ("enums", {"a": "green"}),
    ("tuples", {"a": [1]}),
    ("records", {"a": {"y": 1}}),
    ("mappings", {"a": {}, "e": {"z": 1}}),
]
"""What does not fit the schema, so that no worker gets to see it."""
REASONS = {
    "many": "parameter 'args' cannot be passed by name; a model passes all arguments by name",
    "placed": "parameter 'a' cannot be passed by name; a model passes all arguments by name",
    "generator": "return a list instead",
    "async_generator": "return a list instead",
    "unbound_method": "the method 'method' of the class 'Client' without an object",
    "unbound_class_method": "use its bound method, as Client(…).maker",
}
"""Functions that are no tools, and what both sides say of them."""

PARAMETERS = load("parameters")
ON_HOST_ONLY = {"address": "IPv4Address", "deques": "deque"}
"""Types that pydantic reads: a script whose environment lacks it takes any value, and its worker warns."""
IN_SCRIPTS_ONLY = {
    "inexpressible": "Callable",
    "unresolvable": "Missing",
}
"""Hints that nobody can read: the host refuses the function, because the one who registers it can change it. A script
may be somebody else's, and worked before it was a tool: it is offered, takes any value there, and its worker warns."""
SAME = [it for it in PARAMETERS.__all__ if it not in {*REASONS, *ON_HOST_ONLY, *IN_SCRIPTS_ONLY}]


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def parameters(request: pytest.FixtureRequest) -> Script:
    return ask("parameters", known_to_the_worker([*ACCEPTED, *REFUSED]), ENVIRONMENTS[request.param])


def known_to_the_worker(calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return [(name if name in SAME else "nothing", arguments) for name, arguments in calls]


def of_this_python(script: Script, name: str) -> None:
    if name in ("bars", "options", "options_as_text") and name not in script.functions:
        pytest.skip("the worker's Python is older than `int | None`, or than Unpack")


@pytest.mark.parametrize("name", SAME)
def test_the_schema_and_the_description_are_the_same(parameters: Script, name: str) -> None:
    of_this_python(parameters, name)
    tool, described = host_tool(PARAMETERS, name), parameters.functions[name]
    assert described["schema"] == tool.schema
    assert described["description"] == tool.description
    assert described["async"] == tool.is_async
    jsonschema_rs.meta.validate(described["schema"])


WRONG_DEFAULTS = {("odd_defaults", "e"), ("behind_a_decorator", "b")}
"""`e: int = None`, as people write it."""


@pytest.mark.parametrize("name", SAME)
def test_defaults_in_the_schema_fit_it(name: str) -> None:
    schema: Any = host_tool(PARAMETERS, name).schema
    for parameter, own in schema["properties"].items():
        if "default" in own and (name, parameter) not in WRONG_DEFAULTS:
            jsonschema_rs.validate({**own, "$defs": schema.get("$defs", {})}, own["default"])


@pytest.mark.parametrize("number", range(len(ACCEPTED)), ids=lambda it: f"{ACCEPTED[it][0]} {it}")
async def test_arguments_arrive_as_the_same_values(parameters: Script, executor: ToolExecutor, number: int) -> None:
    name, arguments = ACCEPTED[number]
    of_this_python(parameters, name)
    result = await host_answer(executor, host_tool(PARAMETERS, name), arguments)
    assert result.repairs == (), "the worker would not get what is written here"
    assert parameters.answers[number] == (result.result, result.error)
    assert result.error is None


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=lambda it: f"{REFUSED[it][0]} {it}")
async def test_arguments_that_a_type_refuses_are_refused_in_the_same_words(
    parameters: Script, executor: ToolExecutor, number: int
) -> None:
    name, arguments = REFUSED[number]
    of_this_python(parameters, name)
    result = await host_answer(executor, host_tool(PARAMETERS, name), arguments)
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert parameters.answers[len(ACCEPTED) + number] == (None, result.error)


class Described:
    """A script's function as the executor sees it: it has the schema that the worker sent."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.name, self.description, self.schema = described["name"], described["description"], described["schema"]

    def invoke(self, arguments: dict[str, Any]) -> object:
        raise AssertionError(f"{arguments} got through")


@pytest.mark.parametrize("number", range(len(UNFIT)), ids=lambda it: f"{UNFIT[it][0]} {it}")
async def test_arguments_that_do_not_fit_the_schema_are_refused_in_the_same_words(
    parameters: Script, executor: ToolExecutor, number: int
) -> None:
    name, arguments = UNFIT[number]
    of_this_python(parameters, name)
    here = await host_answer(executor, host_tool(PARAMETERS, name), arguments)
    executor.manager.add(Described(parameters.functions[name]))
    there = await executor.execute(name, arguments)
    assert here.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert (here.error, here.detail) == (there.error, there.detail)


@pytest.mark.parametrize("name", REASONS)
def test_what_cannot_be_a_tool_is_none_for_the_same_reason(parameters: Script, name: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        host_tool(PARAMETERS, name)
    assert REASONS[name] in str(caught.value)
    assert REASONS[name] in parameters.skipped[name]


# Functions that return everything.

ANSWERS = load("answers")


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def answers(request: pytest.FixtureRequest) -> Script:
    calls = [(function, {"name": name}) for name in ANSWERS.VALUES for function in ("value", "value_later")]
    return ask("answers", calls, ENVIRONMENTS[request.param])


@pytest.mark.parametrize("name", list(ANSWERS.VALUES))
async def test_the_same_value_is_the_same_answer(answers: Script, executor: ToolExecutor, name: str) -> None:
    number = 2 * list(ANSWERS.VALUES).index(name)
    for offset, function in enumerate(("value", "value_later")):
        result = await host_answer(executor, host_tool(ANSWERS, function), {"name": name})
        assert result.error is None
        found, error = answers.answers[number + offset]
        assert error is None
        assert without_addresses(found) == without_addresses(result.result)


def without_addresses(value: Any) -> Any:
    if isinstance(value, str):
        return ADDRESS.sub("0x", value) if value.startswith("<") else value
    if isinstance(value, dict):
        return {key: without_addresses(item) for key, item in value.items()}
    return [without_addresses(item) for item in value] if isinstance(value, list) else value


# Functions that need pydantic: the same where the script's environment has it.

MODELS = load("models")
MODEL_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("models", {"a": {"inner": {"n": 1.0}}}),
    ("models", {"a": {"inner": {"n": 1}, "more": [{"n": 2}], "at": MOMENT, "wait": "PT1S"}, "c": [{"n": 3}]}),
    ("models", {"a": {"inner": {"n": 1}}, "c": [{"n": 1}, {"n": 2}]}),
    ("models", {"a": {"inner": {"n": 1}, "more": [{"n": 1}] * 3}}),
    ("either", {"a": {"x": "5"}}),
    ("either", {"a": {"x": 5}, "b": {"x": 1}}),
    ("strict", {"a": {"at": MOMENT, "ids": [2, 1]}}),
    ("strict", {"a": {"at": "soon", "ids": []}}),
    ("constrained", {"a": 3.0}),
    ("constrained", {"a": 1, "b": "ab", "c": [{"city": "Rome"}], "d": 4, "e": 2.0}),
    ("constrained", {"a": 1, "d": 3}),
    ("patterns", {"a": "12", "b": [2, 1]}),
    ("patterns", {"a": "١٢", "c": {"X": 1}}),
    ("patterns", {"a": "12\n"}),
    ("patterns", {"a": "x"}),
    ("patterns", {"a": "1", "c": {"x1": 1}}),
    ("patterns", {"a": "1", "d": "ABC\n"}),
    ("patterns", {"a": "1", "d": "abd"}),
    ("further_models", {"one": {"n": 1.0}, "two": {"n": 2}}),
    ("optional_models", {"inner": {"n": 1}}),
    ("with_fields", {"a": 1}),
    ("with_fields", {"a": 2.0, "b": 6, "c": [7]}),
    ("dataclasses", {"a": {"n": 1}, "b": {"n": 2}, "c": {"inner": {"n": 3}}}),
    ("foreign", {"a": "10.0.0.2", "b": {"x": 1}}),
    ("foreign", {"a": "here"}),
    ("model", {}),
    ("nested", {}),
]


@pytest.fixture(scope="module")
def models() -> Script:
    if sys.executable != PYTHON:
        pytest.skip("the worker's Python may have no pydantic")
    return ask("models", MODEL_CALLS, ())


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in MODEL_CALLS))
def test_models_have_the_same_schema(models: Script, name: str) -> None:
    assert models.warnings == []
    assert models.functions[name]["schema"] == host_tool(MODELS, name).schema


@pytest.mark.parametrize("number", range(len(MODEL_CALLS)), ids=lambda it: f"{MODEL_CALLS[it][0]} {it}")
async def test_models_arrive_and_return_the_same(models: Script, executor: ToolExecutor, number: int) -> None:
    name, arguments = MODEL_CALLS[number]
    result = await host_answer(executor, host_tool(MODELS, name), arguments)
    assert result.repairs == ()
    assert models.answers[number] == (result.result, result.error)


# What differs.


@pytest.mark.parametrize("name", ON_HOST_ONLY)
def test_a_type_that_only_pydantic_knows_is_any_value_where_there_is_none(parameters: Script, name: str) -> None:
    problem = f"'{name}': parameter 'a': {ON_HOST_ONLY[name]} has no form in JSON; any value is accepted"
    schema: Any = host_tool(PARAMETERS, name).schema
    if problem in parameters.warnings:
        assert parameters.functions[name]["schema"]["properties"]["a"] == {}
        assert schema["properties"]["a"]["type"] in ("string", "array")
    else:
        assert parameters.functions[name]["schema"] == schema


@pytest.mark.parametrize("name", IN_SCRIPTS_ONLY)
def test_a_hint_that_nobody_can_read_is_refused_here_and_reported_there(parameters: Script, name: str) -> None:
    with pytest.raises(DefinitionError):
        host_tool(PARAMETERS, name)
    (warning,) = [it for it in parameters.warnings if it.startswith(f"'{name}': parameter 'a': ")]
    assert IN_SCRIPTS_ONLY[name] in warning
    assert "any value is accepted" in warning
    assert parameters.functions[name]["schema"]["properties"] == {"a": {}}
