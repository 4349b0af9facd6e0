"""Who may call the tools of `toolrun serve --http`, and `--url` of the commands that do."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import httpx2
import pytest

from support.console import LIMIT, TOOLRUN, environment, toolrun, write_project
from support.serving import ERAS, Served, headers, http_client, request, serving, text_of
from support.two_users import needs_root, run_as_stranger, shared_place

TOOLS = '''
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError("broken on purpose")
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, sums=TOOLS)


def kept(project: Path) -> str:
    return (project / ".toolrun" / "token").read_text()


def ask(server: Served, token: str = "", scheme: str = "Bearer") -> httpx2.Response:
    own = headers("tools/list") | ({"authorization": f"{scheme} {token}"} if token else {})
    return httpx2.post(server.url, json=request("tools/list"), headers=own, timeout=LIMIT)


def test_on_loopback_nobody_calls_without_the_token(project: Path) -> None:
    with serving("--http", "0", cwd=project) as server:
        token = kept(project)
        assert ask(server, token).status_code == 200
        for wrong in ("", "x", token[:-1], f"{token}x", token.swapcase()):
            refused = ask(server, wrong)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert token not in refused.text
        assert ask(server, token, "Basic").status_code == 401
        in_url = httpx2.post(
            f"{server.url}?token={token}", json=request("tools/list"), headers=headers("tools/list"), timeout=LIMIT
        )
        assert in_url.status_code == 401


@pytest.mark.parametrize("era", ERAS)
async def test_the_token_survives_a_restart(era: str, project: Path) -> None:
    with serving("--http", "0", cwd=project):
        token = kept(project)
    with serving("--http", "0", cwd=project) as server:
        async with http_client(server.url, era, token=token) as client:
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


def test_the_token_is_in_no_log(project: Path) -> None:
    with serving("--http", "0", "-vv", cwd=project) as server:
        token = kept(project)
        assert ask(server, token).status_code == 200
        assert ask(server, f"{token}wrong").status_code == 401
        done = toolrun("-vv", "call", "--url", server.url, "add", "a=1", "b=2", cwd=project)
        assert done.stdout == "3\n"
        server.process.terminate()
        assert server.end() == 0
    assert token not in done.stderr
    assert token not in "\n".join(server.log)
    assert f"the token is in {project / '.toolrun' / 'token'}" in "\n".join(server.log)


def test_on_a_terminal_the_token_is_shown(project: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(TOOLRUN), "serve", "--http", "0"]
    try:
        with subprocess.Popen(command, cwd=project, env=environment(), stderr=theirs) as process:
            os.close(theirs)
            written = b""
            while b"kept in" not in written and select.select([ours], [], [], LIMIT)[0]:
                written += os.read(ours, 65536)
            process.terminate()
    finally:
        os.close(ours)
    assert f"Clients send the header 'Authorization: Bearer {kept(project)}'" in written.decode()


def test_where_it_cannot_be_kept_the_token_is_for_one_run(project: Path) -> None:
    (project / ".toolrun").touch()  # in the way, also for root
    with serving("--http", "0", cwd=project) as server:
        server.process.terminate()
        server.end()
    lines = [line for line in server.log if "token" in line or "Bearer" in line]
    assert lines[0].startswith("Clients send the header 'Authorization: Bearer ")
    assert "TOKEN" not in lines[0]
    assert lines[1].startswith("This token is for this run only: ")


def test_a_token_file_that_others_can_read_is_refused(project: Path) -> None:
    with serving("--http", "0", cwd=project):
        pass
    (project / ".toolrun" / "token").chmod(0o644)
    for command in (("serve", "--http", "0"), ("list", "--url", "http://127.0.0.1:1")):
        done = toolrun(*command, cwd=project)
        assert (done.returncode, done.stdout) == (2, "")
        assert "others can read or change it (mode 644). Delete it" in done.stderr
        assert kept(project) not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--http", "0", "--no-token", "--token", "x"), "choose either --token or --no-token"),
        (("--http", "0.0.0.0:0", "--no-token"), "others could call your tools there"),
        (("--http", "0", "--no-token", "--allow-origin", "*"), "any web page could call your tools"),
        (("--no-token",), "--no-token is for --http only"),
        (("--unix", "s", "--token", "x"), "--token is for --http only"),
        (("--unix", "s", "--http", "0"), "choose either --http or --unix"),
        (("--unix", "toolrun.toml"), "something other than a socket"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], words: str, project: Path) -> None:
    done = toolrun("serve", *arguments, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_without_a_token_it_says_who_may_call(project: Path) -> None:
    with serving("--http", "0", "--no-token", cwd=project) as server:
        assert ask(server).status_code == 200
    assert server.log[0] == "There is no token: every user of this machine can call these tools"
    assert not (project / ".toolrun" / "token").exists()


def test_beyond_loopback_the_token_of_the_project_is_enough(project: Path) -> None:
    with serving("--http", "0.0.0.0:0", cwd=project) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert ask(server).status_code == 401
        assert ask(server, kept(project)).status_code == 200


def test_call_and_list_use_a_running_server(project: Path) -> None:
    with serving("--http", "0", cwd=project) as server:
        url = server.url.removesuffix("/mcp")
        assert toolrun("call", "add", "a=2", "b=3", "--url", url, cwd=project).stdout == "5\n"
        listed = json.loads(toolrun("list", "--json", "--url", server.url, cwd=project).stdout)
        assert {it["name"] for it in listed} == {"add", "fail"}
        failed = toolrun("call", "fail", "--url", url, cwd=project)
        assert (failed.returncode, "broken on purpose" in failed.stderr) == (1, True)
        unknown = toolrun("call", "adds", "--url", url, cwd=project)
        assert (unknown.returncode, "Tool 'adds' not found" in unknown.stderr) == (2, True)
        as_json = toolrun("call", "--json", "add", "a=2", "b=3", "--url", url, cwd=project)
        assert json.loads(as_json.stdout)["result"] in (5, "5")
    log = toolrun("log", "--json", cwd=project).stdout
    assert "serve" in log


async def test_at_a_running_server_too_a_person_is_not_asked_about_what_is_destructive(project: Path) -> None:
    (project / "tools" / "wipe.py").write_text(
        dedent("""
        from toolrun import tool

        @tool(annotations={"destructiveHint": True})
        def wipe(path: str) -> str:
            "Wipe."
            return f"wiped {path}"

        @tool(approval="ask")
        def pay() -> str:
            "Pay."
            return "paid"
        """)
    )
    with serving("--http", "0", cwd=project) as server:
        called = await asyncio.to_thread(toolrun, "call", "wipe", "path=/x", "--url", server.url, cwd=project)
        assert called.stdout == "wiped /x\n", called.stderr
        refused = await asyncio.to_thread(toolrun, "call", "pay", "--url", server.url, cwd=project)
        assert "its author requires it" in refused.stderr
        for era in ERAS:
            async with http_client(server.url, era, kept(project)) as client:
                answer = await client.call_tool("wipe", {"path": "/x"})
                assert "it declares itself destructive" in text_of(answer)


def test_the_url_says_what_is_wrong(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "toolrun.toml").touch()

    def refusal(url: str, cwd: Path = project, env: dict[str, str] | None = None) -> str:
        done = toolrun("call", "add", "a=1", "b=2", "--url", url, cwd=cwd, env=env)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
        return done.stderr

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        assert f"{nobody} cannot be reached" in refusal(nobody)
    with serving("--http", "0", cwd=project) as server:
        assert "the server needs its token. Run this command in the project" in refusal(server.url, other)
        env = {"TOOLRUN_SERVE_TOKEN": "wrong"}
        assert "refuses the token in $TOOLRUN_SERVE_TOKEN" in refusal(server.url, env=env)
        assert "HTTP 404" in refusal(server.url.replace("/mcp", "/else"))
    with serving("--http", "0.0.0.0:0", cwd=project) as server:
        assert "'127.0.0.9' is not a name of this server" in refusal(server.url.replace("0.0.0.0", "127.0.0.9"))
    assert "No such file" in refusal("unix:missing.sock")
    done = toolrun("call", "add", "--key", "k", "--url", nobody, cwd=project)
    assert (done.returncode, "--key cannot be used with --url" in done.stderr) == (2, True)


def test_a_unix_socket_serves_without_a_token(project: Path) -> None:
    path = project / "tools.sock"
    with serving("--unix", "tools.sock", cwd=project) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.url == f"unix:{path}"
        assert toolrun("call", "add", "a=2", "b=3", "--url", "unix:tools.sock", cwd=project).stdout == "5\n"
        assert "another server listens there" in toolrun("serve", "--unix", "tools.sock", cwd=project).stderr
        server.process.send_signal(signal.SIGKILL)
        server.end()
    assert path.exists()
    with serving("--unix", "tools.sock", cwd=project):
        assert toolrun("list", "--url", f"unix://{path}", cwd=project).returncode == 0
    assert not path.exists()


@pytest.fixture
def place() -> Iterator[Path]:
    with shared_place() as place:
        yield place


@needs_root
def test_another_user_neither_reads_the_token_nor_calls(place: Path) -> None:
    write_project(place, sums=TOOLS)
    with serving("--http", "0", cwd=place) as server:
        assert ask(server, kept(place)).status_code == 200
        read = run_as_stranger("cat", str(place / ".toolrun" / "token"), cwd=place)
        assert (read.returncode, read.stdout) == (1, "")
        assert "Permission denied" in read.stderr
        call = run_as_stranger("curl", "-s", "-d", "{}", "-H", "content-type: application/json", server.url, cwd=place)
        assert "this server needs its token" in call.stdout
    with serving("--unix", "tools.sock", cwd=place):
        call = run_as_stranger("curl", "-sS", "--unix-socket", "tools.sock", "http://localhost/mcp", cwd=place)
        assert call.returncode == 7  # could not connect
        own = subprocess.run(
            ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--unix-socket", "tools.sock", "http://localhost/x"],
            cwd=place,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert own.stdout == "404"


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "http", "headers": {"Authorization": "Bearer ${TOOLRUN_SERVE_TOKEN}"}}),
        ("cursor", {"headers": {"Authorization": "Bearer ${env:TOOLRUN_SERVE_TOKEN}"}}),
        ("vscode", {"type": "http", "headers": {"Authorization": "Bearer ${env:TOOLRUN_SERVE_TOKEN}"}}),
    ],
)
def test_an_entry_for_a_running_server_refers_to_the_token(
    client: str, entry: dict[str, object], project: Path
) -> None:
    url = "http://127.0.0.1:8000/mcp"
    (project / ".toolrun").mkdir()
    (project / ".toolrun" / "token").write_text("not-to-be-shown")
    done = toolrun("install", client, "-y", "--url", url, cwd=project, env={"HOME": str(project)})
    assert done.returncode == 0, done.stderr
    [servers] = json.loads(done.stdout).values()
    assert servers == {"toolrun": {**entry, "url": url}}
    assert f'export TOOLRUN_SERVE_TOKEN="$(cat {project}/.toolrun/token)"' in done.stderr
    assert "not-to-be-shown" not in done.stdout + done.stderr
    again = toolrun("install", client, "-y", "--url", f"{url}2", cwd=project, env={"HOME": str(project)})
    assert again.returncode == 0, again.stderr


def test_a_client_without_such_servers_is_named(project: Path) -> None:
    done = toolrun("install", "claude-desktop", "-y", "--url", "http://127.0.0.1/mcp", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Claude Desktop only has servers that it starts itself; leave out --url" in done.stderr
    done = toolrun("install", "cursor", "-y", "--url", "unix:x", cwd=project)
    assert "write the URL that 'toolrun serve --http' shows" in done.stderr


def test_a_script_does_not_see_the_token(project: Path) -> None:
    (project / "toolrun.toml").write_text('[journal]\npath = "calls/journal.db"\n')
    (project / "tools" / "spy.py").write_text(
        "# /// script\n# dependencies = []\n# ///\nimport pathlib\n\n"
        'def spy() -> str:\n    """Look for the token."""\n'
        f"    return pathlib.Path({str(project / '.toolrun' / 'token')!r}).read_text()\n"
    )
    with serving("--http", "0", cwd=project) as server:
        done = toolrun("call", "spy", "--url", server.url, cwd=project)
        assert done.returncode == 1
        assert kept(project) not in done.stdout + done.stderr
