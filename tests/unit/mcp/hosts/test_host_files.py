"""Files of other programs with their MCP servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolrun.config.model import ServerSettings
from toolrun.errors import ConfigError
from toolrun.mcp.hosts.host_files import existing, host_files, read_file, read_servers


def write(path: Path, servers: dict[str, Any], section: str = "mcpServers", **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({section: servers, **more}), encoding="utf-8")
    return path


def ready(path: Path, **environ: str) -> dict[str, ServerSettings]:
    found, problems = read_servers(path, environ)
    assert problems == {}
    return found


def problem(path: Path, **environ: str) -> str:
    found, problems = read_servers(path, environ)
    assert found == {}
    [text] = problems.values()
    return text


def test_a_stdio_server_of_a_project_starts_in_the_project(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcp.json", {"a": {"command": "npx", "args": ["-y", 1], "env": {"N": 2, "B": True}}})
    expected = ServerSettings(command="npx", args=("-y", "1"), env={"N": "2", "B": "true"}, cwd=str(tmp_path))
    assert ready(path) == {"a": expected}


def test_a_server_of_the_user_starts_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path / "Claude" / "claude_desktop_config.json", {"a": {"command": "npx"}})
    assert ready(path) == {"a": ServerSettings(command="npx")}


def test_a_directory_is_relative_to_the_project(tmp_path: Path) -> None:
    path = write(tmp_path / ".cursor" / "mcp.json", {"a": {"command": "x", "cwd": "servers"}})
    assert ready(path)["a"].cwd == str(tmp_path / "servers")


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({}, ""),
        ({"type": "http"}, ""),
        ({"type": "streamable-http"}, ""),
        ({"type": "streamableHttp"}, ""),
        ({"type": "sse"}, "sse"),
        ({"transport": "sse"}, "sse"),
        ({"url": "https://x.example/sse"}, "sse"),
        ({"url": "https://x.example/sse", "type": "http"}, ""),
    ],
)
def test_servers_elsewhere_come_with_many_words_for_the_same(
    entry: dict[str, str], transport: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "x.json", {"a": {"url": "https://x.example/mcp", "headers": {"X": "1"}, **entry}})
    found = ready(path)["a"]
    assert (found.transport, found.headers, found.cwd) == (transport, {"X": "1"}, "")


def test_vs_code_has_its_own_key_comments_and_references(tmp_path: Path) -> None:
    path = tmp_path / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text("""{
        "inputs": [
            {"id": "api-key", "description": "The key", "password": true}, // asked for
            {"id": "region", "default": "eu"},
        ],
        "servers": {"a": {
            "type": "stdio",
            "command": "${workspaceFolder}/run",
            "args": ["${env:MODE}", "${input:region}", "${userHome}", "${workspaceFolderBasename}${/}x"],
            "env": {"KEY": "${input:api-key}", "NONE": null},
        }},
    }""")
    variables = {"MODE": "fast", "API_KEY": "k", "HOME": "/home/me"}
    found = ready(path, **variables)["a"]
    assert found.command == f"{tmp_path}/run"
    assert found.args == ("fast", "eu", "/home/me", f"{tmp_path.name}/x")
    assert found.env == {"KEY": "k"}
    assert read_file(path)[0].settings.args[:3] == ("${MODE}", "${REGION:-eu}", "${HOME}")
    del variables["API_KEY"]
    assert "API_KEY stands for: The key" in problem(path, **variables)


def test_a_missing_variable_costs_its_own_server_only(tmp_path: Path) -> None:
    servers = {
        "good": {"command": "x", "args": ["${MODE:-slow}"]},
        "bad": {"url": "https://x.example", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    found, problems = read_servers(write(tmp_path / "x.json", servers), {})
    assert list(found) == ["good"]
    assert found["good"].args == ("slow",)
    assert list(problems) == ["bad"]
    assert problems["bad"].startswith("headers.Authorization needs the variable TOKEN, which is not set")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("npx", 'must be an object, got "npx"'),
        ({}, "has neither a command nor a url"),
        ({"command": "x", "args": "y"}, 'args must be a list, got "y"'),
        ({"command": "x", "args": [["y"]]}, 'args[0] must be a string, got ["y"]'),
        ({"command": "x", "env": ["A=1"]}, 'env must be an object, got ["A=1"]'),
        ({"command": "x", "type": "carrier pigeon"}, 'has the type "carrier pigeon"; known are stdio, http and sse'),
        ({"command": "x", "type": "http"}, 'has the type "http", but a command'),
        ({"command": "${command:pick}"}, "command has ${command:pick}, which only its own program knows"),
    ],
)
def test_a_server_that_cannot_be_used_is_told(entry: object, message: str, tmp_path: Path) -> None:
    assert message in problem(write(tmp_path / "x.json", {"a": entry}))


@pytest.mark.parametrize("words", [["/opt/bin/toolrun", "serve"], ["uvx", "toolrun[mcp]", "serve"]])
def test_toolrun_does_not_start_itself(words: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", {"a": {"command": words[0], "args": words[1:]}})
    assert read_servers(path, {}) == ({}, {})
    assert "starts toolrun itself" in read_file(path)[0].problem


def test_a_server_that_is_switched_off_stays_so(tmp_path: Path) -> None:
    assert not ready(write(tmp_path / "x.json", {"a": {"command": "x", "disabled": True}}))["a"].enabled


def test_a_file_without_servers_has_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"theme": "dark"}')
    assert read_servers(path, {}) == ({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {]}', "line 1, column 17"),
        ("[]", "is not a JSON object"),
        ('{"mcpServers": []}', "under 'mcpServers'"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_servers(path, {})
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("platform", "environ", "place"),
    [
        ("linux", {}, ".config/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "/x/Claude/claude_desktop_config.json"),
        ("darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", {"APPDATA": "/a"}, "/a/Claude/claude_desktop_config.json"),
        ("win32", {}, "AppData/Roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_claude_desktop_has_its_place_on_each_system(
    platform: str, environ: dict[str, str], place: str, tmp_path: Path
) -> None:
    found = host_files(Path("/project"), {"HOME": str(tmp_path), **environ}, platform)
    assert tmp_path / place in [it.path for it in found if it.client == "claude-desktop"]


def test_a_file_that_is_found_twice_is_looked_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / ".cursor" / "mcp.json", {})
    assert [it.path for it in existing(host_files(tmp_path, {"HOME": str(tmp_path)}))] == [path]
