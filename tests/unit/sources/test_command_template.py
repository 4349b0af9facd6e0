"""The command line of a tool: what becomes of the arguments of a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.errors import DefinitionError, InvalidArgumentsError
from toolrun.json import JSON
from toolrun.sources.command_template import read_template

PARAMETERS: dict[str, JSON] = {"properties": {name: {} for name in ("path", "count", "all", "tags", "where")}}


def fill(command: list[Any], **arguments: Any) -> list[str]:
    return read_template(["program", *command], PARAMETERS).fill(arguments)


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        (["status"], {}, ["status"]),
        (["{path}"], {"path": "a b; rm -rf / $(x) `y` *"}, ["a b; rm -rf / $(x) `y` *"]),
        (["{path}"], {"path": ""}, [""]),
        (["{path}"], {}, []),
        (["{path}"], {"path": None}, []),
        (["-n", "{count}"], {}, ["-n"]),
        ([["-n", "{count}"]], {}, []),
        ([["-n", "{count}"]], {"count": 5}, ["-n", "5"]),
        (["--count={count}"], {"count": -5}, ["--count=-5"]),
        (["{-count}"], {"count": -5}, ["-5"]),
        (["--", "{path}"], {"path": "--exec=x"}, ["--", "--exec=x"]),
        ([["--", "{path}"]], {"path": "-x"}, ["--", "-x"]),
        (["{tags}"], {"tags": ["a", "b c"]}, ["a", "b c"]),
        (["{tags}"], {"tags": []}, []),
        ([["--all", "{?all}"]], {"all": True}, ["--all"]),
        ([["--all", "{?all}"]], {"all": False}, []),
        (["{where}"], {"where": {"a": [1, True]}}, ['{"a":[1,true]}']),
        (["{all}"], {"all": True}, ["true"]),
        (["{{{path}}}"], {"path": "x"}, ["{x}"]),
        (["{path}:{count}"], {"path": "a", "count": 3}, ["a:3"]),
        (["{path}"], {"path": "{count}", "count": 3}, ["{count}"]),
    ],
)
def test_a_template_is_filled(command: list[Any], arguments: dict[str, Any], expected: list[str]) -> None:
    assert fill(command, **arguments) == expected


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (["{path}"], {"path": "--output=/etc/passwd"}, "'path' must not start with '-'"),
        (["{path}"], {"path": "-"}, "'path' must not start with '-'"),
        (["-n", "{count}"], {"count": -5}, "'count' must not start with '-'"),
        (["{tags}"], {"tags": ["a", "-x"]}, "'tags' must not start with '-'"),
        (["{path}{count}"], {"path": "-x", "count": 1}, "'path' must not start with '-'"),
        (["{path}", "--", "{tags}"], {"path": "-x", "tags": ["-y"]}, "'path' must not start with '-'"),
        ([["--", "{tags}"], "{path}"], {"path": "-x"}, "'path' must not start with '-'"),
        (["{path}"], {"path": "a\0b"}, "'path' has a NUL character"),
        (["--p={path}"], {"path": "a\0b"}, "'path' has a NUL character"),
        (["{path}"], {"path": "\ud800"}, "'path' is not valid text"),
        (["{path}"], {"path": "x" * 100_001}, "'path' has 100,001 bytes"),
        (["{tags}"], {"tags": ["x" * 1000] * 1000}, "together they are over 1,000,000 bytes"),
    ],
)
def test_what_cannot_be_an_argument_is_refused(command: list[Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        fill(command, **arguments)


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_a_value_is_one_argument_as_it_is_or_refused(value: str) -> None:
    if value.startswith("-"):
        with pytest.raises(InvalidArgumentsError):
            fill(["{path}"], path=value)
    else:
        assert fill(["{path}"], path=value) == [value]
    assert fill(["--", "{path}"], path=value) == ["--", value]
    assert fill(["--path={path}"], path=value) == [f"--path={value}"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ls -l", "'command' must be a list"),
        ([], "'command' must be a list"),
        ([""], "'command' must be a list"),
        (["{path}"], 'the program "{path}" must not depend on the call'),
        (["ls", "{pth}"], "which is no parameter; did you mean 'path'"),
        (["ls", "{"], "write {{ and }} for braces"),
        (["ls", 5], "'command' has 5"),
        (["ls", []], "belong together"),
    ],
)
def test_a_command_that_could_never_run_is_refused_when_it_is_read(command: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_template(command, PARAMETERS)
