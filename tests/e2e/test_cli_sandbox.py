"""What a user is told of the sandbox: by a call that it stops, by `doctor`, by `workers` and by the journal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from support.console import LIMIT, started, toolrun
from support.environments import header
from toolrun.processes.sandbox.system_support import (
    BUBBLEWRAP,
    LANDLOCK,
    NAMESPACES,
    NONE,
    SystemSupport,
    landlock_abi,
    remember_support,
)

READ = '''
def read(path: str) -> str:
    """Read a file."""
    return open(path).read()

def write(path: str) -> None:
    """Write a file."""
    open(path, "w").close()

def variable(name: str) -> str:
    """Read a variable."""
    import os
    return os.environ[name]

def start(program: str) -> None:
    """Start a program."""
    import subprocess
    subprocess.run([program, "--version"], check=True, capture_output=True)

def fetch(url: str) -> None:
    """Fetch a page."""
    import urllib.request
    urllib.request.urlopen(url, timeout=20)

def wrapped(path: str) -> None:
    """Raise an error of its own."""
    from toolrun_sdk import ToolError
    try:
        open(path)
    except OSError as error:
        raise ToolError("There is no data.") from error
'''
HANG = '''
import subprocess, sys

def hang() -> None:
    """Hang, together with a program."""
    print("started", file=sys.stderr, flush=True)
    subprocess.run(["sleep", "600"])
'''
RUNGS = [NAMESPACES, LANDLOCK]

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not landlock_abi(), reason="needs Landlock")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script and a cache of its own, beside a home."""
    monkeypatch.setattr("support.console.CACHE", "")  # an empty variable counts as unset, so the file decides
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "data.py").write_text(header("dependencies = []") + READ)
    configure(root)
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "home" / "data" / "x.csv").write_text("a,b\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return root


def configure(root: Path, *lines: str) -> None:
    (root / "toolrun.toml").write_text("\n".join(['[workers]\ncache = "../cache"', *lines]))


def have(root: Path, rung: str) -> None:
    """Have the system allow a rung, and no higher one."""
    if rung == BUBBLEWRAP and shutil.which("bwrap") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap is not installed")
        pytest.skip("bubblewrap is not installed")
    reasons = {NAMESPACES: "unshare: Operation not permitted"} if rung != NAMESPACES else {}
    remember_support(root.parent / "cache", SystemSupport(rung, landlock_abi(), reasons))


def line_of(text: str) -> str:
    """The line for toolrun.toml that a message has."""
    found = re.search(r"(?:add|set) (.+?) (?:to|in) \[tool\.data\.permissions\]", text)
    assert found is not None, text
    return found[1]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_stopped_call_says_which_line_allows_it_and_with_that_line_it_works(project: Path, rung: str) -> None:
    have(project, rung)
    file = project.parent / "home" / "data" / "x.csv"
    done = toolrun("call", "data.read", f"path={file}", cwd=project)
    assert done.returncode == 1
    assert f'["{file.parent}"] to [tool.data.permissions] in toolrun.toml.' in done.stderr
    line = line_of(done.stderr)
    assert tomllib.loads(line) == {"read": [str(file.parent)]}
    configure(project, "[tool.data.permissions]", line)
    assert toolrun("call", "data.read", f"path={file}", cwd=project).stdout == "a,b\n\n"
    stopped = toolrun("call", "data.write", f"path={file}", cwd=project)
    assert f"The sandbox does not let this tool write {file}. " in stopped.stderr
    configure(project, "[tool.data.permissions]", line_of(stopped.stderr))
    assert toolrun("call", "data.write", f"path={file}", cwd=project).returncode == 0
    assert file.read_text() == ""


@pytest.mark.parametrize("rung", RUNGS)
def test_the_lines_for_one_key_after_another_work_together(project: Path, rung: str, tmp_path: Path) -> None:
    have(project, rung)
    files = [tmp_path / "home" / name / "x.csv" for name in ("one", "two", "three")]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"{number}\n")
    for file in files:
        stopped = toolrun("call", "data.read", f"path={file}", cwd=project)
        configure(project, "[tool.data.permissions]", line_of(stopped.stderr))
    for number, file in enumerate(files):
        assert toolrun("call", "data.read", f"path={file}", cwd=project).stdout == f"{number}\n\n"


