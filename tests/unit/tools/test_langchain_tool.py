"""LangChain's tools run as they are: what they are sent, what they are refused for, and how their answers are read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest
from langchain_core.callbacks import CallbackManagerForToolRun, Callbacks
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    create_retriever_tool,
)
from langchain_core.tools import tool as langchain_tool
from langchain_core.tools.base import _DirectlyInjectedToolArg
from pydantic import BaseModel, Field, field_validator

from toolrun import DefinitionError, ErrorKind, ToolExecutor, ToolManager
from toolrun.tools.langchain_tool import is_langchain, is_single_input
from toolrun.tools.protocol import schema_of


async def run(executor: ToolExecutor, made: BaseTool, **arguments: Any) -> Any:
    assert executor.manager.add(made) is made
    return await executor.execute(made.name, arguments, call_id="call_7")


# A single input.


async def upper(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize(
    "made",
    [
        Tool("up", str.upper, "Shout."),
        Tool("up", None, "Shout.", coroutine=upper),
        Tool("up", str.upper, "Shout.", coroutine=upper),
        Tool.from_function(str.upper, "up", "Shout."),
    ],
)
@pytest.mark.parametrize("name", ["tool_input", "__arg1", "text"])
async def test_a_tool_with_a_single_input_takes_it_by_any_name(executor: ToolExecutor, made: Tool, name: str) -> None:
    assert schema_of(made) == {
        "type": "object",
        "properties": {"tool_input": {"type": "string"}},
        "required": ["tool_input"],
        "additionalProperties": False,
    }
    assert (await run(executor, made, **{name: "hello"})).result == "HELLO"


async def test_a_tool_with_a_single_input_needs_it(executor: ToolExecutor) -> None:
    result = await run(executor, Tool("up", str.upper, "Shout."))
    assert (result.error_kind, result.error) == (
        ErrorKind.INVALID_ARGUMENTS,
        "Invalid parameters: missing 'tool_input'",
    )


async def test_a_tool_with_a_single_input_and_a_schema_keeps_its_schema(executor: ToolExecutor) -> None:
    class Words(BaseModel):
        words: str

    result = await run(executor, Tool("up", str.upper, "Shout.", args_schema=Words), words="hello")
    assert result.result == "HELLO"


# What LangChain injects.


@langchain_tool
def with_id(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Tell the id."""
    return f"{x} {tool_call_id}"


@langchain_tool
async def with_id_later(x: int, which: Annotated[str, InjectedToolCallId]) -> str:
    """Tell the id."""
    return f"{x} {which}"


