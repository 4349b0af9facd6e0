"""docs/reference/cli.md: it names everything, and its examples are true."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from support.console import QUICKSTART, ROOT, run
from toolrun.cli.program import COMMANDS, program

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def _examples() -> Iterator[tuple[str, str]]:
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            yield command, expected


def test_every_command_has_a_section() -> None:
    for name in COMMANDS:
        assert re.search(rf"^## {name}\b", PAGE, re.MULTILINE), f"docs/reference/cli.md has no section on {name}"


def test_every_option_is_named() -> None:
    commands: list[click.Command] = [program]
    commands += [import_module(f"toolrun.cli.commands.{entry.module}").command for entry in COMMANDS.values()]
    for command in commands:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for option in parameter.opts:
                    assert f"`{option}" in PAGE or f"toolrun {option}`" in PAGE, f"cli.md does not name {option}"


def _unaligned(text: str) -> str:
    """`toolrun workers` shows those of other programs too, and the columns are as wide as their names."""
    return re.sub(" {2,}", "  ", text)


@pytest.mark.timeout(600)  # dozens of commands, one after the other
def test_the_examples_are_true(tmp_path: Path) -> None:
    project = shutil.copytree(QUICKSTART, tmp_path / "quickstart", ignore=shutil.ignore_patterns("__pycache__"))
    examples = list(_examples())
    assert len(examples) > 10
    for command, expected in examples:
        done = run("bash", "-c", f"{{ {command}; }} 2>&1", cwd=project)
        pattern = ".*".join(re.escape(_unaligned(part)) for part in expected.split("…"))
        if not re.fullmatch(pattern, _unaligned(done.stdout), re.DOTALL):
            pytest.fail(f"$ {command}\nprinted\n{done.stdout}\nand not\n{expected}")
