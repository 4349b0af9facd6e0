"""The file with the pins: private, whole, shared by processes, and never lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolrun.errors import PinError
from toolrun.trust.pin_file import Pin, PinFile, Pinned
from toolrun.trust.pinned_definition import PinnedDefinition, pin_definition

LIMIT = 60


def definition(text: str = "Dim a lamp.") -> PinnedDefinition:
    return pin_definition({"name": "dim", "description": text, "inputSchema": {"type": "object"}}, 1000)


def add(file: PinFile, tool: str = "dim", pin: Pin | None = None) -> Pinned:
    pin = pin or Pin(definition(), "2026-11-18T08:00:00+00:00")
    return file.change(lambda pinned: pinned.setdefault("lamps", {}).update({tool: pin}))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pin = Pin(definition(), "2026-11-18T08:00:00+00:00", "person:me", "dim", definition("Other words.\u200b"))
    written = add(PinFile(tmp_path), pin=pin)
    assert PinFile(tmp_path).read() == written == {"lamps": {"dim": pin}}


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    file = PinFile(tmp_path)
    add(file)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert (file.path.parent / ".gitignore").read_text() == "*\n"


def test_nothing_is_made_by_reading_and_nothing_written_without_a_change(tmp_path: Path) -> None:
    file = PinFile(tmp_path)
    assert file.read() == {}
    assert list(tmp_path.iterdir()) == []
    add(file)
    before = file.path.stat()
    add(file)
    assert (file.path.stat().st_ino, file.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_another_process_wrote_is_noticed_and_kept(tmp_path: Path) -> None:
    one, other = PinFile(tmp_path), PinFile(tmp_path)
    add(one, "dim")
    assert not one.has_changed()
    add(other, "blink")
    assert one.has_changed()
    assert set(add(one, "dim")["lamps"]) == {"dim", "blink"}


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from toolrun.trust.pin_file import Pin, PinFile\n"
        "from toolrun.trust.pinned_definition import pin_definition\n"
        "file = PinFile(Path(sys.argv[1])); sys.stdin.readline()\n"
        "for number in range(20):\n"
        "    pin = Pin(pin_definition({'name': str(number)}, 100), 'now')\n"
        "    file.change(lambda pinned: pinned.setdefault(sys.argv[2], {}).update({str(number): pin}))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stdin=subprocess.PIPE, text=True)
        for name in ("one", "two", "three")
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
    assert [process.wait(LIMIT) for process in started] == [0, 0, 0]
    pinned = PinFile(tmp_path).read()
    assert {name: len(tools) for name, tools in pinned.items()} == {"one": 20, "two": 20, "three": 20}
    assert sorted(it.name for it in (tmp_path / ".toolrun").iterdir()) == [
        ".gitignore",
        "definitions.json",
        "definitions.lock",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 1, "servers": {"a": []}}',
        '{"version": 1, "servers": {"a": {"b": {"hash": 1, "at": "", "definition": {}}}}}',
        '{"version": 1, "servers": {"a": {"b": {"hash": "", "at": "", "definition": []}}}}',
    ],
)
def test_a_damaged_file_is_moved_aside_and_a_new_one_begins(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = PinFile(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text(text)
    with pytest.raises(PinError, match="is damaged"):
        file.read()
    assert list(add(file)["lamps"]) == ["dim"]
    assert (tmp_path / ".toolrun" / "definitions.json.damaged1").read_text() == text
    assert "definitions.json is damaged" in caplog.text
    assert "It is now definitions.json.damaged1" in caplog.text
    file.path.write_text("again")
    add(file)
    assert (tmp_path / ".toolrun" / "definitions.json.damaged2").read_text() == "again"


def test_the_file_of_a_newer_toolrun_stays_as_it_is(tmp_path: Path) -> None:
    file = PinFile(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text(json.dumps({"version": 2, "servers": {}}))
    with pytest.raises(PinError, match="written by a newer toolrun"):
        add(file)
    assert json.loads(file.path.read_text())["version"] == 2


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / ".toolrun").write_text("a file")
    with pytest.raises(PinError, match=r"definitions\.json cannot be written"):
        add(PinFile(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_must_not_be_written_is_an_error_and_can_be_read(tmp_path: Path) -> None:
    file = PinFile(tmp_path)
    add(file)
    file.path.parent.chmod(0o500)
    try:
        with pytest.raises(PinError, match="cannot be written"):
            add(PinFile(tmp_path), "blink")
        assert list(PinFile(tmp_path).read()["lamps"]) == ["dim"]
    finally:
        file.path.parent.chmod(0o700)
