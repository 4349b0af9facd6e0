"""Servers as text for toolrun.toml, without their secrets."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.config.model import ServerSettings
from toolrun.config.variables import expand
from toolrun.mcp.hosts.toml_entry import server_table, without_secrets

TEXT = st.text(st.characters(codec="utf-8"), max_size=10)


@pytest.mark.parametrize(
    ("settings", "hidden", "variables"),
    [
        (
            ServerSettings(env={"API_KEY": "abc", "MODE": "fast", "EMPTY_TOKEN": ""}),
            ServerSettings(env={"API_KEY": "${API_KEY}", "MODE": "fast", "EMPTY_TOKEN": ""}),
            {"API_KEY": "env.API_KEY"},
        ),
        (
            ServerSettings(env={"GH": "ghp_0123456789abcdefghij", "SET": "${GH_TOKEN}"}),
            ServerSettings(env={"GH": "${GH}", "SET": "${GH_TOKEN}"}),
            {"GH": "env.GH"},
        ),
        (
            ServerSettings(headers={"Authorization": "Bearer abc", "X-Trace": "on"}),
            ServerSettings(headers={"Authorization": "Bearer ${MY_SERVER_AUTHORIZATION}", "X-Trace": "on"}),
            {"MY_SERVER_AUTHORIZATION": "headers.Authorization"},
        ),
        (
            ServerSettings(args=("--api-key", "abc", "--token=def", "--port", "80", "sk-0123456789abcdefghij")),
            ServerSettings(
                args=(
                    "--api-key",
                    "${MY_SERVER_API_KEY}",
                    "--token=${MY_SERVER_TOKEN}",
                    "--port",
                    "80",
                    "${MY_SERVER_ARGUMENT}",
                )
            ),
            {"MY_SERVER_API_KEY": "args[1]", "MY_SERVER_TOKEN": "args[2]", "MY_SERVER_ARGUMENT": "args[5]"},
        ),
        (
            ServerSettings(url="https://me:pw@x.example/mcp?api_key=abc&page=2"),
            ServerSettings(url="https://me:${MY_SERVER_PASSWORD}@x.example/mcp?api_key=${MY_SERVER_API_KEY}&page=2"),
            {"MY_SERVER_PASSWORD": "url", "MY_SERVER_API_KEY": "url"},
        ),
    ],
)
def test_secrets_become_variables(settings: ServerSettings, hidden: ServerSettings, variables: dict[str, str]) -> None:
    assert without_secrets("my server", settings) == (hidden, variables)


def test_two_secrets_never_share_a_variable() -> None:
    settings = ServerSettings(args=("--token", "a", "--token", "b"))
    hidden, variables = without_secrets("s", settings)
    assert hidden.args[1] != hidden.args[3]
    assert len(variables) == 2


@given(TEXT, TEXT, st.lists(TEXT, max_size=3), st.dictionaries(TEXT, TEXT, max_size=3))
def test_a_table_says_what_was_set(name: str, command: str, args: list[str], env: dict[str, str]) -> None:
    settings = ServerSettings(command=command, args=tuple(args), env=env)
    table = tomllib.loads(server_table(name, settings, Path("/project")))
    given = {"command": command, "args": args, "env": env}
    assert table == {"servers": {name: {key: value for key, value in given.items() if value}}}


def test_a_server_that_starts_beside_the_configuration_needs_no_directory() -> None:
    settings = ServerSettings(command="x", cwd="/project", enabled=False)
    assert server_table("a", settings, Path("/project")) == '[servers.a]\ncommand = "x"\nenabled = false\n'
    assert 'cwd = "/project"' in server_table("a", settings, Path("/other"))


@given(st.dictionaries(st.sampled_from(["API_KEY", "TOKEN", "MODE"]), st.text(st.characters(exclude_characters="$"))))
def test_with_the_variables_set_everything_is_as_it_was(env: dict[str, str]) -> None:
    hidden, variables = without_secrets("s", ServerSettings(env=env))
    environ = {name: env[where.removeprefix("env.")] for name, where in variables.items()}
    for key, text in hidden.env.items():
        assert expand(str(text), environ) == (env[key], [])
