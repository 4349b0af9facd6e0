"""The pytest plugin, in a pytest of its own: the guide's tests pass, and tests that go wrong fail in words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from toolrun import Runtime
from toolrun.testing import MockTool, Recording

GUIDE = Path(__file__).parents[3] / "docs/guides/testing.md"
WRONG = """
from toolrun.testing import MockTool


def test_that_ends_too_early(scripted_model):
    scripted_model("One.", "Two.")


def test_with_a_call_that_the_mock_does_not_know(executor, mock_tool):
    mock_tool("lamp", answers=[({"name": "hall"}, "on")])
    assert executor.execute_sync("lamp", {"name": "attic"}).error == ""


def test_with_an_executor_of_its_own(executor, mock_tool):
    mock_tool("lamp", "on")
    assert len(executor.manager) == 1
"""


def run_pytest(directory: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=directory)
    return done.stdout + done.stderr


def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    [code] = re.findall(r"```python no-run\n# test_lamps.py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "test_lamps.py").write_text(code)
    lines = [
        {"toolrun_recording": 1},
        {"tool": "weather", "description": "Weather.", "inputSchema": {"type": "object"}},
        {"call": "weather", "arguments": {"city": "Rome"}, "result": "sun"},
    ]
    (tmp_path / "weather.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert Recording.load(tmp_path / "weather.jsonl").tools()[0].name == "weather"
    assert "4 passed" in run_pytest(tmp_path)


def test_what_goes_wrong_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG)
    said = run_pytest(tmp_path)
    assert "2 passed, 1 failed, 1 error" in said or "1 failed, 2 passed, 1 error" in said
    assert "The test ended before 2 of the 2 answers of a script" in said
    assert 'the mock \'lamp\' has no answer for {"name":"attic"}' in said


async def test_the_mock_of_the_guide_answers_by_arguments_with_a_delay_and_failures(tmp_path: Path) -> None:
    [entry] = re.findall(r"```json\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "weather.json").write_text(entry)
    (tmp_path / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        execute = runtime.executor.execute
        assert runtime.problems == []
        rome = await execute("weather", {"city": "Rome"})
        assert rome.result == "sun"
        assert rome.execution_time_ms >= 200
        assert (await execute("weather", {"city": "Rome"}, timeout=0.01)).error_kind == "timeout"
        assert (await execute("weather", {"city": "Atlantis"})).error == "there is no such city"
        assert (await execute("weather", {"city": "Kiel"})).result == "rain"


def test_in_the_executor_of_a_test_no_call_needs_approval(tmp_path: Path) -> None:
    code = """
        from toolrun import tool

        def test_wipe(executor):
            @executor.manager.add
            @tool(approval="ask")
            def wipe() -> str:
                "Wipe."
                return "gone"

            assert executor.execute_sync("wipe").result == "gone"
    """
    (tmp_path / "test_wipe.py").write_text(dedent(code))
    assert "1 passed" in run_pytest(tmp_path)


def test_a_mock_says_how_often_it_was_called() -> None:
    lamp = MockTool("lamp", "on")
    assert repr(lamp) == "<MockTool 'lamp', with 0 calls>"
    lamp.calls.append({})
    assert repr(lamp) == "<MockTool 'lamp', with 1 call>"
