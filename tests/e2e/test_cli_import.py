"""`toolrun import`, with files as the other programs write them."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from support.console import ROOT, TOOLRUN, on_terminal, toolrun

GITHUB = {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghij"}}
SEARCH = {"type": "sse", "url": "https://search.example/sse", "headers": {"Authorization": "Bearer s3cret"}}


class World:
    """A project in a home of its own."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.root = root / "project"
        self.root.mkdir()
        self.home.mkdir()
        self.toml = self.root / "toolrun.toml"
        self.toml.write_text("# ours\n[executor]\ntimeout = 5")

    def write(self, path: Path, servers: dict[str, Any], section: str = "mcpServers") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({section: servers}))
        return path

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> CompletedProcess[str]:
        env = {"HOME": str(self.home), "XDG_CONFIG_HOME": "", **variables}
        return toolrun("import", *arguments, cwd=self.root, stdin=stdin, env=env)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_all_places_are_looked_at(world: World) -> None:
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    world.write(world.root / ".vscode" / "mcp.json", {"search": SEARCH}, "servers")
    world.write(world.root / ".cursor" / "mcp.json", {"files": {"command": "files"}})
    world.write(world.home / ".config" / "Claude" / "claude_desktop_config.json", {"notes": {"command": "notes"}})
    world.write(world.home / ".config" / "Code" / "User" / "mcp.json", {"time": {"command": "time"}}, "servers")
    world.write(world.home / ".cursor" / "mcp.json", {"memory": {"command": "memory"}})
    done = world.run()
    assert done.returncode == 0
    assert [line.split(maxsplit=3) for line in done.stdout.splitlines()] == [
        ["github", "new", ".mcp.json", "npx -y server-github"],
        ["search", "new", ".vscode/mcp.json", "https://search.example/sse"],
        ["files", "new", ".cursor/mcp.json", "files"],
        ["notes", "new", f"{world.home}/.config/Claude/claude_desktop_config.json", "notes"],
        ["time", "new", f"{world.home}/.config/Code/User/mcp.json", "time"],
        ["memory", "new", f"{world.home}/.cursor/mcp.json", "memory"],
    ]
    assert world.toml.read_text() == "# ours\n[executor]\ntimeout = 5"


def test_what_is_used_already_and_what_is_wrong_are_told(world: World) -> None:
    world.toml.write_text('[mcp]\nfiles = [".mcp.json"]\n[servers.github]\ncommand = "x"\n')
    broken = {"url": "https://x.example", "headers": {"X": "${NOT_SET_ANYWHERE}"}}
    world.write(world.root / ".mcp.json", {"github": GITHUB, "time": {"command": "time"}, "broken": broken, "odd": {}})
    done = world.run("--json")
    found = {it["name"]: (it["state"], it["problem"]) for it in json.loads(done.stdout)}
    problem = (
        "headers.X needs the variable NOT_SET_ANYWHERE, which is not set; set it, or write ${NOT_SET_ANYWHERE:-default}"
    )
    assert found == {
        "github": ("configured", None),
        "time": ("read from its file", None),
        "broken": ("read from its file", problem),
        "odd": ("read from its file", "has neither a command nor a url"),
    }
    listed = world.run()
    assert f"toolrun: broken in .mcp.json: {problem}\n" in listed.stderr


def test_a_server_is_copied_without_its_secrets_and_nothing_else_changes(world: World) -> None:
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    world.write(world.root / ".vscode" / "mcp.json", {"search": SEARCH}, "servers")
    done = world.run("github", "search", "--yes")
    assert done.returncode == 0, done.stderr
    text = world.toml.read_text()
    assert text.startswith("# ours\n[executor]\ntimeout = 5\n\n[servers.github]\n")
    assert text.endswith(done.stdout)
    assert tomllib.loads(text)["servers"] == {
        "github": {
            "command": "npx",
            "args": ["-y", "server-github"],
            "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},
        },
        "search": {
            "url": "https://search.example/sse",
            "transport": "sse",
            "headers": {"Authorization": "Bearer ${SEARCH_AUTHORIZATION}"},
        },
    }
    assert (world.root / "toolrun.toml.bak").read_text() == "# ours\n[executor]\ntimeout = 5"
    assert "Set the variable GITHUB_TOKEN: its value is in env.GITHUB_TOKEN of 'github' in .mcp.json." in done.stderr
    assert "s3cret" not in done.stdout + done.stderr + text


