"""S2.5: Python files without a PEP 723 header run in this process."""

from __future__ import annotations

import os
import threading

import pytest
from langchain_core.language_models import FakeListChatModel

from acceptance.project import Project


@pytest.mark.scenario("S2.5.1")
async def test_s2_5_1_internal_tool_detection(project: Project) -> None:
    """The tools of a file without PEP 723 metadata are loaded and run in this process, with its state at hand."""
    project.write(
        "tools/inside.py",
        '''
        import os
        import threading

        from toolrun import ToolContext, tool

        @tool
        def where() -> list[int]:
            """Tell the process and its main thread."""
            return [os.getpid(), threading.main_thread().ident]

        @tool
        async def learn(context: ToolContext, word: str) -> str:
            """Add a tool to the running application."""

            async def say() -> str:
                """Say the word."""
                return word

            return context.manager.add(say).name
        ''',
    )
    async with project.open() as runtime:
        assert not runtime.problems
        where = await runtime.executor.execute("where")
        assert where.result == [os.getpid(), threading.main_thread().ident]
        learned = await runtime.executor.execute("learn", {"word": "hello"})
        assert learned.result == "say"
        assert (await runtime.executor.execute("say")).result == "hello", "the tool changed the state of its host"


@pytest.mark.scenario("S2.5.2")
async def test_s2_5_2_internal_tool_has_host_access(project: Project) -> None:
    """A tool that runs in this process reaches the registry, its configuration and the model directly."""
    project.write("toolrun.toml", '[tool.advise]\nconfig = { units = "metric" }\n')
    project.declare(
        {
            "name": "weather",
            "description": "Tell the weather.",
            "implementation": {"type": "mock", "mock_response": "12 degrees"},
        }
    )
    project.write(
        "tools/advise.py",
        '''
        from toolrun import ToolContext, tool

        @tool
        async def advise(context: ToolContext) -> dict:
            """Give advice for the day."""
            weather = await context.call_tool("weather")
            advice = await context.model.ainvoke(f"It is {weather.text}. What should I wear?")
            return {
                "registry": [it.name for it in context.manager.tools],
                "units": context.config["units"],
                "weather": weather.result,
                "advice": advice.content,
            }
        ''',
    )
    async with project.open() as runtime:
        runtime.executor.model = FakeListChatModel(responses=["A coat."])
        result = await runtime.executor.execute("advise")
    assert result.result == {
        "registry": ["advise", "weather"],
        "units": "metric",
        "weather": "12 degrees",
        "advice": "A coat.",
    }