@pytest.mark.parametrize("rung", RUNGS)
def test_a_missing_variable_is_named_with_the_line_that_grants_it(project: Path, rung: str) -> None:
    have(project, rung)
    own = {"OWN_VARIABLE": "its value"}
    stopped = toolrun("call", "data.variable", "name=OWN_VARIABLE", cwd=project, env=own)
    assert stopped.returncode == 1
    configure(project, "[tool.data.permissions]", line_of(stopped.stderr))
    assert toolrun("call", "data.variable", "name=OWN_VARIABLE", cwd=project, env=own).stdout == "its value\n"


@pytest.mark.parametrize("rung", RUNGS)
def test_a_strict_sandbox_says_what_programs_and_the_network_need(project: Path, rung: str) -> None:
    have(project, rung)
    strict = '[tool.data]\nsandbox = "strict"'
    configure(project, strict)
    stopped = toolrun("call", "data.start", "program=ls", cwd=project)
    assert "The sandbox does not let this tool start ls. To allow it, add run = " in stopped.stderr
    configure(project, strict, "[tool.data.permissions]", line_of(stopped.stderr))
    assert toolrun("call", "data.start", "program=ls", cwd=project).returncode == 0
    stopped = toolrun("call", "data.fetch", "url=http://127.0.0.1:9/", cwd=project)
    assert "The sandbox does not let this tool reach 127.0.0.1:9. To allow it, add net = " in stopped.stderr
    line = line_of(stopped.stderr)
    assert line == ('net = ["127.0.0.1:9"]' if rung == NAMESPACES else "net = true")
    configure(project, strict, "[tool.data.permissions]", line)
    allowed = toolrun("call", "data.fetch", "url=http://127.0.0.1:9/", cwd=project)
    assert "502" in allowed.stderr if rung == NAMESPACES else "refused" in allowed.stderr
    assert "The sandbox does not" not in allowed.stderr
    written = toolrun("call", "data.write", "path=x.csv", cwd=project)
    assert f"The sandbox does not let this tool write {project}/x.csv. To allow it, add write = " in written.stderr


def test_a_host_that_is_not_in_the_list_is_named(project: Path) -> None:
    have(project, NAMESPACES)
    configure(project, '[tool.data.permissions]\nnet = ["example.com:443"]')
    for url in ("https://other.example:443/", "http://other.example:443/"):
        stopped = toolrun("call", "data.fetch", f"url={url}", cwd=project)
        assert line_of(stopped.stderr) == 'net = ["example.com:443", "other.example:443"]'


@pytest.mark.parametrize("rung", RUNGS)
def test_an_error_that_is_not_the_sandboxs_is_left_alone(project: Path, rung: str) -> None:
    have(project, rung)
    for path in ("missing.csv", "/etc/missing"):
        done = toolrun("call", "data.read", f"path={path}", cwd=project)
        assert "No such file" in done.stderr
        assert "andbox" not in done.stderr
    configure(project, '[tool.data]\nsandbox = "off"')
    done = toolrun("call", "data.read", f"path={project.parent}/home/data/y.csv", cwd=project)
    assert "No such file" in done.stderr
    assert "andbox" not in done.stderr