def test_what_was_copied_does_not_stop_toolrun_while_its_variable_is_missing(world: World) -> None:
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    assert world.run("github", "-y").returncode == 0
    again = world.run(GITHUB_TOKEN="")
    assert (again.returncode, again.stdout.split()[1]) == (0, "configured")


def test_secrets_are_copied_when_they_are_asked_for(world: World) -> None:
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    world.run("github", "-y", "--with-secrets")
    assert tomllib.loads(world.toml.read_text())["servers"]["github"]["env"] == GITHUB["env"]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_is_asked_first(world: World, answer: str, code: int) -> None:
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    done = world.run("github", stdin=answer)
    assert done.returncode == code
    assert "Add this to toolrun.toml? [y/N]" in done.stderr
    assert ("servers" in world.toml.read_text()) == (code == 0)
    assert (world.root / "toolrun.toml.bak").exists() == (code == 0)


def test_all_copies_what_is_new_and_can_be_used(world: World) -> None:
    world.toml.write_text('[servers.a]\ncommand = "a"\n')
    own = {"command": "/usr/bin/toolrun", "args": ["serve"]}
    world.write(world.root / ".mcp.json", {"a": {"command": "other"}, "b": {"command": "b"}, "odd": {}, "toolrun": own})
    world.write(world.root / ".cursor" / "mcp.json", {"b": {"command": "b"}})
    done = world.run("--all", "-y")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(world.toml.read_text())["servers"] == {"a": {"command": "a"}, "b": {"command": "b"}}
    assert "there are no new servers" in world.run("--all", "-y").stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("githup", "no server 'githup' was found; did you mean 'github'?"),
        ("old", "[servers.old] is already in the configuration"),
        ("twice", "'twice' differs between .mcp.json, .cursor/mcp.json; choose one with --from FILE"),
        ("odd", "'odd' in .mcp.json has neither a command nor a url"),
        ("toolrun", "starts toolrun itself"),
    ],
)
def test_a_name_that_cannot_be_copied_changes_nothing(world: World, name: str, message: str) -> None:
    world.toml.write_text('[servers.old]\ncommand = "x"\n')
    own = {"command": "/usr/bin/toolrun", "args": ["serve"]}
    servers = {"github": GITHUB, "old": GITHUB, "twice": {"command": "1"}, "odd": {}, "toolrun": own}
    world.write(world.root / ".mcp.json", servers)
    world.write(world.root / ".cursor" / "mcp.json", {"twice": {"command": "2"}})
    done = world.run("github", name, "-y")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert world.toml.read_text() == '[servers.old]\ncommand = "x"\n'


def test_one_of_several_files_can_be_chosen(world: World) -> None:
    world.write(world.root / ".mcp.json", {"twice": {"command": "1"}})
    other = world.write(world.root / "other.json", {"twice": {"command": "2"}})
    assert world.run("twice", "-y", "--from", str(other)).returncode == 0
    assert tomllib.loads(world.toml.read_text())["servers"] == {"twice": {"command": "2"}}


def test_a_broken_file_is_named_and_the_others_are_read(world: World) -> None:
    world.write(world.root / ".cursor" / "mcp.json", {"files": {"command": "files"}})
    (world.root / ".mcp.json").write_text('{"mcpServers": {\n  "x": }\n}')
    done = world.run()
    assert done.returncode == 1
    assert done.stdout.startswith("files ")
    assert f"toolrun: {world.root}/.mcp.json: line 2, column 8: " in done.stderr


def test_a_configuration_that_tables_cannot_be_added_to_is_left_alone(world: World) -> None:
    text = 'servers = { old = { command = "x" } }\n'
    world.toml.write_text(text)
    world.write(world.root / ".mcp.json", {"github": GITHUB})
    done = world.run("github", "-y")
    assert done.returncode == 2
    assert "add this by hand:\n[servers.github]\n" in done.stderr
    assert world.toml.read_text() == text


def test_without_a_configuration_one_is_written(world: World) -> None:
    world.toml.unlink()
    world.write(world.root / ".mcp.json", {"b": {"command": "b"}})
    assert world.run("b", "-y").returncode == 0
    assert world.toml.read_text() == '[servers.b]\ncommand = "b"\n'
    assert not (world.root / "toolrun.toml.bak").exists()


