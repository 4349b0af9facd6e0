"""What can be made a tool, and what is refused with which words."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field

from support.hints import book, function_of, unresolvable
from toolrun import DefinitionError, ErrorKind, FunctionTool, ToolContext, ToolExecutor, ToolManager, tool
from toolrun.tools.adapt import adapt
from toolrun.tools.effects import Effects
from toolrun.tools.protocol import schema_of

OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted
        times: How often
    """
    return f"Hello {name}! " * times


class Adder:
    """Adds to a number."""

    def __init__(self, start: int) -> None:
        self.start = start

    def add(self, n: int) -> int:
        """Add one number."""
        return self.start + n

    async def __call__(self, n: int) -> int:
        await asyncio.sleep(0)
        return self.start + n


class Silent:
    def __call__(self, n: int) -> int:
        """Double a number."""
        return 2 * n


class ObjectTool:
    name, description, schema = "object", "Does it.", OBJECT

    def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


def test_a_decorated_function_has_name_description_and_schema_and_stays_callable() -> None:
    made = tool(greet)
    assert isinstance(made, FunctionTool)
    assert (made.name, made.description) == ("greet", "Greet somebody.")
    assert made.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who is greeted"},
            "times": {"type": "integer", "description": "How often", "default": 1},
        },
        "additionalProperties": False,
        "required": ["name"],
    }
    assert made("Ada", times=2) == "Hello Ada! Hello Ada! "
    assert made.invoke({"name": "Bo"}) == "Hello Bo! "
    assert inspect.signature(made) == inspect.signature(greet)
    like_a_function: Any = made
    assert (like_a_function.__name__, made.__doc__, like_a_function.__wrapped__) == ("greet", greet.__doc__, greet)
    assert (made.timeout, made.effects, made.inline, made.is_async) == (None, None, False, False)
    assert repr(made) == "<FunctionTool 'greet'>"


async def test_the_decorator_takes_options() -> None:
    @tool(name="say.hello-2", description="Say it.", timeout=2.5, effects="keyed", inline=True)
    async def hello() -> str:
        return "hello"

    assert (hello.name, hello.description) == ("say.hello-2", "Say it.")
    assert (hello.timeout, hello.effects, hello.inline, hello.is_async) == (2.5, Effects.KEYED, True, True)
    assert await hello() == "hello"
    with pytest.raises(TypeError, match="speed"):
        tool(speed=3)(greet)  # type: ignore[call-overload]


def test_options_beside_the_function_are_the_same_as_those_of_the_decorator() -> None:
    options: dict[str, Any] = {
        "name": "hello",
        "description": "Say it.",
        "title": "Hello",
        "annotations": {"openWorldHint": False},
        "timeout": 2.5,
        "effects": "once",
        "verify": lambda key, arguments: None,
        "inline": True,
    }
    made, decorated = tool(greet, **options), tool(**options)(greet)
    for name in ("name", "description", "title", "annotations", "timeout", "effects", "verify", "inline", "isolated"):
        assert getattr(made, name) == getattr(decorated, name)
    assert (made.inline, made.timeout, made.effects) == (True, 2.5, Effects.ONCE)
    assert tool(module_level, isolated=True).isolated
    with pytest.raises(TypeError, match="speed"):
        tool(greet, speed=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("effects", list(Effects))
@pytest.mark.parametrize("as_text", [True, False])
def test_effects_are_declared_by_word(effects: Effects, as_text: bool) -> None:
    assert tool(greet, effects=effects.value if as_text else effects).effects is effects


@pytest.mark.parametrize("wrong", ["twice", "None", "", True, False, 0, ["once"]])
def test_a_wrong_word_for_effects_is_refused_with_the_choices(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"'greet'.*'none', 'idempotent', 'keyed', 'once'"):
        tool(greet, effects=wrong)


@pytest.mark.parametrize("wrong", [7, "was_sent", lambda key: None, lambda key, arguments, more: None])
def test_what_cannot_verify_a_call_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"'greet'.*verify\(key, arguments\)"):
        tool(greet, effects="once", verify=wrong)


