"""Files that declare tools: what they may say, and what is reported of the rest."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from toolrun.builtins import Handler
from toolrun.errors import SideEffects, ToolError
from toolrun.json import JSON
from toolrun.sources.catalog import (
    Catalog,
    Declaration,
    DeclaredTool,
    Implementation,
    declared_tool,
    read_catalog,
)
from toolrun.sources.mock import Mock, MockAnswer
from toolrun.tools.effects import Effects

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "catalogs.md"
EXAMPLES = re.findall(r"```(json|yaml|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

GOOD: dict[str, JSON] = {
    "name": "good",
    "description": "Fine.",
    "implementation": {"type": "mock", "mock_response": 1},
}

Read = Callable[[str, str], Catalog]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(suffix: str, text: str) -> Catalog:
        path = tmp_path / f"tools.{suffix}"
        path.write_text(text, encoding="utf-8")
        return read_catalog(path)

    return read


def messages(catalog: Catalog) -> list[str]:
    return [problem.message for problem in catalog.problems]


def names(catalog: Catalog) -> list[str]:
    return [declaration.name for declaration in catalog.declarations]


JSON_FILE = """
[{"name": "lamp", "description": "Switch a lamp.",
  "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
  "implementation": {"type": "internal", "handler": "lamps.switch"}, "timeout": 5, "effects": "idempotent"},
 {"name": "door", "description": "See the door.", "implementation": {"type": "mock", "mock_response": {"open": null}}}]
"""
YAML_FILE = """
tools:
  - name: lamp
    description: Switch a lamp.
    parameters: {type: object, properties: {"on": {type: boolean}}, required: ["on"]}
    implementation: {type: internal, handler: lamps.switch}
    timeout: 5
    effects: idempotent
  - name: door
    description: See the door.
    implementation:
      type: mock
      mock_response: {open: null}
