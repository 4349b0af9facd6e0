"""Changing arguments, in an editor or in one line."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from toolrun.cli.argument_editor import edit_arguments
from toolrun.errors import UsageError
from toolrun.json import JSON

GIVEN: dict[str, JSON] = {"to": "ann", "amount": 3}
LIMIT = 30.0


@pytest.fixture(autouse=True)
def no_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


async def edit(line: str | None) -> dict[str, JSON]:
    async def read_line(question: str) -> str | None:
        return line

    return await edit_arguments(GIVEN, 0, read_line)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("amount:=5 note='for lunch'", {"to": "ann", "amount": 5, "note": "for lunch"}),
        ('{"to": "bob"}', {"to": "bob"}),
        ("", GIVEN),
        (None, GIVEN),
    ],
)
async def test_a_line_changes_some_arguments_and_an_object_all(line: str | None, wanted: dict[str, JSON]) -> None:
    assert await edit(line) == wanted


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "neither NAME=VALUE nor a JSON object"),
        ("-", "neither NAME=VALUE nor a JSON object"),
        ("to='", "No closing quotation"),
        ("amount:=x", "needs JSON"),
        ("{", "this is not JSON"),
        ('{"to": "ann", "to": "bob"}', "'to' is sent twice"),
    ],
)
async def test_what_cannot_be_read_is_said(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        await edit(line)


def write_editor(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def files(folder: Path) -> list[str]:
    return [str(path) for path in folder.iterdir()]


async def test_the_editor_gets_a_private_file_that_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    editor = write_editor(tmp_path / "editor", f'stat -c %a "$1" > {seen}; echo "$1" >> {seen}; sed -i s/ann/bob/ "$1"')
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", "false")
    assert await edit(None) == {"to": "bob", "amount": 3}
    mode, name = seen.read_text().split()
    assert mode == "600"
    assert name.endswith(".json")
    assert name not in files(tmp_path)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "exit code 3"),
        ('echo "[]" > "$1"', "one JSON object"),
        ('echo "{" > "$1"', "not JSON"),
        ('rm "$1"', "no file that can be read"),
    ],
)
async def test_what_an_editor_does_wrong_is_said(
    script: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDITOR", write_editor(tmp_path / "editor", script))
    with pytest.raises(UsageError, match=why):
        await edit(None)


@pytest.mark.parametrize(("editor", "why"), [("no-such-editor", "cannot be started"), ("no-such-editor;", "exit code")])
async def test_an_editor_that_is_not_there_is_said(editor: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(UsageError, match=why):
        await edit(None)


async def test_an_editor_may_have_options_and_need_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/ann/bob/")
    assert await edit(None) == {"to": "bob", "amount": 3}
    monkeypatch.setenv("EDITOR", "true 'quoted'; sed -i s/ann/cyd/")
    assert await edit(None) == {"to": "cyd", "amount": 3}


async def test_an_editor_ends_with_whoever_waits_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    monkeypatch.setenv("EDITOR", write_editor(tmp_path / "editor", f"trap '' TERM; echo > {started}; exec sleep 1000"))
    monkeypatch.setattr("toolrun.cli.argument_editor._ENDING", 0.1)
    editing = asyncio.create_task(edit(None))
    async with asyncio.timeout(LIMIT):
        await asyncio.to_thread(started.read_text)
    editing.cancel()
    ended, _ = await asyncio.wait([editing], timeout=LIMIT)
    assert ended
    assert editing.cancelled()
    assert not [name for name in files(tmp_path) if name.endswith(".json")]