class WithId(BaseTool):
    name: str = "with_id_in_a_class"
    description: str = "Tell the id."

    def _run(self, x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        return f"{x} {tool_call_id}"


@pytest.mark.parametrize("made", [with_id, with_id_later, WithId()])
async def test_the_id_of_the_call_is_injected_and_no_model_sees_it(executor: ToolExecutor, made: BaseTool) -> None:
    assert list(schema_of(made)["properties"]) == ["x"]  # type: ignore[arg-type]
    assert (await run(executor, made, x=3)).result == "3 call_7"


class Runtime(_DirectlyInjectedToolArg):
    """As LangGraph's ToolRuntime."""


class State(InjectedToolArg):
    """As LangGraph's InjectedState."""


def takes_arg(x: int, user: Annotated[str, InjectedToolArg]) -> str:
    """Take it."""
    return f"{x} {user}"


def takes_state(x: int, state: Annotated[dict[str, Any], State()]) -> str:
    """Take it."""
    return f"{x} {state}"


def takes_runtime(x: int, runtime: Runtime) -> str:
    """Take it."""
    return f"{x} {runtime}"


class TakesState(BaseTool):
    name: str = "takes_state_in_a_class"
    description: str = "Takes it."

    def _run(self, x: int, state: Annotated[dict[str, Any], State]) -> str:
        return f"{x} {state}"


class TakesStateLater(BaseTool):
    name: str = "takes_state_later"
    description: str = "Takes it."

    def _run(self, x: int) -> str:
        raise NotImplementedError

    async def _arun(self, x: int, state: Annotated[dict[str, Any], State]) -> str:
        return f"{x} {state}"


class Arguments(BaseModel):
    x: int
    user: Annotated[str, InjectedToolArg]


@pytest.mark.parametrize(
    ("made", "parameter", "mark"),
    [
        (langchain_tool(takes_arg), "user", "InjectedToolArg"),
        (langchain_tool(takes_state), "state", "State"),
        (langchain_tool(takes_runtime), "runtime", "Runtime"),
        (TakesState(), "state", "State"),
        (TakesStateLater(), "state", "State"),
        (
            StructuredTool(name="shown", description="Takes it.", args_schema=Arguments, func=lambda x, user: x),
            "user",
            "Injected",
        ),
    ],
)
def test_a_required_argument_that_nobody_injects_is_refused_at_registration(
    made: BaseTool, parameter: str, mark: str
) -> None:
    manager = ToolManager()
    with pytest.raises(DefinitionError) as caught:
        manager.add(made)
    assert f"Tool '{made.name}': parameter '{parameter}' is injected by LangGraph ({mark}" in str(caught.value)
    assert f"Give '{parameter}' a default" in str(caught.value)
    assert len(manager) == 0


async def test_an_injected_argument_with_a_default_keeps_it_whatever_a_model_sends(executor: ToolExecutor) -> None:
    @langchain_tool
    def takes(x: int, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
        """Take it."""
        return f"{x} {user}"

    assert (await run(executor, takes, x=1)).result == "1 nobody"


# Names that LangChain has a use for.


def config(x: int, config: dict[str, int]) -> str:
    """Take it."""
    return f"{x} {config}"


def run_manager(x: int, run_manager: str) -> str:
    """Take it."""
    return f"{x} {run_manager}"


def callbacks(x: int, callbacks: str) -> str:
    """Take it."""
    return f"{x} {callbacks}"


def runtime(x: int, runtime: str) -> str:
    """Take it."""
    return f"{x} {runtime}"


def args(x: int, args: list[str]) -> str:
    """Take it."""
    return f"{x} {args}"


async def config_later(x: int, config: str = "none") -> str:
    """Take it."""
    return f"{x} {config}"


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (config, "config", {"a": 1}),
        (run_manager, "run_manager", "me"),
        (callbacks, "callbacks", "back"),
        (runtime, "runtime", "3.11"),
        (args, "args", ["a"]),
        (config_later, "config", "mine"),
    ],
)
async def test_parameters_that_langchain_would_swallow_reach_the_function(
    executor: ToolExecutor, function: Callable[..., Any], name: str, value: Any
) -> None:
    made = langchain_tool(function)
    assert set(schema_of(made)["properties"]) == {"x", name}  # type: ignore[arg-type]
    assert (await run(executor, made, x=1, **{name: value})).result == f"1 {value}"


async def test_what_langchain_passes_to_a_function_is_still_passed(executor: ToolExecutor) -> None:
    @langchain_tool
    def takes(x: int, config: RunnableConfig, callbacks: Callbacks = None) -> str:
        """Take it."""
        return f"{x} {'callbacks' in config} {type(callbacks).__name__}"

    assert list(schema_of(takes)["properties"]) == ["x"]  # type: ignore[arg-type]
    assert (await run(executor, takes, x=1)).result == "1 True CallbackManager"


async def test_a_class_gets_its_config_and_run_manager_from_langchain(executor: ToolExecutor) -> None:
    class Managed(BaseTool):
        name: str = "managed"
        description: str = "Takes them."

        def _run(self, x: int, config: RunnableConfig, run_manager: CallbackManagerForToolRun | None = None) -> str:
            return f"{x} {'tags' in config} {type(run_manager).__name__}"

    Managed._run.__annotations__.update(config=RunnableConfig, run_manager=CallbackManagerForToolRun | None)
    assert list(schema_of(Managed())["properties"]) == ["x"]  # type: ignore[arg-type]
    assert (await run(executor, Managed(), x=1)).result == "1 True CallbackManagerForToolRun"


async def test_an_argument_called_type_is_no_call_of_langchains(executor: ToolExecutor) -> None:
    @langchain_tool
    def typed(type: str, args: str = "none") -> str:
        """Take it."""
        return f"{type} {args}"

    @langchain_tool
    def kinds(type: str, id: str = "none") -> str:
        """Take it."""
        return f"{type} {id}"

    assert (await run(executor, typed, type="tool_call", args="x")).result == "tool_call x"
    assert (await run(executor, kinds, type="tool_call", id="x")).result == "tool_call x"


# Answers.


@langchain_tool(response_format="content_and_artifact")
def both(x: int) -> tuple[str, object]:
    """Return both."""
    return f"text {x}", {"kept": {x}}


@langchain_tool(response_format="content_and_artifact")
async def both_later(x: int) -> tuple[str, object]:
    """Return both."""
    return f"text {x}", {"kept": {x}}


