"""The pytest plugin: the fixtures `executor`, `mock_tool`, `scripted_model` and `recording`.

A project that has fixtures of these names keeps its own.

pytest loads it by its entry point in every project that has toolrun installed, so it imports nothing else of toolrun
until a test asks for the fixture.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

_TIMEOUT = 5.0
"""Seconds that a call may take in a test."""

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor
    from toolrun.recording.playback import Recording
    from toolrun.testing.mock_tool import MockTool
    from toolrun.testing.scripted_model import ScriptedModel


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "recording(*files, lenient=False): plays calls that 'toolrun record' wrote, to the fixture 'recording'; "
        "files are relative to the file of the test",
    )


@pytest.fixture
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    """The recording that the marker names. Strict: a call that it has no answer for fails the test."""
    from toolrun.errors import ConfigError
    from toolrun.recording.playback import Recording

    marker = request.node.get_closest_marker("recording")
    if marker is None or not marker.args or marker.kwargs.keys() - {"lenient"}:
        pytest.fail('The fixture "recording" needs @pytest.mark.recording("FILE", …, lenient=False)', pytrace=False)
    paths = [request.path.parent / name for name in marker.args]
    try:
        played = Recording.load(*paths, lenient=bool(marker.kwargs.get("lenient", False)))
    except ConfigError as error:
        pytest.fail(str(error), pytrace=False)
    yield played
    if played.mismatches:
        pytest.fail("\n".join(played.mismatches), pytrace=False)


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Iterator[ToolExecutor]:
    """An executor for one test, with a deadline of 5 s. With the marker `recording` it has the recorded tools.

    No call needs approval: nobody is there who could give it.
    """
    from toolrun.execution.executor import ToolExecutor
    from toolrun.tools.manager import ToolManager

    if request.node.get_closest_marker("recording") is not None:
        made: ToolExecutor = request.getfixturevalue("recording").executor(timeout=_TIMEOUT)
    else:
        made = ToolExecutor(ToolManager(), timeout=_TIMEOUT)
        made.approver = None
    yield made
    asyncio.run(made.close())  # the loop of the test has ended with all that ran on it; this lets the threads go


@pytest.fixture
def mock_tool(executor: ToolExecutor) -> Callable[..., MockTool]:
    """Adds a `MockTool` to the executor of the test: `light = mock_tool("light", "on")`, then `light.calls`."""
    from toolrun.testing.mock_tool import MockTool

    def add(name: str, answer: Any = None, **options: Any) -> MockTool:
        return executor.manager.add(MockTool(name, answer, **options))

    return add


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Makes models that play a script: `scripted_model(ToolCall(…), "Done.")`. The test must play it to its end."""
    from toolrun.testing.scripted_model import ScriptedModel

    made: list[ScriptedModel] = []

    def make(*script: Any, **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(script, **options))
        return made[-1]

    yield make
    for model in made:
        left = len(model.script) - len(model.requests)
        if left > 0 and not model.repeat:
            pytest.fail(f"The test ended before {left} of the {len(model.script)} answers of a script", pytrace=False)
