"""`toolrun log`, `toolrun show` and `toolrun stats`: what was called, and how it went."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from support.console import LIMIT, TOOLRUN, on_terminal, started, toolrun, write_project
from support.terminal import terminal

TOOLS = '''
    from pathlib import Path
    from toolrun import ToolContext, ToolError

    HERE = Path(__file__).parent.parent

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool
    def fail() -> str:
        """Fail."""
        raise ToolError("no money")

    @tool
    def wait() -> str:
        """Say that it has begun, and wait."""
        (HERE / "begun").open("w").close()
        (HERE / "go").open().close()
        return "over"

    @tool
    async def outer(context: ToolContext) -> int:
        """Call another tool."""
        context.progress(1, 2, "half")
        context.logger.info("about to add")
        return (await context.call_tool("add", {"a": 1, "b": 2})).result
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    return write_project(tmp_path, work=TOOLS)


def call(project: Path, *arguments: str) -> None:
    toolrun("call", *arguments, cwd=project)


def log(project: Path, *options: str) -> list[dict[str, Any]]:
    done = toolrun("log", *options, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids(project: Path, *options: str) -> list[str]:
    return [it["id"] for it in log(project, *options)]


def test_the_last_calls_are_listed_the_newest_last(project: Path) -> None:
    call(project, "add", "a=1", "b=2")
    call(project, "fail")
    call(project, "add", "a=1")
    lines = toolrun("log", cwd=project).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1-1", "2-1", "3-1"]
    assert ("add" in lines[0], " ok " in lines[0], '{"a":1,"b":2}' in lines[0], lines[0].endswith("3")) == (True,) * 4
    assert ("tool_error" in lines[1], "no money" in lines[1]) == (True, True)
    assert "invalid_arguments" in lines[2]
    assert ids(project, "-n", "2") == ["2-1", "3-1"]
    for it in log(project):  # as in a result that a program gets
        assert it.keys() >= {"error_kind", "side_effects", "repairs", "dropped", "call_id", "key", "replayed"}
        assert it["call_id"] == it["id"]
    assert ids(project, "add") == ["1-1", "3-1"]
    first = log(project)[0]
    assert (first["tool"], first["state"], first["result"], first["consumer"]) == ("add", "done", 3, "call")


def test_calls_are_found_by_outcome_and_time(project: Path) -> None:
    call(project, "add", "a=1", "b=2")
    call(project, "fail")
    call(project, "add", "a=1")
    assert ids(project, "--outcome", "failed") == ["2-1", "3-1"]
    assert ids(project, "--outcome", "done") == ["1-1"]
    assert ids(project, "--outcome", "refused") == ids(project, "--outcome", "invalid_arguments") == ["3-1"]
    assert ids(project, "--outcome", "tool_error") == ["2-1"]
    second = datetime.fromtimestamp(log(project)[1]["at"] / 1_000_000).astimezone().isoformat()
    assert ids(project, "--since", second) == ["2-1", "3-1"]
    assert ids(project, "--until", second) == ["1-1"]
    assert ids(project, "--since", "10m") == ["1-1", "2-1", "3-1"]
    none = toolrun("log", "--until", "10m", cwd=project)
    assert (none.stdout, none.returncode) == ("", 0)
    assert "no call was recorded that meets these conditions" in none.stderr
    wrong = toolrun("log", "--since", "yesterdays", cwd=project)
    assert (wrong.returncode, "is not a time" in wrong.stderr) == (2, True)


def test_who_follows_sees_each_call_when_it_has_ended_also_one_that_ran_before(project: Path) -> None:
    with started("call", "wait", cwd=project) as waiting:
        (project / "begun").read_text()
        call(project, "add", "a=1", "b=2")
        with started("log", "--follow", "--json", cwd=project) as following:
            assert following.stdout is not None
            shown = [json.loads(following.stdout.readline()) for _ in range(2)]
            assert [(it["tool"], it["state"]) for it in shown] == [("wait", "started"), ("add", "done")]
            (project / "go").write_text("")
            waiting.communicate(timeout=LIMIT)
            ended = json.loads(following.stdout.readline())
            assert (ended["id"], ended["state"], ended["result"]) == (shown[0]["id"], "done", "over")
            call(project, "fail")
            assert json.loads(following.stdout.readline())["tool"] == "fail"


def test_everything_that_is_known_of_a_call_is_shown_with_a_timeline(project: Path) -> None:
    call(project, "outer")
    call(project, "add", 'a:="1"', "b=2")
    parent, child = (it["id"] for it in log(project, "-n", "3")[:2])
    shown = toolrun("show", parent, cwd=project).stdout
    timeline = shown[shown.index("Timeline") :].splitlines()
    assert timeline[1].endswith("accepted")
    assert any(f"called add ({child}): ok" in line for line in timeline)
    assert any(line.endswith("  1 of 2: half") for line in timeline)
    assert timeline[timeline.index("Log") + 1].endswith("  info    about to add")
    assert f"part of:      {parent}" in toolrun("show", child, cwd=project).stdout
    data = json.loads(toolrun("show", parent, "--json", cwd=project).stdout)
    assert [(it["level"], it["text"]) for it in data["log"]] == [("info", "about to add")]
    assert [it["text"] for it in data["progress"]] == ["1 of 2: half"]
    assert (data["children"], data["effects"], len(data["idempotency_key"])) == ([child], None, 32)
    repaired = toolrun("show", log(project)[-1]["id"], cwd=project).stdout
    for title in ("Arguments as sent", "Arguments", "Repairs", "Result"):
        assert f"\n{title}\n" in repaired


def test_statistics_have_bars_on_a_terminal_and_nowhere_else(project: Path) -> None:
    for _ in range(2):
        call(project, "add", "a=1", "b=2")
    call(project, "fail")
    data = {it["tool"]: it for it in json.loads(toolrun("stats", "--json", cwd=project).stdout)["tools"]}
    assert [(it["calls"], it["failed"], it["outcomes"]) for it in data.values()] == [
        (2, 0, {"ok": 2}),
        (1, 1, {"tool_error": 1}),
    ]
    assert data["add"]["p50_us"] <= data["add"]["p95_us"] <= data["add"]["p99_us"] <= data["add"]["slowest_us"]
    assert data["add"]["slowest_call"] in ("1-1", "2-1")
    piped = toolrun("stats", cwd=project).stdout
    assert ("add" in piped, "1 (100%)" in piped, "█" in piped) == (True, True, False)
    assert "█" * 5 in on_terminal(str(TOOLRUN), "stats", cwd=project)[1]
    assert [it["tool"] for it in json.loads(toolrun("stats", "fail", "--json", cwd=project).stdout)["tools"]] == [
        "fail"
    ]
    call(project, "nope")
    (refused,) = json.loads(toolrun("stats", "nope", "--json", cwd=project).stdout)["tools"]
    assert [refused[it] for it in ("calls", "p50_us", "p95_us", "p99_us", "slowest_us", "slowest_call")] == [1] + [
        None
    ] * 5
    assert "µs" not in toolrun("stats", "nope", cwd=project).stdout  # it never ran, so it took no time
    nobody = toolrun("stats", "nobody", cwd=project)
    assert (nobody.stdout, nobody.returncode) == ("", 0)
    assert "no call was recorded of 'nobody'" in nobody.stderr


def on_80_columns(project: Path, *command: str) -> list[str]:
    with terminal(str(TOOLRUN), *command, cwd=project, columns=80) as shown:
        assert shown.ends() == 0
        lines = shown.text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    return lines


def test_on_80_columns_each_call_has_one_line_and_the_statistics_of_a_tool_have_one_too(project: Path) -> None:
    for number in ("1", "23456", "x"):
        call(project, "add", f"a={number}", "b=222222222222")
    call(project, "fail")
    head, *lines = on_80_columns(project, "log")
    assert head.split() == ["CALL", "TIME", "TOOL", "OUTCOME", "TOOK", "ARGUMENTS", "RESULT"]
    assert [line.split()[2:4] for line in lines] == [
        ["add", "ok"],
        ["add", "ok"],
        ["add", "invalid_arguments"],
        ["fail", "tool_error"],
    ]
    assert "…" in lines[2]  # what has no room can be seen with 'show'
    stats = on_80_columns(project, "stats")
    assert stats[0].split() == ["TOOL", "CALLS", "FAILED", "P50", "P95", "P99", "SLOWEST"]
    assert [line.split()[:2] for line in stats[1:3]] == [["add", "3"], ["fail", "1"]]
    assert stats[3] == ""
    assert [" ".join(line.split()) for line in stats[4:]] == ["TOOL REPAIRS", "add 4 × number sent as text"]