@pytest.mark.parametrize(
    ("effects", "hints"),
    [("none", {"readOnlyHint": True}), ("idempotent", {"idempotentHint": True}), ("keyed", {}), ("once", {})],
)
def test_effects_are_hints_for_mcp_clients(effects: str, hints: dict[str, bool]) -> None:
    assert tool(greet, effects=effects).annotations == hints
    own = {"readOnlyHint": False, "idempotentHint": False}
    assert tool(greet, effects=effects, annotations=own).annotations == own  # who says it explicitly is believed


def module_level() -> str:
    """Say it."""
    return "hello"


async def test_functions_in_other_forms_are_tools(executor: ToolExecutor) -> None:
    adder = Adder(40)
    forms: dict[str, Any] = {
        "add": adder.add,
        "partial": functools.partial(greet, times=2),
        "awaited": functools.partial(book),
        "object": adder,
        "silent": Silent(),
        "cached": functools.cache(greet),
    }
    for name, function in forms.items():
        executor.manager.add(tool(name=name)(function))
    described = {made.name: made.description for made in executor.manager}
    assert described["add"] == "Add one number."
    assert described["partial"] == described["cached"] == "Greet somebody."
    assert described["object"] == "Adds to a number."
    assert described["silent"] == "Double a number."
    assert (await executor.execute("add", {"n": 2})).result == 42
    assert (await executor.execute("object", {"n": 2})).result == 42
    assert (await executor.execute("silent", {"n": 2})).result == 4
    assert (await executor.execute("partial", {"name": "Ada"})).result == "Hello Ada! Hello Ada! "
    assert (await executor.execute("cached", {"name": "Ada"})).result == "Hello Ada! "
    assert adapt(adder.add).name == "add"


def lines(count: int) -> Iterator[int]:
    """Count."""
    yield count


async def stream(count: int) -> AsyncIterator[int]:
    """Count."""
    yield count


def unnamed() -> None: ...


class WithoutSchema:
    name, description = "bare", "Does it."

    def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (lambda x: x, "The tool name '<lambda>' cannot be used"),
        (functools.partial(greet), "The tool has no name. Give it one with @tool(name=…)."),
        (unnamed, "Tool 'unnamed' has no description, so a model cannot know when to use it. Add a docstring"),
        (lines, "Tool 'lines': it is a generator; return a list instead."),
        (stream, "Tool 'stream': it is a generator; return a list instead."),
        (unresolvable, "Tool 'unresolvable': the type hint of parameter 'a' cannot be resolved (name 'Missing'"),
        (ObjectTool, "is not a tool: it must be a function, or an object with name, description, schema and invoke"),
        (ObjectTool, "Pass an instance of the class."),
        (7, "7 is not a tool: it must be a function"),
        ("greet", "'greet' is not a tool"),
        (WithoutSchema(), "Tool 'bare': there is no schema; the tool needs 'schema' or 'args_schema'"),
    ],
)
def test_what_is_no_tool_is_refused_with_the_reason(candidate: object, message: str) -> None:
    manager = ToolManager()
    with pytest.raises(DefinitionError) as caught:
        manager.add(candidate)
    assert message in str(caught.value)
    assert not manager.tools


@pytest.mark.parametrize("name", ["add", "a", "A.b-c_9", "x" * 128])
def test_good_names(name: str) -> None:
    assert tool(name=name)(greet).name == name


@pytest.mark.parametrize("name", ["", "add\n", "\nadd", "two words", "x" * 129, "größe", "a/b", "a\x00", 7, None])
def test_a_name_that_consumers_cannot_carry_is_refused(name: Any) -> None:
    class Named(ObjectTool):
        pass

    Named.name = name
    with pytest.raises(DefinitionError, match=r"^The tool (name .* cannot be used: names are 1 to 128|has no name)"):
        adapt(Named())
    if isinstance(name, str):
        with pytest.raises(DefinitionError):
            tool(name=name)(greet)


@pytest.mark.parametrize("description", ["", " \n", None, 7])
def test_an_object_without_a_description_is_refused(description: Any) -> None:
    class Mute(ObjectTool):
        pass

    Mute.description = description
    with pytest.raises(DefinitionError, match="Tool 'object' has no description"):
        adapt(Mute())


