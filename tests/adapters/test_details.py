"""What single adapters do beside the contract: keys, images, synchronous calls, the Responses API, FastAPI."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request

from adapters.frameworks import MODEL, run_agent
from providers.base import Asked, Step
from providers.openai import OpenAIServer
from toolrun import Content, Runtime, ToolExecutor, ToolManager, ToolrunError
from toolrun.adapters import (
    AnthropicTools,
    OpenAITools,
    get_executor,
    get_runtime,
    langchain_tools,
    runtime_lifespan,
)

pytestmark = pytest.mark.xdist_group("adapters")

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
TOOLS = '''
from pathlib import Path
from toolrun import tool

@tool
async def order(item: str) -> str:
    """Order something."""
    log = Path(__file__).with_name("orders.txt")
    log.write_text((log.read_text() if log.exists() else "") + item + "\\n")
    return f"ordered {item}"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "shop.py").write_text(TOOLS)
    (tmp_path / "toolrun.toml").write_text("[journal]\nenabled = true\n")
    return tmp_path


def order_twice() -> list[Step]:
    return [Step(calls=[Asked("order", {"item": "tea"}, id="c1")]), Step(text="Done.")] * 2


def ordered(project: Path) -> list[str]:
    return (project / "tools" / "orders.txt").read_text().split()


async def test_with_keys_a_langchain_thread_that_runs_a_call_again_gets_its_answer(project: Path) -> None:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    async with Runtime.open(project / "toolrun.toml") as runtime:
        with OpenAIServer() as server:
            model = ChatOpenAI(model=MODEL, base_url=server.url, api_key=SecretStr("key"), max_retries=0)
            agent: Any = create_agent(model, tools=langchain_tools(runtime.executor, keys=True))
            for thread, times in (("one", 2), ("two", 1)):
                for _ in range(times):
                    server.play(*order_twice()[:2])
                    config = {"configurable": {"thread_id": thread}}
                    state = await agent.ainvoke({"messages": [("user", "Order tea.")]}, config)
                    assert state["messages"][2].content == "ordered tea"
            assert state["messages"][2].artifact.success
            server.play(*order_twice()[:1])
            with pytest.raises(ToolrunError, match="thread_id"):
                await agent.ainvoke({"messages": [("user", "Order tea.")]})
    assert ordered(project) == ["tea", "tea"]


async def test_with_keys_a_conversation_of_pydantic_ai_that_runs_a_call_again_gets_its_answer(project: Path) -> None:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from toolrun.adapters import ToolrunToolset

    async with Runtime.open(project / "toolrun.toml") as runtime:
        with OpenAIServer() as server:
            async with AsyncOpenAI(base_url=server.url, api_key="key", max_retries=0) as client:
                server.play(*order_twice())
                model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
                agent: Any = Agent(model, toolsets=[ToolrunToolset(runtime.executor, id="home", keys=True)])
                for _ in range(2):
                    await agent.run("Order tea.", conversation_id="one")
    assert ordered(project) == ["tea"]


async def test_with_keys_a_group_of_openai_agents_that_runs_a_call_again_gets_its_answer(project: Path) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        with OpenAIServer() as server:
            server.play(*order_twice())
            for _ in range(2):
                await run_agent(
                    server.url, "Order tea.", executor=runtime.executor, keys=True, config={"group_id": "one"}
                )
    assert ordered(project) == ["tea"]


async def test_openai_agents_get_the_executors_words_for_arguments_that_are_not_json(executor: ToolExecutor) -> None:
    from agents.tool_context import ToolContext

    from toolrun.adapters import agents_tools

    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    [offered] = agents_tools(executor)
    context: Any = ToolContext(None, tool_name="add", tool_call_id="c1", tool_arguments="{")
    text = await offered.on_invoke_tool(context, "{")  # type: ignore[union-attr]  # a FunctionTool
    assert text == (await executor.execute("add", "{")).text


@pytest.fixture
def camera(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def look() -> Content:
        """Take a picture."""
        return Content([{"type": "text", "text": "a lamp"}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}])


@pytest.mark.usefixtures("camera")
async def test_images_reach_a_model_through_langchain_if_it_takes_them(executor: ToolExecutor) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "look", "args": {}}
    [shown] = langchain_tools(executor, images=True)
    assert [it["type"] for it in (await shown.ainvoke(call)).content] == ["text", "image"]
    [told] = langchain_tools(executor)
    assert (await told.ainvoke(call)).content == "a lamp\n[an image (image/png) that this model cannot be shown]"


@pytest.mark.usefixtures("camera")
async def test_images_reach_a_model_through_pydantic_ai(executor: ToolExecutor) -> None:
    from pydantic_ai.messages import BinaryContent

    from toolrun.adapters import ToolrunToolset

    context: Any = SimpleNamespace(tool_call_id="c1", messages=[])
    toolset = ToolrunToolset(executor)
    tools = await toolset.get_tools(context)
    returned = await toolset.call_tool("look", {}, context, tools["look"])
    text, image = returned.return_value  # type: ignore[misc]  # a list of two
    assert text == "a lamp"
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (base64.b64decode(PIXEL), "image/png")
    assert returned.metadata.success


def asked_of_anthropic(name: str, **arguments: object) -> Any:
    block = SimpleNamespace(type="tool_use", id="c1", name=name, input=arguments)
    return SimpleNamespace(content=[block], stop_reason="tool_use")


@pytest.mark.usefixtures("camera")
async def test_images_reach_a_model_through_anthropics_sdk(executor: ToolExecutor) -> None:
    said, answered = await AnthropicTools(executor).execute(asked_of_anthropic("look"))
    assert said["role"] == "assistant"
    [block] = answered["content"]
    assert block["content"] == [
        {"type": "text", "text": "a lamp"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    ]
    assert block["is_error"] is False


def test_programs_without_an_event_loop_use_the_same_tools() -> None:
    executor = ToolExecutor(ToolManager())

    @executor.manager.add
    async def double(n: int) -> int:
        """Double."""
        return 2 * n

    [tool] = langchain_tools(executor)
    message = tool.invoke({"type": "tool_call", "id": "c1", "name": "double", "args": {"n": "4"}})
    assert (message.content, message.status, message.artifact.result) == ("8", "success", 8)
    assert tool.invoke({"n": 5}) == "10"
    assert tool.invoke({"type": "tool_call", "id": "c1", "name": "double", "args": {}}).status == "error"
    _, answered = AnthropicTools(executor).execute_sync(asked_of_anthropic("double", n=6))
    assert answered["content"][0]["content"] == "12"
    call = SimpleNamespace(type="function_call", call_id="c1", name="double", arguments='{"n": 7}')
    response: Any = SimpleNamespace(output=[call], incomplete_details=None)
    assert OpenAITools(executor).execute_sync(response)[-1]["output"] == "14"


async def test_the_responses_api_gets_its_own_form_and_no_call_that_was_cut_off_runs(executor: ToolExecutor) -> None:
    ran: list[str] = []

    @executor.manager.add
    async def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    tools = OpenAITools(executor)
    [definition] = tools.response_definitions
    assert definition["type"] == "function"
    assert (definition["name"], definition["strict"]) == ("delete", False)
    call = SimpleNamespace(type="function_call", call_id="c1", name="delete", arguments='{"path": "/a"}')
    thought = SimpleNamespace(type="reasoning")
    whole: Any = SimpleNamespace(output=[thought, call], incomplete_details=None)
    assert await tools.execute(whole) == [
        thought,
        call,
        {"type": "function_call_output", "call_id": "c1", "output": "deleted"},
    ]
    cut: Any = SimpleNamespace(output=[call], incomplete_details=SimpleNamespace(reason="max_output_tokens"))
    assert "cut off" in (await tools.execute(cut))[-1]["output"]
    assert ran == ["/a"]


async def test_an_application_has_a_runtime_from_its_start_to_its_end(project: Path) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        events.append("own begins")
        yield {"own": "kept"}
        events.append("own ends")

    app = FastAPI(lifespan=runtime_lifespan(project / "toolrun.toml", inner=own, consumer="shop"))

    @app.post("/orders/{item}")
    async def place(
        item: str,
        request: Request,
        executor: Annotated[ToolExecutor, Depends(get_executor)],
        runtime: Annotated[Runtime, Depends(get_runtime)],
    ) -> dict[str, Any]:
        assert runtime.executor is executor
        events.append(f"{request.state.own} {runtime.consumer}")
        return (await executor.execute("order", {"item": item})).to_dict()

    async with app.router.lifespan_context(app) as state:

        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state or {})}, receive, send)

        transport = httpx.ASGITransport(with_state)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answer = (await client.post("/orders/tea")).json()
    assert answer.get("result") == "ordered tea", answer
    assert events == ["own begins", "kept shop", "own ends"]

    bare = FastAPI()

    @bare.get("/")
    async def root(runtime: Annotated[Runtime, Depends(get_runtime)]) -> None: ...

    async with httpx.AsyncClient(transport=httpx.ASGITransport(bare), base_url="http://test") as client:
        with pytest.raises(ToolrunError, match="runtime_lifespan"):
            await client.get("/")