def test_the_model_and_the_journal_get_the_words_of_the_tool_and_of_the_sandbox(project: Path) -> None:
    have(project, LANDLOCK)
    file = project.parent / "home" / "data" / "x.csv"
    done = toolrun("call", "data.wrapped", f"path={file}", "--json", cwd=project)
    result = json.loads(done.stdout)
    said = (
        f"There is no data.\nThe sandbox does not let this tool read {file}. "
        f'To allow it, add read = ["{file.parent}"] to [tool.data.permissions] in toolrun.toml.'
    )
    assert result["error"] == said
    with closing(sqlite3.connect(project / ".toolrun" / "journal.db")) as journal:
        [(error, worker)] = journal.execute("SELECT error, worker FROM call").fetchall()
    assert error == said
    assert re.fullmatch(r"pid \d+, landlock", worker)
    [row] = toolrun("log", cwd=project).stdout.splitlines()
    assert "There is no data. The sandbox" in row
    call = json.loads(toolrun("log", "--json", cwd=project).stdout)
    assert (
        "  gap:          can attach shared memory of other programs\n"
        in toolrun("show", call["id"], cwd=project).stdout
    )
    assert len(json.loads(toolrun("show", call["id"], "--json", cwd=project).stdout)["gaps"]) >= 5


def test_a_script_that_is_stopped_while_it_is_imported_says_why(project: Path) -> None:
    have(project, NAMESPACES)
    file = project.parent / "home" / "data" / "x.csv"
    (project / "tools" / "data.py").write_text(header("dependencies = []") + f"\nopen({str(file)!r})\n" + READ)
    done = toolrun("list", cwd=project)
    assert (
        f"data.py: 'data' cannot be loaded: FileNotFoundError: [Errno 2] No such file or directory: '{file}' (line "
        in (done.stderr)
    )
    assert line_of(done.stderr) == f'read = ["{file.parent}"]'


# doctor


def checks(project: Path) -> list[tuple[str, str, str]]:
    found = json.loads(toolrun("doctor", "--json", cwd=project).stdout)["checks"]
    return [(it["status"], it["message"], it["advice"]) for it in found if it["subject"] == "sandbox"]


def test_doctor_tells_the_rung_and_the_level_of_each_script(project: Path) -> None:
    have(project, NAMESPACES)
    (project / "tools" / "off.py").write_text(header("dependencies = []") + READ)
    configure(project, '[tool.data]\nsandbox = "strict"\n[tool.off]\nsandbox = "off"')
    assert checks(project) == [
        ("ok", f"namespaces (Landlock {landlock_abi()})", ""),
        ("ok", "tools/data.py: strict", ""),
        ("ok", "tools/off.py: off; it can do whatever you can", ""),
    ]
    assert toolrun("doctor", cwd=project).stdout.endswith("\n\nall is well\n")


def test_doctor_tells_the_gaps_of_a_lower_rung_and_why_there_is_no_higher_one(project: Path) -> None:
    have(project, LANDLOCK)
    (status, message, advice), *_ = checks(project)
    lines = message.splitlines()
    assert (status, lines[0]) == ("warning", f"landlock (Landlock {landlock_abi()})")
    assert "gap: can connect to sockets in the file system, such as Docker's or the SSH agent's" in lines
    assert lines[-1] == "namespaces does not work here: unshare: Operation not permitted"
    assert advice.startswith("allow user namespaces, or install bubblewrap")


def test_doctor_tells_that_the_required_rung_is_not_there(project: Path) -> None:
    have(project, NONE)
    configure(project, 'sandbox_required = "landlock"')
    (status, message, advice), *_ = checks(project)
    assert status == "problem"
    assert "but toolrun.toml requires landlock: no sandboxed script runs" in message.splitlines()[0]
    assert advice == "allow landlock on this system, or change [workers] sandbox_required"


def test_a_script_is_not_started_below_the_required_rung(project: Path) -> None:
    have(project, LANDLOCK)
    configure(project, 'sandbox_required = "namespaces"')
    done = toolrun("call", "data.read", "path=/etc/hostname", "--json", cwd=project)
    result = json.loads(done.stdout)
    assert (result["error_kind"], result["side_effects"]) == ("unavailable", "not_started")
    assert "toolrun.toml requires the sandbox 'namespaces', and this system allows 'landlock'" in result["error"]
    assert "(namespaces: unshare: Operation not permitted)" in result["error"]
    assert "Change [workers] sandbox_required" in result["error"]


