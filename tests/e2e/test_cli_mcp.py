"""`toolrun` with MCP servers: what its commands wait for, and what they say."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from support.console import LIMIT, run, started, toolrun

PUPPET = Path(__file__).parents[1] / "mcp_servers" / "puppet.py"
BROKEN = """
[servers.broken]
command = "PYTHON"
args = ["-c", "import sys; sys.exit('no bridge')"]
hint = "Is the bridge plugged in?"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "zwave").mkdir()
    write(tmp_path)
    return tmp_path


def write(root: Path, more: str = "") -> None:
    text = f"""
        [mcp]
        delays = [0, 0.05]
        [servers.zwave]
        command = "PYTHON"
        args = ["{PUPPET}", "modern"]
        cwd = "zwave"
    """
    (root / "toolrun.toml").write_text((text + more).replace("PYTHON", sys.executable))


def test_list_and_describe_show_the_tools_of_a_server(project: Path) -> None:
    listed = toolrun("list", "--wait", cwd=project)
    assert re.search(r"^wait_for +MCP server zwave +Wait until a file is there\.$", listed.stdout, re.MULTILINE)
    described = json.loads(toolrun("describe", "run", "--json", cwd=project).stdout)
    assert described["source"] == "MCP server zwave"
    assert described["schema"]["required"] == ["code"]


def test_call_waits_for_the_server_and_not_for_others(project: Path) -> None:
    write(project, '[servers.slow]\ncommand = "sleep"\nargs = ["300"]\n')
    done = toolrun("call", "run", "code=answer = 6 * 7", cwd=project)
    assert (done.stdout, done.returncode) == ("42\n", 0)


def test_a_server_that_is_missing_is_named_where_a_tool_is_not_found(project: Path) -> None:
    write(project, BROKEN)
    done = toolrun("call", "unheard_of", cwd=project)
    assert done.returncode == 2
    assert "'broken' (it ended with exit code 1)" in done.stderr
    assert "MCP connection failed after 2 attempts" in done.stderr


def test_the_doctor_says_how_each_server_is(project: Path) -> None:
    write(project, BROKEN + '[servers.neither]\ncwd = "."\n')
    done = toolrun("doctor", "--json", cwd=project)
    assert done.returncode == 1
    checks = [it for it in json.loads(done.stdout)["checks"] if it["subject"] == "server"]
    assert checks == [
        {
            "status": "ok",
            "subject": "server",
            "message": "zwave: connected (protocol 2026-07-28, 2 tools)",
            "advice": "",
        },
        {
            "status": "problem",
            "subject": "server",
            "message": "broken: unreachable: it ended with exit code 1\nno bridge",
            "advice": "Is the bridge plugged in?",
        },
    ]
    assert "[servers.neither] needs either 'command' or 'url'" in done.stdout
    assert "connection attempt" not in done.stdout + done.stderr


def test_servers_of_other_programs_files_are_used(project: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PUPPET)], "cwd": str(project / "zwave")}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"other": entry}}))
    (project / "toolrun.toml").write_text('[mcp]\nfiles = [".mcp.json", "missing.json"]\n')
    done = toolrun("list", "--json", "--wait", cwd=project)
    assert {tool["source"] for tool in json.loads(done.stdout)} == {"MCP server other"}
    assert "missing.json" in done.stderr


def test_a_stdio_server_needs_nothing_of_the_sdk(project: Path) -> None:
    code = """
import sys
for name in ("mcp", "mcp_types", "httpx2"):
    sys.modules[name] = None
from toolrun.cli import main
sys.exit(main(sys.argv[1:]))
"""
    done = run(sys.executable, "-c", code, "call", "run", "code=answer = 6 * 7", cwd=project)
    assert done.stdout == "42\n"

    (project / "toolrun.toml").write_text('[mcp]\ndelays = [0]\n[servers.web]\nurl = "http://127.0.0.1:9/mcp"\n')
    done = run(sys.executable, "-c", code, "list", "--wait", cwd=project)
    said = "A server with a URL needs the package 'mcp', which is not installed. "
    assert f"{said}Install it with: pip install 'toolrun[mcp]'" in done.stderr


def test_workers_shows_servers_by_their_names(project: Path) -> None:
    with started("call", "wait_for", f"path={project / 'gate'}", "value=x", cwd=project) as process:
        received = project / "zwave" / "received"
        while not received.exists() or "tools/call" not in received.read_text():
            assert process.poll() is None
            time.sleep(0.01)
        rows = json.loads(toolrun("workers", "--json", cwd=project).stdout)
        assert "MCP server zwave" in [row["script"] for row in rows if row["host"] == process.pid]
        (project / "gate").touch()
        assert process.communicate(timeout=60)[0] == "x\n"


HANGS = '[servers.slow]\ncommand = "sleep"\nargs = ["300"]\n'