"""


@pytest.mark.parametrize(("suffix", "text"), [("json", JSON_FILE), ("yaml", YAML_FILE), ("YML", YAML_FILE)])
def test_every_key_of_an_entry_arrives(read: Read, suffix: str, text: str) -> None:
    lamp: JSON = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    assert isinstance(lamp, dict)
    assert read(suffix, text) == Catalog(
        declarations=(
            Declaration(
                "lamp",
                "Switch a lamp.",
                lamp,
                Implementation("internal", "lamps.switch"),
                timeout=5.0,
                effects=Effects.IDEMPOTENT,
            ),
            Declaration(
                "door",
                "See the door.",
                {"type": "object"},
                Implementation("mock", mock=Mock((MockAnswer({"open": None}),))),
            ),
        )
    )


def test_toml_declares_tools_as_an_array_of_tables(read: Read) -> None:
    catalog = read(
        "toml",
        """
        [[tools]]
        name = "a"
        description = "A."
        implementation = { type = "builtin", handler = "echo" }
        [[tools]]
        name = "b"
        description = "B."
        [tools.implementation]
        type = "mock"
        mock_response = { day = 2024-05-01 }
        """,
    )
    assert names(catalog) == ["a", "b"]
    assert catalog.declarations[1].implementation.mock == Mock((MockAnswer({"day": "2024-05-01"}),))
    assert not catalog.problems


@pytest.mark.parametrize("content", [GOOD, [GOOD], {"tools": [GOOD]}])
def test_a_file_is_a_tool_a_list_of_tools_or_an_object_with_tools(read: Read, content: JSON) -> None:
    catalog = read("json", json.dumps(content))
    assert (names(catalog), catalog.problems) == (["good"], ())


def test_an_empty_list_declares_nothing_and_is_no_problem(read: Read) -> None:
    assert read("json", "[]") == Catalog()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameter": {}}, "unknown key 'parameter'; did you mean 'parameters'?"),
        ({"name": None}, "'name' must be a string, got null"),
        ({"name": ""}, "'name' is missing; give the tool one"),
        ({"name": 7}, "'name' must be a string, got 7"),
        ({"description": " "}, "'description' is missing; a model chooses the tool by it"),
        ({"description": ["x"]}, "'description' must be a string, got [\"x\"]"),
        ({"parameters": "city"}, "'parameters' must be a JSON Schema object, got \"city\""),
        ({"timeout": 0}, "'timeout' must be a number of seconds > 0, got 0"),
        ({"timeout": True}, "'timeout' must be a number of seconds > 0, got true"),
        ({"effects": "twice"}, '\'effects\' must be one of "none", "idempotent", "keyed", "once", got "twice"'),
        ({"effects": True}, '\'effects\' must be one of "none", "idempotent", "keyed", "once", got true'),
        (
            {"implementation": None},
            '\'implementation\' is missing; write for instance {"type": "builtin", "handler": "echo"}',
        ),
        (
            {"implementation": "echo"},
            "'implementation' must be an object, got \"echo\"; "
            'write for instance {"type": "builtin", "handler": "echo"}',
        ),
        ({"implementation": {"type": "bultin"}}, "unknown implementation type \"bultin\"; did you mean 'builtin'?"),
        (
            {"implementation": {"type": "http"}},
            'unknown implementation type "http"; known are builtin, command, internal, mock',
        ),
        ({"implementation": {}}, "unknown implementation type null; known are builtin, command, internal, mock"),
        (
            {"implementation": {"type": ["mock"]}},
            'unknown implementation type ["mock"]; known are builtin, command, internal, mock',
        ),
        (
            {"implementation": {"type": "builtin"}},
            "type \"builtin\" needs 'handler': the name of the handler that answers",
        ),
        (
            {"implementation": {"type": "internal", "handler": ""}},
            "type \"internal\" needs 'handler': the name of the handler that answers",
        ),
        ({"implementation": {"type": "builtin", "handler": 5}}, "'handler' must be the name of a handler, got 5"),
        ({"implementation": {"type": "mock"}}, "a mock needs 'mock_response': the answer that every call gets"),
        (
            {"implementation": {"type": "mock", "mock_response": 1, "respnse": 2}},
            "unknown key 'respnse' in 'implementation'; did you mean 'mock_response'?",
        ),
    ],
)
def test_a_bad_entry_is_reported_and_the_others_load(read: Read, change: dict[str, JSON], message: str) -> None:
    before, after = GOOD | {"name": "before"}, GOOD | {"name": "after"}
    catalog = read("json", json.dumps([before, GOOD | change, after]))
    assert names(catalog) == ["before", "after"]
    assert messages(catalog) == [message]
    assert catalog.problems[0].index == 1


@pytest.mark.parametrize("schema", [{"type": "string"}, {"city": {"type": "string"}}, {"type": ["object", "null"]}])
def test_parameters_that_are_no_object_schema_are_refused_with_the_right_form(read: Read, schema: JSON) -> None:
    catalog = read("json", json.dumps(GOOD | {"parameters": schema}))
    assert messages(catalog) == [
        "'parameters' must be a JSON Schema of type object: "
        '{"type": "object", "properties": {NAME: {"type": …}}, "required": [NAME]}'
    ]


def test_parameters_with_properties_but_no_type_are_an_object(read: Read) -> None:
    catalog = read("json", json.dumps(GOOD | {"parameters": {"properties": {"a": {}}}}))
    assert catalog.declarations[0].parameters == {"type": "object", "properties": {"a": {}}}


def test_a_name_that_consumers_cannot_carry_is_refused(read: Read) -> None:
    [problem] = read("json", json.dumps(GOOD | {"name": "two words"})).problems
    assert "two words" in problem.message
    assert problem.name == "two words"


def test_all_mistakes_of_an_entry_are_reported_together(read: Read, tmp_path: Path) -> None:
    catalog = read("json", '[5, {"descripton": "x", "implementation": {"type": "mock"}}]')
    assert [str(problem) for problem in catalog.problems] == [
        f"{tmp_path}/tools.json: entry 0: "
        "a tool must be an object with 'name', 'description' and 'implementation', got 5",
        f"{tmp_path}/tools.json: entry 1: unknown key 'descripton'; did you mean 'description'?",
        f"{tmp_path}/tools.json: entry 1: 'name' is missing; give the tool one",
        f"{tmp_path}/tools.json: entry 1: 'description' is missing; a model chooses the tool by it",
        f"{tmp_path}/tools.json: entry 1: a mock needs 'mock_response': the answer that every call gets",
    ]


def test_a_problem_says_which_tool_it_is_about(read: Read, tmp_path: Path) -> None:
    [problem] = read("json", json.dumps(GOOD | {"timeout": -1})).problems
    assert str(problem) == f"{tmp_path}/tools.json: tool 'good': 'timeout' must be a number of seconds > 0, got -1"


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        ("json", '[\n {"name": }]', "line 2, column 11: "),
        ("yaml", "- name: [x\n- b", "line 2, column 4: "),
        ("toml", "[[tools]]\nname = x", "line 2, column 8: "),
        ("yaml", "- &a {name: x}\n- *a", "line 2, column 3: the alias *a is not supported; write the value out"),
        ("json", "5", "declares no tools; write a list of tools, an object with 'tools', or one tool"),
        ("yaml", "", "declares no tools; "),
        ("toml", "", "declares no tools; "),
        ("json", '{"tool": []}', "unknown key 'tool'; did you mean 'tools'?"),
        ("json", '{"tools": {"a": 1}}', "'tools' must be a list of tools, got {\"a\": 1}"),
        ("txt", "[]", "is not a catalog; the name of a catalog ends in .json, .toml, .yaml, .yml"),
    ],
)
def test_a_file_that_is_no_catalog_is_one_problem(read: Read, suffix: str, text: str, message: str) -> None:
    catalog = read(suffix, text)
    [problem] = catalog.problems
    assert problem.message.startswith(message)
    assert (problem.index, problem.name, catalog.declarations) == (None, "", ())
    assert str(problem) == f"{problem.file}: {problem.message}"


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    assert messages(read_catalog(tmp_path / "none.json")) == ["there is no such file; check the path"]


def test_a_key_beside_the_tools_is_reported_and_the_tools_load(read: Read) -> None:
    catalog = read("json", json.dumps({"version": 1, "tools": [GOOD]}))
    assert (names(catalog), messages(catalog)) == (["good"], ["unknown key 'version' beside 'tools'; remove it"])


def test_what_json_cannot_hold_is_a_problem_of_its_entry(read: Read) -> None:
    catalog = read(
        "yaml",
        """
        - {name: a, description: A., implementation: {type: mock, mock_response: {x: [.inf]}}}
        - {name: b, description: B., parameters: {type: object, properties: {on: {}}}, implementation: {}}
        - {name: c, description: C., implementation: {type: mock, mock_response: 2024-05-01}}
        """,
    )
    assert messages(catalog) == [
        "implementation.mock_response.x[0] is inf, which JSON cannot hold",
        "parameters.properties has the key true, which is not a string; put it in quotes",
    ]
    assert catalog.declarations[0].implementation.mock == Mock((MockAnswer("2024-05-01"),))


@pytest.mark.parametrize(("suffix", "text"), EXAMPLES)
def test_the_examples_of_the_guide_load(read: Read, suffix: str, text: str) -> None:
    catalog = read(suffix, text)
    assert catalog.declarations
    assert not catalog.problems


def test_the_guide_has_an_example_of_every_format() -> None:
    assert {suffix for suffix, _ in EXAMPLES} == {"json", "yaml", "toml"}


def make(
    kind: str, handler: str = "", *, response: JSON = None, handlers: Iterable[tuple[str, Handler]] = ()
) -> DeclaredTool:
    """A tool whose handlers are in the mapping of its own kind alone."""
    mock = Mock((MockAnswer(response),)) if kind == "mock" else None
    declaration = Declaration(
        "t", "T.", {"type": "object"}, Implementation(kind, handler, mock), 5.0, Effects.IDEMPOTENT
    )
    mappings: dict[str, dict[str, Handler]] = {"builtin": {}, "internal": {}, "mock": {}}
    mappings[kind] = dict(handlers)
    return declared_tool(declaration, builtins=mappings["builtin"], internals=mappings["internal"])


def test_a_tool_has_what_its_declaration_says() -> None:
    tool = make("builtin", "echo")
    assert (tool.name, tool.description, tool.schema) == ("t", "T.", {"type": "object"})
    assert (tool.timeout, tool.effects, tool.inline) == (5.0, Effects.IDEMPOTENT, False)


def test_a_mock_answers_inline_with_a_copy_whatever_the_arguments() -> None:
    response: JSON = {"list": [1]}
    tool = make("mock", response=response)
    first = tool.invoke({"any": "thing"})
    assert first == response
    assert isinstance(first, dict)
    first["list"].append(2)
    assert tool.invoke({}) == {"list": [1]}
    assert (tool.inline, tool.is_async) == (True, False)


@pytest.mark.parametrize("kind", ["builtin", "internal"])
def test_a_handler_gets_the_arguments_as_one_dict_and_its_value_is_returned(kind: str) -> None:
    tool = make(kind, "echo", handlers=[("echo", lambda arguments: {"echo": arguments})])
    arguments: dict[str, JSON] = {"a": [1]}
    result = tool.invoke(arguments)
    assert result == {"echo": {"a": [1]}}
    assert (tool.is_async, tool.inline) == (False, False)


@pytest.mark.parametrize("kind", ["builtin", "internal"])
async def test_the_awaitable_of_an_async_handler_is_returned_unawaited(kind: str) -> None:
    async def handler(arguments: dict[str, JSON]) -> JSON:
        return arguments

    tool = make(kind, "wait", handlers=[("wait", handler)])
    assert tool.is_async
    awaitable = tool.invoke({"a": 1})
    assert inspect.isawaitable(awaitable)
    assert await awaitable == {"a": 1}


def test_async_is_seen_behind_a_partial_and_in_a_callable_object() -> None:
    class Service:
        async def __call__(self, arguments: dict[str, JSON]) -> JSON:
            return arguments

    async def handler(service: str, arguments: dict[str, JSON]) -> JSON:
        return service

    assert make("internal", "h", handlers=[("h", Service())]).is_async
    assert make("internal", "h", handlers=[("h", functools.partial(handler, "x"))]).is_async


@pytest.mark.parametrize(
    ("kind", "message"),
    [("builtin", "Builtin handler 'maht_eval' not found"), ("internal", "Internal handler 'maht_eval' not found")],
)
def test_a_handler_that_does_not_exist_ends_the_call_and_names_close_ones(kind: str, message: str) -> None:
    tool = make(kind, "maht_eval", handlers=[("math_eval", len), ("echo", len)])
    assert not tool.is_async
    with pytest.raises(ToolError) as caught:
        tool.invoke({})
    assert str(caught.value) == message
    assert caught.value.side_effects is SideEffects.NOT_STARTED
    assert caught.value.detail == f"Of the {kind} handlers, did you mean 'math_eval'?"


def test_builtins_and_internals_are_kept_apart() -> None:
    declaration = Declaration("t", "T.", {"type": "object"}, Implementation("internal", "echo"))
    tool = declared_tool(declaration, builtins={"echo": len}, internals={})
    with pytest.raises(ToolError, match=r"^Internal handler 'echo' not found$"):
        tool.invoke({})


def test_a_handler_may_be_registered_after_the_tool_was_made() -> None:
    handlers: dict[str, Handler] = {}
    declaration = Declaration("t", "T.", {"type": "object"}, Implementation("internal", "late"))
    tool = declared_tool(declaration, builtins={}, internals=handlers)
    handlers["late"] = lambda arguments: "here"
    assert tool.invoke({}) == "here"


def test_what_a_handler_raises_is_not_touched() -> None:
    def fail(arguments: dict[str, JSON]) -> object:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        make("builtin", "fail", handlers=[("fail", fail)]).invoke({})