def test_without_a_toolrun_toml_a_script_cannot_write_one(project: Path) -> None:
    file = project / "toolrun.toml"
    file.unlink()
    done = toolrun("call", "data.write", f"path={file}", cwd=project)
    assert f"The sandbox does not let this tool write {file}. To allow it, add write = " in done.stderr
    assert not file.exists()
    (project / "data.txt").write_text("seen")
    assert toolrun("call", "data.read", f"path={project / 'data.txt'}", cwd=project).stdout == "seen\n"


def test_what_is_put_into_a_home_lays_nothing_there_open(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "toolrun.toml").rename(project / "kept")
    (project / ".ssh").mkdir()
    key = project / ".ssh" / "id"
    key.write_text("private")
    monkeypatch.setenv("HOME", str(project))
    done = toolrun("call", "data.read", f"path={key}", cwd=project)
    assert "private" not in done.stdout
    assert f'read = ["{key}"] to [tool.data.permissions] in toolrun.toml.' in done.stderr
    (project / "kept").rename(project / "toolrun.toml")
    assert toolrun("call", "data.read", f"path={key}", cwd=project).stdout == "private\n", "its owner has said so"
    message = f"{project} is the project, and your home is in it: scripts may read or write all of it"
    assert ("warning", message) in [(status, said) for status, said, _ in checks(project)]


def test_doctor_prints_the_lines_that_grant_what_a_script_asks_for(project: Path) -> None:
    have(project, NAMESPACES)
    asks = ["[tool.toolrun.permissions]", 'read = ["~/data"]', 'net = ["api.example.com"]', 'env = ["LANGUAGE"]']
    script = header("dependencies = []", "[tool.toolrun]", 'sandbox = "strict"', *asks) + READ
    (project / "tools" / "data.py").write_text(script)
    configure(project, '[tool.data.permissions]\nread = ["other"]')
    shown = toolrun("doctor", cwd=project).stdout
    message = "tools/data.py: strict; it asks for net, read, env, which toolrun.toml does not grant"
    assert f"warning  sandbox        {message}\n" in shown
    before, _, rest = shown.partition("→ to grant it, write in toolrun.toml:\n")
    lines = [line.strip() for line in rest.splitlines()[:4]]
    assert tomllib.loads("\n".join(lines))["tool"]["data"]["permissions"] == {
        "net": ["api.example.com"],
        "read": ["other", "~/data"],
        "env": ["LANGUAGE"],
    }
    assert "matches no tool" not in before + rest
    configure(project, *lines)
    assert checks(project)[1:] == [("ok", "tools/data.py: strict", "")]


# workers


@pytest.mark.parametrize("rung", [NAMESPACES, LANDLOCK, BUBBLEWRAP, "off"])
def test_workers_shows_the_sandbox_and_the_real_process(project: Path, rung: str) -> None:
    have(project, NAMESPACES if rung == "off" else rung)
    if rung == "off":
        configure(project, 'sandbox = "off"')
    script = project / "tools" / "hang.py"
    script.write_text(header("dependencies = []") + HANG)
    with started("call", "hang", "--timeout", "600", "-v", cwd=project) as process:
        assert process.stderr is not None
        assert any("hang: started" in line for line in process.stderr)
        [worker] = [
            it for it in json.loads(toolrun("workers", "--json", cwd=project).stdout) if it["host"] == process.pid
        ]
        assert (worker["sandbox"], worker["script"], worker["processes"]) == (rung, str(script), 2)
        assert children_of(worker["pid"]) == ["sleep"]
        listed = toolrun("workers", cwd=project)
        others = "(?: +- +-)?"  # the columns of workers on other machines, if another program has some
        row = (
            rf"^tools/hang.py +pid {worker['pid']} \+1 +busy +0 done, 1 running +{rung} .* host {process.pid}{others}$"
        )
        assert re.search(row, listed.stdout, re.MULTILINE)
        assert (rung in (NAMESPACES, BUBBLEWRAP)) == (worker["gaps"] == [])
        assert all(f"gap of the sandbox {rung}: {gap}\n" in listed.stderr for gap in worker["gaps"])
        process.kill()
        process.communicate(timeout=LIMIT)


def children_of(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
