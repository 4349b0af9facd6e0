"""A journal on a real disk that is full: a small tmpfs, in a mount namespace of its own."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.console import TOOLRUN, environment

LIMIT = 60.0
MOUNT = 'mount -t tmpfs -o size=8m none "$0" && cd "$0" && exec "$@"'

PROGRAM = """
import asyncio, json, os, sqlite3, subprocess, sys
from pathlib import Path
from toolrun import Runtime, ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.errors import ConfigError
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder

ran = []

@tool
async def look(n: int) -> int:
    "Look."
    return n

@tool
async def act(n: int) -> int:
    "Act."
    ran.append(n)
    return n

PATH = Path(".toolrun/journal.db")
Path("toolrun.toml").write_text("")
ONCE = {"act": ToolSettings(effects="once")}

def fill():
    with open("filler", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass

def toolrun(*arguments):
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, timeout=50)
    return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
"""

FULL_MEANWHILE = """
async def main(report):
    journal = Journal(PATH)
    manager = ToolManager([look, act])
    executor = ToolExecutor(manager, settings=ONCE, observers=[], recorder=CallRecorder(journal))
    strict = CallRecorder(journal, is_required=True)
    required = ToolExecutor(manager, settings=ONCE, observers=[], recorder=strict)
    assert (await executor.execute("act", {"n": 0})).success
    await journal.drain()
    fill()
    for n in range(10_000):
        assert (await executor.execute("look", {"n": n})).success
    assert (await executor.execute("act", {"n": 1})).success
    report["problem"] = journal.problem
    refused = await required.execute("act", {"n": 2})
    report["refused"] = (str(refused.error_kind), str(refused.side_effects), refused.error)
    assert (await required.execute("look", {"n": 2})).success
    report["log while full"] = toolrun("log", "--json")
    Path("filler").unlink()
    assert (await required.execute("act", {"n": 3})).success
    await journal.drain()
    report["problem later"] = journal.problem
    await executor.close()
    await required.close()
    journal.close()

report = {}
asyncio.run(main(report))
connection = sqlite3.connect(PATH)
report["integrity"] = connection.execute("PRAGMA integrity_check").fetchall()
report["calls"] = connection.execute("SELECT count(*) FROM call").fetchone()[0]
report["acts"] = connection.execute(
    "SELECT arguments, state FROM call WHERE effects = 'once' ORDER BY id").fetchall()
report["gaps"] = connection.execute("SELECT calls, reason FROM gap").fetchall()
connection.close()
for name in ("log", "stats", "doctor"):
    report[name] = toolrun(name, "--json")
report["log in words"] = toolrun("log", "-n", "10000")
print(json.dumps(report | {"ran": ran}))
"""

FULL_BEFORE = """
async def call():
    async with Runtime.open("toolrun.toml") as runtime:
        runtime.manager.add(act)
        return (await runtime.executor.execute("act", {"n": 1})).success

report = {}
fill()
report["call"] = asyncio.run(call())
report["doctor"] = toolrun("doctor", "--json")
Path("filler").unlink()
Path("toolrun.toml").write_text("[journal]\\nrequired = true\\n")
fill()
try:
    report["required"] = asyncio.run(call())
except ConfigError as error:
    report["required"] = str(error)
print(json.dumps(report))
"""

FULL_LATER = """
async def call():
    async with Runtime.open("toolrun.toml") as runtime:
        runtime.manager.add(act)
        return (await runtime.executor.execute("act", {"n": 1})).success

report = {"before": asyncio.run(call())}
connection = sqlite3.connect(PATH, isolation_level=None)
connection.execute("UPDATE call SET state = 'in_doubt'")
connection.close()
fill()
report["call"] = asyncio.run(call())
report["list"] = toolrun("list")
report["log"] = toolrun("log")
report["doctor"] = toolrun("doctor", "--json")
report["settle"] = toolrun("effects", "settle", "1-1", "--done")
print(json.dumps(report))
"""


@functools.cache
def with_small_disk() -> list[str] | None:
    """The command that runs another one with an own small disk; None if that is not possible."""
    if shutil.which("unshare") is None:
        return None
    for namespaces in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *namespaces, "sh", "-c", MOUNT]
        if subprocess.run([*command, "/mnt", "true"], capture_output=True, timeout=LIMIT, check=False).returncode == 0:
            return command
    return None


def run(folder: Path, body: str) -> dict[str, Any]:
    command = with_small_disk()
    if command is None:
        reason = "a tmpfs cannot be mounted here"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    done = subprocess.run(
        [*command, str(folder), sys.executable, "-c", PROGRAM + body, str(TOOLRUN)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env=environment({"TMPDIR": "/tmp"}),
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert "Traceback" not in done.stderr, done.stderr
    return report


def test_calls_go_on_when_the_disk_fills_up_and_what_is_missing_is_told(tmp_path: Path) -> None:
    report = run(tmp_path, FULL_MEANWHILE)
    assert "full" in report["problem"]
    assert (report["problem later"], report["integrity"]) == (None, [["ok"]])
    kind, side_effects, error = report["refused"]
    assert (kind, side_effects) == ("unavailable", "not_started")
    assert "full" in error
    assert report["ran"] == [0, 1, 3]  # and not the one that needs the journal
    [[lost, _]] = report["gaps"]
    assert lost > 0
    assert report["calls"] + lost == 10_000 + 5  # four calls with effects, and one more look
    states = [(json.loads(arguments)["n"], state) for arguments, state in report["acts"]]
    assert states == [(0, "done"), (1, "done"), (2, "refused"), (3, "done")]
    assert report["log while full"]["code"] == 0
    assert json.loads(report["log while full"]["stdout"])["arguments"] == {"n": 0}

    words = f"{lost} calls were not recorded between "
    told = [line for line in report["log in words"]["stdout"].splitlines() if line.startswith("—")]
    [line] = told
    assert line.startswith(f"— {words}")
    assert line.endswith(": the disk was full")
    [gap] = [json.loads(it)["gap"] for it in report["log"]["stdout"].splitlines() if "gap" in json.loads(it)]
    assert (gap["calls"], gap["reason"], gap["process"]) == (lost, "the disk was full", 1)
    assert gap["started_at"] < gap["ended_at"]
    assert json.loads(report["stats"]["stdout"])["gaps"] == [gap]
    checks = json.loads(report["doctor"]["stdout"])["checks"]
    assert any(it["status"] == "warning" and words in it["message"] for it in checks), checks


def test_a_project_on_a_full_disk_makes_its_calls_unless_it_requires_the_journal(tmp_path: Path) -> None:
    report = run(tmp_path, FULL_BEFORE)
    assert report["call"] is True
    checks = json.loads(report["doctor"]["stdout"])["checks"]
    assert any("calls are not recorded" in it["message"] and "full" in it["message"] for it in checks), checks
    assert "required = true" in report["required"]


def test_a_disk_that_is_full_at_the_start_stops_only_the_command_that_has_to_write(tmp_path: Path) -> None:
    report = run(tmp_path, FULL_LATER)
    assert (report["before"], report["call"]) == (True, True)
    assert (report["list"]["code"], report["log"]["code"]) == (0, 0), report
    checks = json.loads(report["doctor"]["stdout"])["checks"]
    assert any("calls are not recorded" in it["message"] and "full" in it["message"] for it in checks), checks
    assert report["settle"]["code"] in (1, 2)
    assert "unexpected" not in report["settle"]["stderr"]
