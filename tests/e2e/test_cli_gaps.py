"""What `toolrun log`, `stats` and `doctor` say of calls that are not on record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.console import TOOLRUN, on_terminal, toolrun, write_project
from toolrun import ToolExecutor, ToolManager, tool
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder

TOOLS = '''
@tool(effects="none")
def look(n: int) -> int:
    """Look."""
    return n
'''


@tool(effects="none")
async def look(n: int) -> int:
    """Look."""
    return n


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    """Three calls are gone with the file that they were in, and two came after them."""
    write_project(tmp_path, look=TOOLS)
    path = tmp_path / ".toolrun" / "journal.db"
    journal = Journal(path)
    executor = ToolExecutor(ToolManager([look]), recorder=CallRecorder(journal))
    for n in range(5):
        if n == 3:
            await journal.drain()
            for file in path.parent.glob("journal.db*"):
                if not file.name.endswith("-lock"):
                    file.unlink()
            await journal.drain()
        assert (await executor.execute("look", {"n": n})).success
    await executor.close()
    journal.close()
    return tmp_path


GONE = "3 calls were not recorded between "
WHY = ": the journal with these calls was deleted or moved"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_the_log_has_a_line_for_them_before_the_calls_after_them(project: Path) -> None:
    listed = lines(toolrun("log", cwd=project).stdout)
    assert listed[0].startswith(f"— {GONE}")
    assert listed[0].endswith(WHY)
    assert [line.split()[2] for line in listed[1:]] == ["look", "look"]
    code, shown = on_terminal(str(TOOLRUN), "log", cwd=project)
    assert (code, shown.count(f"— {GONE}")) == (0, 1)
    assert shown.index(GONE) < shown.index("look")


def test_no_filter_hides_them_because_nobody_knows_what_they_were(project: Path) -> None:
    other = toolrun("log", "other", cwd=project)
    assert GONE in other.stdout
    assert "no call was recorded that meets these conditions" in other.stderr
    assert GONE in toolrun("log", "--outcome", "failed", cwd=project).stdout


def test_what_is_before_or_after_the_time_in_question_is_not_shown(project: Path) -> None:
    assert GONE in toolrun("log", "--since", "1h", cwd=project).stdout
    assert GONE not in toolrun("log", "--until", "1h", cwd=project).stdout
    assert GONE not in toolrun("log", "--since", "2999-01-01", cwd=project).stdout
    assert GONE not in toolrun("log", "-n", "1", cwd=project).stdout  # it is before the calls that are shown
    assert GONE not in toolrun("stats", "--since", "2999-01-01", cwd=project).stderr


def test_programs_get_them_apart_from_the_calls(project: Path) -> None:
    logged: list[dict[str, Any]] = [json.loads(it) for it in lines(toolrun("log", "--json", cwd=project).stdout)]
    gap, *calls = logged
    assert [it["arguments"]["n"] for it in calls] == [3, 4]
    assert gap["gap"]["calls"] == 3
    assert gap["gap"]["reason"] == WHY.removeprefix(": ")
    assert gap["gap"]["started_at"] <= gap["gap"]["ended_at"]
    stats = json.loads(toolrun("stats", "--json", cwd=project).stdout)
    assert [(it["tool"], it["calls"]) for it in stats["tools"]] == [("look", 2)]
    assert stats["gaps"] == [gap["gap"]]


def test_the_statistics_say_what_is_not_counted(project: Path) -> None:
    done = toolrun("stats", cwd=project)
    assert done.stdout.split()[:2] == ["look", "2"]
    assert f"not counted: {GONE}" in done.stderr


def test_the_doctor_warns_of_them_and_names_the_journal(project: Path) -> None:
    done = toolrun("doctor", "--json", cwd=project)
    checks = [it for it in json.loads(done.stdout)["checks"] if it["subject"] == "journal"]
    assert (checks[0]["status"], done.returncode) == ("ok", 0)
    assert ".toolrun/journal.db (SQLite 3." in checks[0]["message"]
    assert any(it["status"] == "warning" and GONE in it["message"] for it in checks)


def test_the_doctor_says_under_its_own_name_that_the_journal_is_off_or_unusable(tmp_path: Path) -> None:
    project = write_project(tmp_path, look=TOOLS)
    (project / ".toolrun").mkdir(exist_ok=True)
    (project / ".toolrun/journal.db").write_bytes(b"no database" * 1000)
    checks = json.loads(toolrun("doctor", "--json", cwd=project).stdout)["checks"]
    (broken,) = [it for it in checks if "not recorded" in it["message"]]
    assert (broken["status"], broken["subject"]) == ("warning", "journal")
    assert "Set [journal] path to another file, or move this one away: mv " in broken["message"]
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    checks = json.loads(toolrun("doctor", "--json", cwd=project).stdout)["checks"]
    assert [it["message"] for it in checks if it["subject"] == "journal"] == ["off ([journal] enabled = false)"]


def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path) -> None:
    project = write_project(tmp_path, look=TOOLS)
    toolrun("call", "look", "n=1", cwd=project)
    assert "not recorded" not in toolrun("log", cwd=project).stdout
    assert toolrun("stats", cwd=project).stderr == ""
    assert json.loads(toolrun("stats", "--json", cwd=project).stdout)["gaps"] == []
    assert "not recorded" not in toolrun("doctor", cwd=project).stdout