async def test_a_default_that_a_field_computes_is_computed_anew_for_each_call(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def collect(n: int, into: list[int] = Field(default_factory=list)) -> list[int]:  # noqa: B008  the subject
        """Collect."""
        into.append(n)
        return into

    @executor.manager.add
    async def limited(limit: int = Field(default=10, ge=1)) -> int:
        """Return the limit."""
        return limit

    assert [(await executor.execute("collect", {"n": n})).result for n in (1, 2)] == [[1], [2]]
    assert (await executor.execute("collect", {"n": 3, "into": [2]})).result == [2, 3]
    assert [(await executor.execute("limited", given)).result for given in ({}, {"limit": 3})] == [10, 3]
    assert (await executor.execute("limited", {"limit": 0})).error_kind is ErrorKind.INVALID_ARGUMENTS


async def test_a_model_cannot_replace_the_context(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def open_ended(context: ToolContext, **rest: str) -> str:
        """Take anything."""
        return f"{context.tool_name} {rest}"

    result = await executor.execute("open_ended", {"context": "mine", "a": "b"})
    assert result.result == "open_ended {'a': 'b'}"


def block(x: int) -> str:
    """Block."""
    return f"{threading.current_thread().name} {x}"


async def wait(x: int) -> str:
    """Wait."""
    await asyncio.sleep(0)
    return f"{threading.current_thread().name} {x}"


class Subclassed(BaseTool):
    name: str = "subclassed"
    description: str = "Runs."

    def _run(self, x: int) -> str:
        return block(x)


@langchain_tool(response_format="content_and_artifact")
def with_artifact(x: int) -> tuple[str, object]:
    """Return text and an artifact."""
    return f"text {x}", {"kept": x}


@langchain_tool
def with_injected(x: int, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Take an argument that no model sees."""
    return f"{x} {user}"


@pytest.mark.parametrize(
    ("made", "result"),
    [
        (StructuredTool.from_function(block), "toolrun 3"),
        (StructuredTool.from_function(coroutine=wait), "MainThread 3"),
        (StructuredTool.from_function(block, wait), "MainThread 3"),
        (Subclassed(), "toolrun 3"),
        (with_artifact, "text 3"),
        (with_injected, "3 nobody"),
        (StructuredTool(name="raw", description="Doubles.", args_schema=OBJECT, func=lambda x: 2 * x), 6),
    ],
)
async def test_a_langchain_tool_is_taken_as_it_is_and_runs(
    executor: ToolExecutor, made: BaseTool, result: object
) -> None:
    assert adapt(made) is made
    assert executor.manager.add(made) is made
    assert list(schema_of(made)["properties"]) == ["x"]  # type: ignore[arg-type]
    assert (await executor.execute(made.name, {"x": "3"})).result == result
    refused = await executor.execute(made.name, {})
    assert refused.error == "Invalid parameters: missing 'x'"


async def test_what_a_langchain_tool_raises_is_its_answer(executor: ToolExecutor) -> None:
    @langchain_tool
    def fails(x: int) -> str:
        """Fail."""
        raise ToolException("no such room")

    executor.manager.add(fails)
    result = await executor.execute("fails", {"x": 1})
    assert (result.error, result.error_kind) == ("no such room", ErrorKind.TOOL_ERROR)


class Lamp:
    def switch(self, on: bool) -> str:
        """Switch it."""
        return f"{type(self).__name__} {on}"

    def odd(this, on: bool) -> str:
        """Switch it."""
        return f"{type(this).__name__} {on}"

    @classmethod
    def make(cls, on: bool) -> str:
        """Make one."""
        return f"{cls.__name__} {on}"

    @staticmethod
    def check(on: bool) -> str:
        """Check."""
        return f"static {on}"


@pytest.mark.parametrize("method", [Lamp.switch, Lamp.odd, vars(Lamp)["make"]])
def test_a_method_without_its_object_is_refused_with_what_to_do(method: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        tool(method)
    name = getattr(method, "__func__", method).__name__
    assert f"Tool '{name}': it is the method '{name}' of the class 'Lamp' without an object" in str(caught.value)
    assert f"use its bound method, as Lamp(…).{name}" in str(caught.value)


def test_a_method_that_is_decorated_in_its_class_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"the method 'speak' of the class 'Dog' without an object"):

        class Dog:
            @tool
            def speak(self, words: str) -> str:
                """Speak."""
                return words


@pytest.mark.parametrize(
    ("method", "answer"),
    [(Lamp().switch, "Lamp True"), (Lamp().odd, "Lamp True"), (Lamp.make, "Lamp True"), (Lamp.check, "static True")],
)
async def test_methods_that_have_their_object_are_tools(executor: ToolExecutor, method: Any, answer: str) -> None:
    made = executor.manager.add(tool(method))
    assert list(made.schema["properties"]) == ["on"]
    assert (await executor.execute(made.name, {"on": True})).result == answer


class Opaque:
    """pydantic knows nothing of it."""


class Unfinished(BaseModel):
    later: NotThere  # type: ignore[name-defined]  # noqa: F821  the name is the case


class Hostile(type):
    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(f"no {name} for you")


class Hidden(metaclass=Hostile):
    pass


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Opaque, "Unable to generate pydantic-core schema"),
        (list[Opaque], "Unable to generate pydantic-core schema"),
        (Unfinished, "NotThere"),
        (Annotated[str, Field(pattern="(")], "regex"),
        (Hidden, "for you"),
    ],
)
def test_what_pydantic_refuses_is_a_definition_error_that_names_the_parameter(hint: Any, reason: str) -> None:
    def take(value: Any) -> None:
        """Take it."""

    take.__annotations__["value"] = hint
    with pytest.raises(DefinitionError) as caught:
        tool(take)
    assert str(caught.value).startswith("Tool 'take': parameter 'value' has a type that JSON cannot express: ")
    assert reason in str(caught.value)


def test_without_pydantic_the_error_says_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)  # so that importing it fails
    with pytest.raises(DefinitionError, match=r"parameter 'value' .* install pydantic"):
        FunctionTool(function_of(Opaque), name="take")


def wrapping(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def replacing(function: Any) -> Any:
    def inner(self: Any, level: Any) -> Any:
        return function(self, level)

    inner.__annotations__.clear()
    return inner


class Switch:
    """Its methods are decorated in every way."""

    @wrapping
    def wrapped(self, level: int) -> int:
        """Switch."""
        return level

    @functools.lru_cache  # noqa: B019  that is the subject
    def cached(self, level: int) -> int:
        """Switch."""
        return level

    @classmethod
    @wrapping
    def of_class(cls, level: int) -> int:
        """Switch."""
        return level

    @wrapping
    @wrapping
    def twice(self, level: int) -> int:
        """Switch."""
        return level

    @replacing
    def replaced(self, level: int) -> int:
        """Switch."""
        return level


def put_on(self, level: int) -> int:  # type: ignore[no-untyped-def]  # as methods are written
    """Switch."""
    return level


Switch.later = put_on  # type: ignore[attr-defined]
METHODS = ["wrapped", "cached", "of_class", "twice", "replaced", "later"]


@pytest.mark.parametrize("name", METHODS)
def test_a_bound_method_has_no_parameter_for_its_object_however_it_is_decorated(name: str) -> None:
    made = tool(getattr(Switch(), name), name=name, description="Switch.")
    assert list(made.schema["properties"]) == ["level"]  # type: ignore[arg-type]
    assert made.invoke({"level": 3}) == 3


@pytest.mark.parametrize("name", [it for it in METHODS if it != "of_class"])
@pytest.mark.parametrize("wrap", [lambda it: it, functools.partial, lambda it: functools.partial(it, level=1)])
def test_a_method_without_its_object_is_refused_however_it_is_decorated(name: str, wrap: Any) -> None:
    with pytest.raises(DefinitionError, match="without"):
        tool(wrap(getattr(Switch, name)), name=name, description="Switch.")
    filled = tool(functools.partial(getattr(Switch, name), Switch()), name=name, description="Switch.")
    assert filled.invoke({"level": 3}) == 3


def test_a_parameter_that_is_called_self_and_has_a_hint_is_one() -> None:
    def about(self: str) -> str:
        """Say."""
        return self

    assert tool(about).invoke({"self": "x"}) == "x"