def test_list_shows_what_is_there_and_names_servers_that_hang(project: Path) -> None:
    write(project, HANGS)
    done = toolrun("list", "--json", cwd=project)
    assert done.returncode == 0
    assert {tool["source"] for tool in json.loads(done.stdout)} == {"MCP server zwave"}
    assert "server slow: connecting; 'toolrun list --wait' waits for its tools" in done.stderr
    assert "zwave" not in done.stderr
    none = toolrun("list", "--wait", "0", cwd=project)
    assert none.returncode == 0
    assert "server slow: connecting" in none.stderr


def test_list_shows_what_is_there_before_it_waits(project: Path) -> None:
    write(project, HANGS + "start_timeout = 600\n")
    (project / "tools").mkdir()
    (project / "tools" / "home.py").write_text(
        'from toolrun import tool\n\n@tool\ndef lights() -> int:\n    "Count the lights."\n    return 1\n'
    )
    with started("list", "--wait", cwd=project) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["lights", "tools/home.py", "Count", "the", "lights."]
        assert process.poll() is None, "it waits for the servers"
        process.kill()
        process.communicate(timeout=60)


def test_list_waits_as_long_as_it_is_told_to(project: Path) -> None:
    write(project, '[servers.late]\ncommand = "sleep"\nargs = ["300"]\nstart_timeout = 0.2\n')
    done = toolrun("list", "--wait", cwd=project)
    assert done.returncode == 0
    assert "MCP connection failed after 2 attempts: it was not ready within 0.2 s" in done.stderr
    assert "connecting;" not in done.stderr
    (project / "toolrun.toml").write_text('[mcp]\ndelays = [0]\n[servers.late]\ncommand = "false"\n')
    assert "MCP connection failed after 1 attempt: it ended with" in toolrun("list", "--wait", cwd=project).stderr


def test_the_doctor_does_not_wait_for_a_server_that_hangs(project: Path) -> None:
    write(project, HANGS)
    done = toolrun("doctor", "--json", "--wait", "3", cwd=project)
    checks = [it for it in json.loads(done.stdout)["checks"] if it["subject"] == "server"]
    assert [(it["status"], it["message"]) for it in checks] == [
        ("ok", "zwave: connected (protocol 2026-07-28, 2 tools)"),
        ("warning", "slow: connecting: it has not answered yet"),
    ]
    assert checks[1]["advice"] == "wait for it: toolrun doctor --wait"
    assert done.returncode == 0


@pytest.mark.parametrize("seconds", ["nan", "soon"])
def test_a_wait_that_is_no_time_is_refused(project: Path, seconds: str) -> None:
    done = toolrun("list", f"--wait={seconds}", cwd=project)
    assert done.returncode == 2
    assert "--wait" in done.stderr


@pytest.mark.parametrize("command", ["call", "describe"])
def test_a_tool_that_does_not_exist_waits_for_one_start_of_a_server_that_hangs(project: Path, command: str) -> None:
    write(project, HANGS + "start_timeout = 2\n")
    done = toolrun(command, "unheard_of", cwd=project)
    assert done.returncode == 2
    assert "Waiting for the MCP server 'slow', still connecting, which may have the tool 'unheard_of'" in done.stderr
    assert "Tool 'unheard_of' not found" in done.stderr
    assert "'slow' (still connecting" in done.stderr
    assert "failed after 2 attempts" not in done.stderr
    assert "zwave" not in done.stderr


def test_a_tool_that_does_not_exist_is_waited_for_no_longer_than_its_call_may_take(project: Path) -> None:
    write(project, HANGS + "start_timeout = 600\n")
    done = toolrun("call", "unheard_of", "--timeout", "1.5", cwd=project)
    assert done.returncode == 2
    assert "which may have the tool 'unheard_of', for up to 1.5 s. Ctrl-C ends it." in done.stderr
    assert "Tool 'unheard_of' not found" in done.stderr
    assert "'slow' (still connecting)" in done.stderr


def test_ctrl_c_ends_the_wait_for_a_server_that_hangs(project: Path) -> None:
    write(project, HANGS + "start_timeout = 600\n")
    with started("call", "unheard_of", cwd=project) as process:
        assert process.stderr is not None
        waiting = next(line for line in process.stderr if line.startswith("Waiting for"))
        assert "'slow'" in waiting
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "toolrun: interrupted\n"
        assert process.wait(LIMIT) == 130


@pytest.mark.parametrize("command", ["call", "describe"])
def test_a_tool_with_the_prefix_of_one_server_does_not_wait_for_another(project: Path, command: str) -> None:
    write(project, HANGS + "start_timeout = 600\n")
    done = toolrun(command, "zwave__unheard_of", cwd=project)
    assert done.returncode == 2
    assert "Tool 'zwave__unheard_of' not found" in done.stderr
    assert "Waiting for" not in done.stderr
    assert "'slow' (still connecting)" in done.stderr
