"""`toolrun install`, into files as the clients write them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from support.console import TOOLRUN, environment, toolrun, write_project
from support.serving import text_of

PLACES = {
    "claude-desktop": "home/.config/Claude/claude_desktop_config.json",
    "claude-code": "project/.mcp.json",
    "cursor": "project/.cursor/mcp.json",
    "vscode": "project/.vscode/mcp.json",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    root = tmp_path / "project"
    root.mkdir()
    (root / "toolrun.toml").touch()
    return root


def install(client: str, *arguments: str, project: Path, stdin: str = "") -> CompletedProcess[str]:
    env = {"HOME": str(project.parent / "home"), "XDG_CONFIG_HOME": ""}
    return toolrun("install", client, *arguments, cwd=project, stdin=stdin, env=env)


def place(client: str, project: Path) -> Path:
    return project.parent / PLACES[client]


def entry(client: str, project: Path) -> dict[str, Any]:
    kind = {"type": "stdio"} if client in ("claude-code", "vscode") else {}
    return {**kind, "command": str(TOOLRUN), "args": ["serve", "--config", str(project / "toolrun.toml")]}


@pytest.mark.parametrize(
    ("client", "section", "name"),
    [
        ("claude-desktop", "mcpServers", "toolrun-project"),
        ("claude-code", "mcpServers", "toolrun"),
        ("cursor", "mcpServers", "toolrun"),
        ("vscode", "servers", "toolrun"),
    ],
)
def test_a_client_that_has_no_file_gets_one(client: str, section: str, name: str, project: Path) -> None:
    done = install(client, "-y", project=project)
    assert done.returncode == 0, done.stderr
    written = {section: {name: entry(client, project)}}
    assert json.loads(place(client, project).read_text()) == written
    assert json.loads(done.stdout) == written
    assert [it.name for it in place(client, project).parent.iterdir() if "bak" in it.name] == []
    assert len(done.stderr.splitlines()) == 2  # what was written, and what to do next


@pytest.mark.parametrize("client", PLACES)
def test_what_is_in_the_file_stays_as_it_is(client: str, project: Path) -> None:
    section = "servers" if client == "vscode" else "mcpServers"
    before = (
        f'{{\n    // mine\n    "zoom": 1.5,\n    "{section}": {{\n'
        '        "other": {"command": "x"}, // first\n    },\n'
        '    "theme": "dark",\n}\n'
    )
    path = place(client, project)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before)
    path.chmod(0o600)
    assert install(client, "-y", "--name", "ours", project=project).returncode == 0
    after = path.read_text()
    start = after.index('        "ours"')
    end = after.index('    },\n    "theme"')
    assert after[:start] + after[end:] == before
    assert json.loads("{" + after[start:end] + "}") == {"ours": entry(client, project)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.with_name(f"{path.name}.bak").read_text() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {\n  "x": }\n}', "line 2, column 8"),
        ('{"mcpServers": []}', "under 'mcpServers'"),
        ("[1, 2]", "is not a JSON object"),
        ("{}" + " " * 1_000_000, "is larger than"),
    ],
)
def test_a_file_that_is_broken_or_strange_is_left_alone(text: str, message: str, project: Path) -> None:
    (project / ".mcp.json").write_text(text)
    done = install("claude-code", "-y", project=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{project}/.mcp.json" in done.stderr
    assert message in done.stderr
    assert (project / ".mcp.json").read_text() == text
    assert sorted(it.name for it in project.iterdir()) == [".mcp.json", "toolrun.toml"]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("no\n", 1), ("", 1)])
def test_the_entry_is_shown_and_asked_for_first(answer: str, code: int, project: Path) -> None:
    done = install("cursor", stdin=answer, project=project)
    assert done.returncode == code
    assert json.loads(done.stdout) == {"mcpServers": {"toolrun": entry("cursor", project)}}
    assert "Add this in .cursor/mcp.json? [y/N]" in done.stderr
    assert place("cursor", project).exists() == (code == 0)


def test_print_shows_and_writes_nothing(project: Path) -> None:
    (project / ".mcp.json").write_text("broken")
    done = install("claude-code", "--print", project=project)
    assert json.loads(done.stdout) == {"mcpServers": {"toolrun": entry("claude-code", project)}}
    assert (project / ".mcp.json").read_text() == "broken"


def test_a_second_time_changes_nothing(project: Path) -> None:
    install("vscode", "-y", project=project)
    done = install("vscode", "-y", project=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert "VS Code already has it" in done.stderr
    assert not list(place("vscode", project).parent.glob("*.bak*"))


def test_an_older_entry_of_toolrun_is_replaced_and_every_copy_kept(project: Path) -> None:
    path = project / ".mcp.json"
    for number in (1, 2):
        path.write_text(json.dumps({"mcpServers": {"toolrun": {"command": f"/old{number}/toolrun"}}}))
        assert install("claude-code", "-y", project=project).returncode == 0
        assert json.loads(path.read_text()) == {"mcpServers": {"toolrun": entry("claude-code", project)}}
    assert "/old1/" in (project / ".mcp.json.bak").read_text()
    assert "/old2/" in (project / ".mcp.json.bak2").read_text()


def test_another_server_of_that_name_is_not_replaced(project: Path) -> None:
    text = '{"mcpServers": {"toolrun": {"command": "somebody-elses"}}}'
    (project / ".mcp.json").write_text(text)
    done = install("claude-code", "-y", project=project)
    assert done.returncode == 2
    assert "--name" in done.stderr
    assert (project / ".mcp.json").read_text() == text


def test_a_link_stays_a_link(project: Path) -> None:
    kept = project.parent / "dotfiles.json"
    kept.write_text("{}")
    (project / ".mcp.json").symlink_to(kept)
    assert install("claude-code", "-y", project=project).returncode == 0
    assert (project / ".mcp.json").is_symlink()
    assert "toolrun" in kept.read_text()


def test_a_byte_order_mark_stays(project: Path) -> None:
    (project / ".mcp.json").write_bytes(b"\xef\xbb\xbf{}")
    assert install("claude-code", "-y", project=project).returncode == 0
    assert (project / ".mcp.json").read_bytes().startswith(b"\xef\xbb\xbf{")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_told(project: Path) -> None:
    project.chmod(0o500)
    done = install("claude-code", "-y", project=project)
    project.chmod(0o700)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_without_a_configuration_there_is_nothing_to_install(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    done = install("cursor", "-y", project=tmp_path / "project")
    assert done.returncode == 2
    assert "toolrun init" in done.stderr


def test_an_unknown_client_is_refused_with_those_that_are_known(project: Path) -> None:
    done = install("emacs", project=project)
    assert done.returncode == 2
    assert "claude-desktop" in done.stderr


async def test_the_entry_starts_a_server_with_the_tools_of_the_project(project: Path) -> None:
    write_project(project, greeting='@tool\ndef greet(name: str) -> str:\n    "Greet."\n    return f"Hello, {name}!"\n')
    install("claude-code", "-y", project=project)
    written = json.loads((project / ".mcp.json").read_text())["mcpServers"]["toolrun"]
    elsewhere = project.parent / "home"
    server = StdioServerParameters(command=written["command"], args=written["args"], cwd=elsewhere, env=environment())
    async with Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["greet"]
        answer = await client.call_tool("greet", {"name": "Ada"})
    assert [block.type for block in answer.content] == ["text"]
    assert text_of(answer) == "Hello, Ada!"
