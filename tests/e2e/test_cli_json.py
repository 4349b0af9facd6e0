"""`--json` everywhere: each command that prints a result has it, and the page names those that print none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from support.console import ROOT, toolrun, write_project
from toolrun.cli.program import COMMANDS

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def _commands() -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups as `cache clean`."""
    for name, entry in COMMANDS.items():
        command: click.Command = import_module(f"toolrun.cli.commands.{entry.module}").command
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {child}", it) for child, it in command.commands.items())


def test_every_command_has_json_or_is_named_as_one_that_prints_no_result() -> None:
    [sentence] = re.findall(r"^Every command takes `--json`(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    without = {name for name, command in _commands() if not any("--json" in it.opts for it in command.params)}
    assert set(re.findall(r"`([a-z ]+)`", sentence)) == without


def test_the_options_of_subcommands_are_named_too() -> None:
    options = {
        opt for _, command in _commands() for it in command.params if it.param_type_name == "option" for opt in it.opts
    }
    assert {
        it for it in options if f"`{it}" not in PAGE and f"toolrun {it}`" not in PAGE and f" {it}`" not in PAGE
    } == set()


def test_install_says_what_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").touch()
    file = tmp_path / ".mcp.json"

    def install(*options: str, stdin: str = "") -> dict[str, object]:
        done = toolrun("install", "claude-code", "--json", *options, cwd=tmp_path, stdin=stdin)
        said: dict[str, object] = json.loads(done.stdout)
        return said | {"code": done.returncode}

    shown = install("--print")
    assert shown.keys() == {"file", "name", "entry", "wrote", "backup", "code"}
    assert (shown["file"], shown["name"], shown["wrote"], file.exists()) == (str(file), "toolrun", False, False)
    assert install(stdin="n\n") == shown | {"code": 1}
    assert install("-y") == shown | {"wrote": True}
    assert json.loads(file.read_text()) == {"mcpServers": {"toolrun": shown["entry"]}}
    assert install("-y") == shown
    file.write_text("{}")
    assert install(stdin="y\n") == shown | {"wrote": True, "backup": str(tmp_path / ".mcp.json.bak")}


def test_a_doubt_that_is_settled_is_printed_as_it_is_afterwards(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").touch()
    lost = '@tool\ndef send() -> str:\n    "Send."\n    raise ConnectionError("lost")\n'
    assert toolrun("call", "send", cwd=write_project(tmp_path, send=lost)).returncode == 1
    for code, ways in ((0, ["--not-done"]), (1, ["--done"])):
        done = toolrun("effects", "settle", "1-1", *ways, "--json", cwd=tmp_path)
        said = json.loads(done.stdout)
        assert (done.returncode, said["id"], said["tool"], said["settled_as"]) == (code, "1-1", "send", "not_done")


@pytest.mark.parametrize(
    ("arguments", "state", "code"),
    [(["allow", "1"], "allowed", 0), (["deny", "1"], "denied", 0), (["revoke", "1"], "pending", 1)],
)
def test_a_request_that_is_answered_is_printed_as_it_is_afterwards(
    arguments: list[str], state: str, code: int, tmp_path: Path
) -> None:
    pay = '@tool(approval="ask")\ndef pay(to: str) -> str:\n    "Pay."\n    return to\n'
    (tmp_path / "toolrun.toml").touch()
    assert toolrun("call", "pay", "to=ann", cwd=write_project(tmp_path, pay=pay)).returncode == 1
    done = toolrun("approvals", *arguments, "--json", cwd=tmp_path)
    said = json.loads(done.stdout)
    assert (done.returncode, said["id"], said["tool"], said["state"]) == (code, 1, "pay", state)


def test_folders_and_variables_of_a_cluster_are_objects(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    made = tmp_path / "made"
    assert (
        toolrun(
            "cluster", "head", "--address", "10.0.0.1", "--folder", str(made), "--no-start", cwd=tmp_path
        ).returncode
        == 0
    )
    invited = toolrun("cluster", "invite", "10.0.0.2", "10.0.0.3", "--folder", str(made), "--json", cwd=tmp_path)
    assert json.loads(invited.stdout) == [
        {"address": it, "folder": str(made / "machines" / it)} for it in ("10.0.0.2", "10.0.0.3")
    ]
    plain = toolrun("cluster", "env", "--folder", str(made), cwd=tmp_path).stdout
    variables = json.loads(toolrun("cluster", "env", "--folder", str(made), "--json", cwd=tmp_path).stdout)
    assert [line.partition("=")[0] for line in plain.splitlines()] == list(variables)