def test_windows_line_ends_stay(world: World) -> None:
    world.toml.write_bytes(b"[executor]\r\ntimeout = 5\r\n")
    world.write(world.root / ".mcp.json", {"b": {"command": "b"}})
    assert world.run("b", "-y").returncode == 0
    assert world.toml.read_bytes() == b'[executor]\r\ntimeout = 5\r\n\r\n[servers.b]\r\ncommand = "b"\r\n'


def test_where_nothing_is_found_it_says_so(world: World) -> None:
    done = world.run()
    assert (done.returncode, done.stdout) == (0, "")
    assert "no MCP servers found" in done.stderr


def test_on_a_terminal_there_is_a_table(world: World) -> None:
    world.write(world.root / ".mcp.json", {"github": {"command": "npx\x1b[2J"}})
    _, written = on_terminal(str(TOOLRUN), "import", cwd=world.root, env={"HOME": str(world.home)})
    assert "STATE" in written.splitlines()[0]
    assert "\x1b[2J" not in written


@pytest.mark.parametrize("is_copied", [True, False])
def test_the_tools_of_a_server_work_once_it_is_copied_or_its_file_is_read(world: World, is_copied: bool) -> None:
    server = {"command": sys.executable, "args": ["${SERVERS}/devices.py"]}
    world.write(world.root / ".mcp.json", {"devices": server})
    variables = {"SERVERS": str(ROOT / "tests" / "mcp_servers")}
    if is_copied:
        assert world.run("devices", "-y", **variables).returncode == 0
    else:
        world.toml.write_text('[mcp]\nfiles = [".mcp.json"]\n')
    done = toolrun("call", "control_zwave_device", "device_name=Lamp", cwd=world.root, env=variables)
    assert (done.returncode, done.stdout) == (0, '{"deviceName": "Lamp"}\n'), done.stderr


def test_a_poisoned_entry_is_shown_and_warned_about(world: World) -> None:
    poisoned = {"command": "npx", "args": ["-y", "good\u200b-server", "\x1b[8mevil\u202e"], "env": {"A\U000e0041": "b"}}
    world.write(world.root / ".mcp.json", {"poisoned": poisoned, "na\u2060me": {"command": "x"}, "plain": GITHUB})
    done = world.run()
    assert "npx -y good<U+200B>-server <U+001B>[8mevil<U+202E>" in done.stdout
    assert "na<U+2060>me" in done.stdout
    assert not {"\u200b", "\x1b", "\u202e", "\u2060", "\U000e0041"} & {*done.stdout, *done.stderr}
    warning = "it has hidden characters in args[1], args[2], env.A<U+E0041>; do not copy it unless you know why"
    assert f"toolrun: poisoned in .mcp.json: {warning}" in done.stderr
    assert "has hidden characters in its name, na<U+2060>me; rename it there" in done.stderr
    found = {it["name"]: it["hidden_characters"] for it in json.loads(world.run("--json").stdout)}
    assert found["poisoned"] == ["args[1]", "args[2]", "env.A<U+E0041>"]
    assert found["plain"] == []


def test_a_poisoned_entry_is_copied_by_its_name_only(world: World) -> None:
    poisoned = {"poisoned": {"command": "npx\u200b"}, "na\u2060me": {"command": "x"}, "plain": {"command": "x"}}
    world.write(world.root / ".mcp.json", poisoned)
    done = world.run("--all", "--yes")
    assert done.returncode == 0
    assert "poisoned in .mcp.json is skipped: it has hidden characters in command" in done.stderr
    assert "na<U+2060>me in .mcp.json is skipped: has hidden characters in its name" in done.stderr
    assert list(tomllib.loads(world.toml.read_text())["servers"]) == ["plain"]


def test_a_poisoned_entry_is_copied_with_what_is_hidden_in_sight(world: World) -> None:
    args = ["good\u200b-server", "\U000e0041", "é"]
    world.write(world.root / ".mcp.json", {"poisoned": {"command": "npx", "args": args}})
    done = world.run("poisoned", "--yes")
    assert done.returncode == 0
    assert "poisoned: it has hidden characters in args[0], args[1]" in done.stderr
    assert r'args = ["good\u200b-server", "\U000e0041", "é"]' in done.stdout
    assert r"good\u200b-server" in world.toml.read_text()
    assert tomllib.loads(world.toml.read_text())["servers"]["poisoned"]["args"] == args