@langchain_tool
def message(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Return a message."""
    return ToolMessage(f"text {x}", artifact={"kept": {x}}, tool_call_id=tool_call_id)


@langchain_tool
def message_without_id(x: int) -> ToolMessage:
    """Return a message."""
    return ToolMessage(f"text {x}", artifact={"kept": {x}}, tool_call_id="other")


@pytest.mark.parametrize("made", [both, both_later, message, message_without_id])
async def test_the_artifact_is_kept_as_it_is_and_shown_to_nobody(executor: ToolExecutor, made: BaseTool) -> None:
    result = await run(executor, made, x=3)
    assert (result.success, result.result, result.text) == (True, "text 3", "text 3")
    assert result.artifact == {"kept": {3}}
    assert "kept" not in repr(result)
    assert set(result.to_dict()) == {"success", "result", "tool_name", "execution_time_ms"}


async def test_blocks_in_a_message_are_content(executor: ToolExecutor) -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    @langchain_tool
    def shows(x: int) -> ToolMessage:
        """Show it."""
        return ToolMessage(["see", picture], tool_call_id="other")

    result = await run(executor, shows, x=1)
    assert result.content == ({"type": "text", "text": "see"}, picture)


@langchain_tool
def failed_message(x: int) -> ToolMessage:
    """Fail."""
    return ToolMessage("no such room", status="error", tool_call_id="other")


def fails(x: int) -> dict[str, int]:
    """Fail."""
    if x:
        raise ToolException("no such room")
    return {"x": x}


async def fails_later(x: int) -> str:
    """Fail."""
    raise ToolException("no such room")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (failed_message, "no such room"),
        (StructuredTool.from_function(fails), "no such room"),
        (StructuredTool.from_function(fails, handle_tool_error=True), "no such room"),
        (StructuredTool.from_function(fails, handle_tool_error="try the hall"), "try the hall"),
        (StructuredTool.from_function(fails, handle_tool_error=lambda error: f"sorry, {error}"), "sorry, no such room"),
        (StructuredTool.from_function(coroutine=fails_later, handle_tool_error=True), "no such room"),
        (Tool("single", lambda text: fails(1), "Fail.", handle_tool_error=True), "no such room"),
    ],
)
async def test_an_error_that_langchain_handles_is_still_a_failure(
    executor: ToolExecutor, made: BaseTool, message: str
) -> None:
    arguments = {"tool_input": "x"} if made.name == "single" else {"x": 1}
    result = await run(executor, made, **arguments)
    assert (result.success, result.error_kind, result.error) == (False, ErrorKind.TOOL_ERROR, message)


async def test_a_handler_does_not_change_what_a_success_returns(executor: ToolExecutor) -> None:
    made = StructuredTool.from_function(fails, handle_tool_error=True)
    assert (await run(executor, made, x=0)).result == {"x": 0}
    text = StructuredTool.from_function(lambda x: '{"x": 0}', name="text", description="Says.", handle_tool_error=True)
    assert (await run(executor, text, x=0)).result == '{"x": 0}'


async def test_what_the_schemas_own_checks_refuse_is_an_invalid_argument(executor: ToolExecutor) -> None:
    class Room(BaseModel):
        number: str = Field(pattern=r"^\d+$")
        floor: int = 0

        @field_validator("floor")
        @classmethod
        def check(cls, floor: int) -> int:
            if floor > 3:
                raise ValueError("there are three floors")
            return floor

    def enter(number: str, floor: int = 0) -> str:
        """Enter."""
        return number

    made = StructuredTool.from_function(enter, args_schema=Room)
    assert (await run(executor, made, number="١٢")).result == "١٢", "a digit is what pydantic takes for one"
    refused = await run(executor, made, number="x")
    assert refused.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert refused.error == r"Invalid parameters: 'number' String should match pattern '^\d+$'"
    refused = await run(executor, made, number="1", floor=4)
    assert refused.error == "Invalid parameters: 'floor' Value error, there are three floors"


# Names that the schema does not list.


class Open(BaseModel, extra="allow"):
    a: int = 1


class Closed(BaseModel, extra="forbid"):
    a: int = 1


LISTED: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def take_all(**arguments: Any) -> str:
    """Take everything."""
    return str(arguments)


def take_one(a: int) -> str:
    """Take one number."""
    return str({"a": a})


@pytest.mark.parametrize("schema", [Open, LISTED, {**LISTED, "additionalProperties": True}])
async def test_names_that_an_open_schema_does_not_list_are_passed_on_as_langchain_does(
    executor: ToolExecutor, schema: Any
) -> None:
    made = StructuredTool.from_function(take_all, args_schema=schema)
    result = await run(executor, made, a=1, zebra=2)
    assert (result.result, result.dropped) == (made.invoke({"a": 1, "zebra": 2}), ())
    assert result.result == "{'a': 1, 'zebra': 2}"


@pytest.mark.parametrize("schema", [Closed, {**LISTED, "additionalProperties": False}])
async def test_names_that_a_closed_schema_does_not_list_are_refused(executor: ToolExecutor, schema: Any) -> None:
    result = await run(executor, StructuredTool.from_function(take_all, args_schema=schema), a=1, zebra=2)
    assert (result.error_kind, result.error) == (
        ErrorKind.INVALID_ARGUMENTS,
        "Invalid parameters: unknown parameter 'zebra'",
    )


async def test_names_that_the_function_cannot_take_are_ignored_and_told(executor: ToolExecutor) -> None:
    result = await run(executor, StructuredTool.from_function(take_one, args_schema=LISTED), a=1, zebra=2)
    assert (result.result, result.dropped) == ("{'a': 1}", ("zebra",))


class Pairs:
    name, description = "pairs", "Returns a pair, as adapters for MCP do."
    schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, value: object) -> None:
        self.value = value

    async def ainvoke(self, arguments: dict[str, Any]) -> object:
        return self.value


RESOURCE = {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}}


@pytest.mark.parametrize(
    ("value", "artifact"),
    [
        (("21 °C", []), []),
        (("21 °C", None), None),
        (("21 °C", [RESOURCE]), [RESOURCE]),
        (("21 °C", [1, 2]), [1, 2]),
        (["21 °C", [RESOURCE]], [RESOURCE]),
        (["21 °C", []], []),
        (([{"type": "text", "text": "21 °C"}], [RESOURCE]), [RESOURCE]),
    ],
)
async def test_of_text_and_artifacts_the_model_gets_just_the_text(
    executor: ToolExecutor, value: object, artifact: object
) -> None:
    executor.manager.add(Pairs(value))
    result = await executor.execute("pairs")
    assert (result.result, result.text, result.artifact) == ("21 °C", "21 °C", artifact)


@pytest.mark.parametrize("value", [["a", "b"], ["a", [1, 2]], [1, []], ("a", "b"), ("a", 2), ("a", [], []), ({}, [])])
async def test_two_values_are_no_text_with_artifacts(executor: ToolExecutor, value: Any) -> None:
    executor.manager.add(Pairs(value))
    result = await executor.execute("pairs")
    assert (result.result, result.artifact) == (list(value), None)


@pytest.mark.parametrize("response_format", ["content", "content_and_artifact"])
async def test_a_retriever_is_a_tool(executor: ToolExecutor, response_format: Any) -> None:
    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=f"about {query}")]

    made = create_retriever_tool(Shelf(), "search", "Searches.", response_format=response_format)
    result = await run(executor, made, query="lamps")
    assert result.result == "about lamps"
    kept = [it.page_content for it in result.artifact] if result.artifact else None
    assert kept == (None if response_format == "content" else ["about lamps"])


@pytest.mark.filterwarnings("ignore:This API is in beta")
async def test_a_runnable_is_a_tool(executor: ToolExecutor) -> None:
    class Words(BaseModel):
        words: str

    shout = RunnableLambda[dict[str, str], str](lambda given: given["words"].upper())
    made = shout.as_tool(Words, name="shout", description="Shouts.")
    assert (await run(executor, made, words="hello")).result == "HELLO"


async def test_a_function_that_langchain_cannot_look_into_answers_with_its_reason(executor: ToolExecutor) -> None:
    result = await run(executor, Tool("number", int, "Reads a number."), tool_input="7")
    assert (result.error_kind, "no signature" in str(result.error)) == (ErrorKind.TOOL_ERROR, True)


async def test_the_state_of_a_tool_stays_its_own(executor: ToolExecutor) -> None:
    class Counter(BaseTool):
        name: str = "counter"
        description: str = "Counts."
        handle_tool_error: bool = True
        count: int = 0

        def _run(self) -> int:
            self.count += 1
            return self.count

    made = Counter()
    for _ in range(3):
        last = await run(executor, made)
    assert (made.count, last.text) == (3, "3")


def test_a_tool_of_another_kind_is_none_of_langchain_while_that_is_being_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("base", "simple"):
        monkeypatch.setitem(sys.modules, f"langchain_core.tools.{name}", ModuleType(name))
    assert not is_langchain(object())
    assert not is_single_input(object())
