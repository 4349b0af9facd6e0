"""The status line: what a person sees while a command works, and what nobody else does."""

from __future__ import annotations

import fcntl
import json
import re
import threading
from pathlib import Path

import pytest

from providers.base import Step
from providers.ollama import OllamaServer
from support.console import TOOLRUN, run, toolrun, write_project
from support.terminal import CTRL_C, Terminal, terminal

TOOLS = '''
    import asyncio, sys, time
    from pathlib import Path
    from toolrun import ToolContext

    async def _until_released() -> None:
        while not Path("go").exists():
            await asyncio.sleep(0.01)

    @tool
    async def copy(context: ToolContext, message: str = "reading", total: float = 4) -> str:
        """Reports progress, and waits."""
        context.progress(1, total, message)
        await _until_released()
        return "copied"

    @tool
    async def quiet() -> str:
        """Says nothing, and waits."""
        await _until_released()
        return "over"

    @tool
    async def chatty() -> str:
        """Prints before and after it waits."""
        await _until_released()
        print("a line")
        print("half a line", end="", file=sys.stderr)
        Path("printed").touch()
        while not Path("end").exists():
            await asyncio.sleep(0.01)
        return "printed"

    @tool
    def slow() -> str:
        """Takes longer than it takes the status line to appear."""
        time.sleep(0.8)
        return "at last"

    @tool
    async def blocking() -> str:
        """Blocks the event loop and reports nothing."""
        while not Path("go").exists():
            time.sleep(0.01)
        return "unblocked"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


def release(project: Path, name: str = "go") -> None:
    (project / name).touch()


def ends_with(shown: Terminal, *lines: str) -> None:
    """It has ended well, and exactly these lines are left on the terminal."""
    assert shown.ends() == 0, shown.raw
    assert shown.text.splitlines() == list(lines), shown.raw


def test_a_bar_shows_what_the_tool_says_and_is_gone_at_the_end(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "copy", cwd=project) as shown:
        line = shown.expect_status("1/4")
        assert re.fullmatch(r"\S copy  ━{5}─{15}  1/4  reading  \d+ s", line), line
        release(project)
        ends_with(shown, "copied")


def test_a_call_that_is_made_again_has_the_same_bar(project: Path) -> None:
    release(project)
    assert toolrun("call", "copy", cwd=project).returncode == 0
    (project / "go").unlink()
    id = json.loads(toolrun("log", "--json", cwd=project).stdout)["id"]
    with terminal(str(TOOLRUN), "replay", id, "--yes", cwd=project) as shown:
        line = shown.expect_status("1/4")
        assert re.fullmatch(r"\S copy  ━{5}─{15}  1/4  reading  \d+ s", line), line
        release(project)
        assert shown.ends() == 0
        assert "outcome:  ok, as before" in shown.text
    again = toolrun("replay", id, "--yes", cwd=project)
    assert (again.returncode, "reading" in again.stderr) == (0, False)


def test_a_tool_that_reports_nothing_and_blocks_has_a_spinner_and_its_seconds(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "blocking", cwd=project) as shown:
        line = shown.expect_status("1 s")
        assert re.fullmatch(r"\S blocking  1 s", line), line
        assert len({it[0] for it in shown.status}) > 1  # it turns
        release(project)
        ends_with(shown, "unblocked")


def test_what_a_tool_prints_stands_on_lines_of_its_own(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "chatty", cwd=project) as shown:
        shown.expect_status("chatty")
        release(project)
        shown.expect("a line\nhalf a line")
        release(project, "end")
        assert shown.ends() == 0
        assert shown.text.startswith("a line\nhalf a line")


def test_the_line_fits_the_terminal_moves_no_cursor_and_has_no_colours_with_no_color(project: Path) -> None:
    words = "message=\x1b[2J reading the very long name\nof a file 日本語"
    with terminal(str(TOOLRUN), "call", "copy", words, cwd=project, columns=44, env={"NO_COLOR": "1"}) as shown:
        shown.expect_status(r"\x1b[2J re")
        release(project)
        ends_with(shown, "copied")
        assert all(len(line) < 44 for line in shown.status), shown.status
        assert not re.search(r"\x1b\[[0-9;]*m|\x1b\[2J", shown.raw)


def test_a_terminal_without_unicode_gets_plain_characters(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "copy", cwd=project, env={"PYTHONIOENCODING": "ascii"}) as shown:
        line = shown.expect_status("1/4")
        assert re.fullmatch(r"[|/\\-] copy  #{5}\.{15}  1/4  reading  \d+ s", line), line
        release(project)
        ends_with(shown, "copied")


def test_ctrl_c_leaves_no_line_behind(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "quiet", cwd=project) as shown:
        shown.expect_status("quiet")
        shown.press(CTRL_C)
        assert shown.ends() == 130
        assert "quiet" not in shown.text.replace("of 'quiet'", "")
        assert "toolrun: interrupted" in shown.text


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [("call slow --json", '"result": "at last"'), ("call slow | cat", "at last"), ("call slow 2>errors", "at last")],
)
def test_no_line_with_json_nor_in_a_pipe(arguments: str, kept: str, project: Path) -> None:
    with terminal("/bin/sh", "-c", f"{TOOLRUN} {arguments}", cwd=project) as shown:
        assert shown.ends() == 0
        assert shown.status == []
        assert "\x1b[2K" not in shown.raw
        assert kept in shown.text
    errors = project / "errors"
    assert not errors.exists() or errors.read_text() == ""


def test_the_log_says_the_progress_with_v(project: Path) -> None:
    release(project)
    result = toolrun("call", "copy", "-v", cwd=project)
    assert "progress of copy: 1/4 reading" in result.stderr


def write_script(project: Path, *answers: object) -> str:
    (project / "script.json").write_text(json.dumps({"answer": answers}), encoding="utf-8")
    return "scripted:script.json"


def test_a_model_and_its_calls_are_shown_while_they_are_waited_for(project: Path) -> None:
    hold = threading.Event()
    with OllamaServer() as server:
        server.play(Step(text="Hello.", hold=hold))
        words = [str(TOOLRUN), "ask", "Who are you?", "--model", "ollama:qwen3:0.6b"]
        with terminal(*words, cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            assert server.held.wait(30)
            shown.expect_status("ollama:qwen3:0.6b")
            hold.set()
            shown.expect("Hello.\n")


def test_a_call_of_a_model_has_the_same_bar(project: Path) -> None:
    model = write_script(project, {"calls": [{"name": "copy"}]}, {"text": "It is {result}."})
    with terminal(str(TOOLRUN), "chat", "--model", model, cwd=project) as shown:
        shown.expect("> ")
        shown.type("Copy it")
        shown.expect("  copy {}")
        assert "1/4  reading" in shown.expect_status("1/4")
        release(project)
        shown.expect("  copy → copied (")
        shown.expect("It is copied.\n")


def test_a_question_stands_alone_and_the_line_comes_back_after_it(project: Path) -> None:
    (project / "toolrun.toml").write_text('[approval]\nrules = [{ tool = "copy", action = "ask" }]\n')
    with terminal(str(TOOLRUN), "call", "copy", cwd=project) as shown:
        shown.expect("[n]o (reason): ")
        before = len(shown.status)
        shown.type("y")
        shown.expect_status("1/4")
        release(project)
        assert shown.ends() == 0
        asked, _, after = shown.raw.partition("(reason): ")
        assert "\x1b[2K" not in after.partition("y\n")[0]
        assert before == 0 or asked.rpartition("\x1b[2K")[2].startswith("\r\x1b[K")


def test_sync_counts_the_environments_and_names_their_packages(tmp_path: Path) -> None:
    """Two scripts whose environment another process holds the lock of, so that it takes as long as the test wants."""
    cache = tmp_path / "cache"
    for name in ("alpha", "beta"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "toolrun.toml").touch()
        source = '# /// script\n# dependencies = []\n# ///\ndef f() -> str:\n    """Says."""\n    return "x"\n'
        (tmp_path / "tools" / f"{name}.py").write_text(source)
    env = {"TOOLRUN_WORKERS_CACHE": str(cache)}
    assert run(str(TOOLRUN), "sync", cwd=tmp_path, env=env).returncode == 0
    home = next((cache / "environments").iterdir())
    (home / "complete").unlink()
    with (home / "lock").open("ab") as lock, terminal(str(TOOLRUN), "sync", cwd=tmp_path, env=env) as shown:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown.expect("creating its environment (no packages)")
        line = shown.expect_status("0/2")
        assert "tools/alpha.py, tools/beta.py" in line
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert shown.ends() == 0
        assert "ready" in shown.text
