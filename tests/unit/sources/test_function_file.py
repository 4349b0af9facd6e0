"""Python files whose functions run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolrun.errors import ConfigError
from toolrun.sources.function_file import load_functions

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes a file. What was imported from files is forgotten at the end."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    yield write
    for name in [name for name in sys.modules if name.startswith(("toolrun_tools.", "library_of_tools"))]:
        del sys.modules[name]


def test_the_tools_of_a_file_are_found_in_their_order(write: Write) -> None:
    path = write(
        "tools.py",
        """
from __future__ import annotations
from dataclasses import dataclass
from toolrun import tool

@dataclass
class Point:
    x: int

@tool
def second(point: Point) -> int:
    "Take a class of the file."
    return point.x

@tool(name="first")
async def other() -> str:
    "Run on the loop."
    return "ran"

def helper() -> None:
    "Not a tool."
""",
    )
    tools = load_functions(path)
    assert [(it.name, it.is_async) for it in tools] == [("second", False), ("first", True)]
    assert tools[0].invoke({"point": {"x": 7}}) == 7


def test_imported_tools_are_not_the_files_own_but_those_made_of_imported_functions_are(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = write(
        "library_of_tools.py",
        """
from toolrun import tool

@tool
def theirs(n: int) -> int:
    "Theirs."
    return n

def plain(n: int, m: int = 1) -> int:
    "Plain."
    return n + m
""",
    )
    monkeypatch.syspath_prepend(str(library.parent))
    path = write(
        "mine.py",
        """
from functools import partial
from library_of_tools import plain, theirs
from toolrun import tool

made = tool(plain)
bound = tool(name="bound")(partial(plain, m=5))
""",
    )
    assert [it.name for it in load_functions(path)] == ["plain", "bound"]


def test_two_files_of_one_name_do_not_replace_each_other(write: Write) -> None:
    text = 'from toolrun import tool\n@tool\ndef {0}() -> str:\n    "It."\n    return "{0}"\n'
    paths = [write("one/search.py", text.format("one")), write("two/search.py", text.format("two"))]
    [[one], [two]] = [load_functions(path) for path in paths]
    assert (one(), two()) == ("one", "two")
    assert one.__module__ != two.__module__


def test_a_file_is_read_anew_each_time(write: Write) -> None:
    text = 'from toolrun import tool\n@tool(name="{0}")\ndef f() -> None:\n    "It."\n'
    assert load_functions(write("changing.py", text.format("before")))[0].name == "before"
    assert load_functions(write("changing.py", text.format("after_that")))[0].name == "after_that"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nimport missing_module_x\n", "cannot be imported: ModuleNotFoundError: No module named '{}' (line 2)"),
        ("def f(:\n", "cannot be imported: SyntaxError: "),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit: 3 (line 1)"),
        ("def f():\n    raise ValueError\n\nf()\n", "cannot be imported: ValueError: ValueError (line 2)"),
        (
            "from toolrun import tool\n@tool\ndef f(*args) -> None:\n    'It.'\n",
            "cannot be imported: DefinitionError: Tool 'f': parameter 'args' cannot be passed by name",
        ),
        ("x = '\x00'\n", "cannot be imported: "),
        ("from . import sibling\n", "cannot be imported: "),
    ],
)
def test_a_file_that_cannot_be_imported_says_why_and_where(write: Write, text: str, message: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigError) as caught:
        load_functions(write("broken.py", text))
    assert str(caught.value).startswith(message.format("missing_module_x"))
    assert not [name for name in set(sys.modules) - before if "broken" in name]


def test_ctrl_c_while_a_file_is_imported_is_not_held_up(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_functions(write("interrupted.py", "raise KeyboardInterrupt\n"))


def test_what_is_no_python_file_is_refused(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a Python file"):
        load_functions(write("notes.txt", "x"))
    with pytest.raises(ConfigError, match="cannot be imported: FileNotFoundError"):
        load_functions(tmp_path / "missing.py")


@pytest.mark.parametrize("target", ["loop.py", "other.py", "nowhere.py", "."])
def test_a_link_that_leads_to_no_file_is_said(tmp_path: Path, target: str) -> None:
    path = tmp_path / "loop.py"
    path.symlink_to(target)
    (tmp_path / "other.py").symlink_to("loop.py")
    with pytest.raises(ConfigError, match="cannot be imported"):
        load_functions(path)
