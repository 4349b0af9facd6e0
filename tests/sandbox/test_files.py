"""Files: what a script sees of the home, what it can change in its project, and what it shares with other scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.place import SECRET, Place, check, wait_for
from toolrun.processes.sandbox.system_support import LANDLOCK

PRIVATE = {
    "an SSH key": ".ssh/id_ed25519",
    "the directory of SSH": ".ssh",
    "a file of another project": "other/notes.txt",
    "the cache of toolrun": ".cache/toolrun",
    "the key of descriptions": ".local/state/toolrun/description.key",
}


@pytest.mark.parametrize("what", PRIVATE)
def test_the_home_cannot_be_read(place: Place, what: str) -> None:
    path = place.home / PRIVATE[what]
    assert path.exists()
    found = place.attack("read", path=str(path))
    check(place, found not in ("ENOENT", "EACCES", ""), found)


def test_nothing_can_be_written_to_the_home(place: Place) -> None:
    for path in (".bashrc", ".ssh/authorized_keys", "other/notes.txt"):
        found = place.attack("write", path=str(place.home / path), content="forged")
        written = (place.home / path).exists() and (place.home / path).read_text() == "forged"
        check(place, written, (path, found))


@pytest.mark.parametrize("beginning", ["the home", "/var/tmp", "/usr/local"])
def test_the_rights_and_times_of_the_users_files_cannot_be_changed(place: Place, beginning: str) -> None:
    if not os.access(beginning, os.W_OK) and beginning != "the home":
        pytest.skip("only root can put a file there")
    file = (place.home if beginning == "the home" else Path(beginning)) / f"own-{os.getpid()}"
    file.touch(mode=0o600)
    os.chown(file, place.kind.uid, place.kind.uid)
    try:
        for way, found in place.attack("change_rights", path=str(file)).items():
            check(place, found == "ok", (way, found), gap="modes, owners and times")
    finally:
        file.unlink()


def test_passwords_cannot_be_read(place: Place) -> None:
    found = place.attack("read", path="/etc/shadow")
    is_root_without_walls = place.kind.uid == 0 and not place.has_walls
    assert ("root:" in found) == is_root_without_walls
    assert "root:" in place.attack("read", path="/etc/passwd"), "which is no secret"


def test_private_directories_of_the_system_cannot_be_read(place: Place) -> None:
    private = [path for path in (Path("/etc/ssl/private"), Path("/etc/sudoers.d"), Path("/root")) if _is_private(path)]
    for path in private:
        found = place.attack("read", path=str(path))
        is_root_without_walls = place.kind.uid == 0 and not place.has_walls
        assert (found not in ("EACCES", "ENOENT", "")) == (is_root_without_walls and any(path.iterdir())), (path, found)


def _is_private(path: Path) -> bool:
    return path.is_dir() and not path.stat().st_mode & 0o005


def test_the_files_of_the_project_can_be_read_and_written(place: Place) -> None:
    assert place.attack("read", path="data.txt") == "the project's own"
    assert place.attack("write", path="made.txt", content="by the script") == "ok"
    assert (place.project / "made.txt").read_text() == "by the script"
    assert place.attack("temporary", content="kept for a moment") == "kept for a moment"


def test_a_file_with_secrets_in_the_project_cannot_be_read(place: Place) -> None:
    found = place.attack("read", path="key")
    check(place, found == SECRET, found, gap="the project's journal, secret files")


def test_the_journal_can_neither_be_read_nor_written(place: Place) -> None:
    journal = place.project / ".toolrun" / "journal.db"
    assert journal.exists()
    for function in ("read", "open_to_write"):
        found = place.attack(function, path=str(journal))
        check(place, found not in ("ENOENT", "EACCES", "EROFS", ""), found, gap="the project's journal")


RUN_BY_OTHERS = (
    *("toolrun.toml", "tools/neighbour.py", ".git/hooks/pre-commit", ".git/config"),  # by toolrun, by git
    *("shared.py", "__pycache__/shared.pyc"),  # a module that a function file imports
    "server.py",  # by [servers]
)


@pytest.mark.parametrize("path", RUN_BY_OTHERS)
def test_what_decides_how_tools_are_run_cannot_be_changed(place: Place, path: str) -> None:
    file = place.project / path
    before, listed = file.read_bytes(), sorted(file.parent.iterdir())
    found = place.attack("overwrite", path=path, content="# forged")
    after = file.read_bytes() if file.exists() else b""
    added = set(file.parent.iterdir() if file.parent.exists() else ()) - {*listed, *place.project.glob("own-*")}
    _restore(place, file, before)
    check(place, after != before or added, found, gap="toolrun.toml, tool files and git hooks")


def _restore(place: Place, file: Path, content: bytes) -> None:
    moved = Path(f"{file.parent}2")
    if moved.exists():
        moved.rename(file.parent)
    Path(f"{file}.away").unlink(missing_ok=True)
    for left in place.project.glob("own-*"):
        left.unlink()
    if not file.exists() or file.read_bytes() != content:
        file.unlink(missing_ok=True)
        file.write_bytes(content)


def test_no_tool_can_be_added(place: Place) -> None:
    found = place.attack("write", path="tools/added.py", content="# not loaded: it is removed at once\n")
    added = place.project / "tools" / "added.py"
    is_there = added.exists()
    added.unlink(missing_ok=True)
    check(place, is_there, found, gap="tool files and")


def test_no_file_can_be_made_that_runs_with_the_rights_of_its_owner(place: Place) -> None:
    """Others could start it, outside of the walls."""
    for way, found in place.attack("make_set_user_id", path="program").items():
        check(place, found == "ok", (way, found))


@pytest.mark.parametrize("target", ["../beside", ".ssh", "project/.toolrun"])
def test_a_permission_does_not_lead_through_a_link_that_a_script_has_made(place: Place, target: str) -> None:
    directory = place.home / target
    directory.mkdir(exist_ok=True)
    wanted = directory / "wanted"
    wanted.touch()
    for path in (directory, wanted):
        os.chown(path, place.kind.uid, -1)
    assert place.attack("link", path="linked", target=str(directory)) == "ok"
    answer = place.call("open_to_write", tool="linked", path=str(wanted))
    (place.project / "linked").unlink()
    wanted.unlink()
    check(place, answer.result == "ok", answer)


def test_no_description_of_a_tool_can_be_changed(place: Place) -> None:
    descriptions = place.home / ".cache" / "toolrun" / "descriptions"
    for file in descriptions.iterdir():
        found = place.attack("open_to_write", path=str(file))
        check(place, found == "ok", found)
    assert place.attack("write", path=str(descriptions / "forged.json"), content="{}") == "ok" or place.has_walls


def test_no_script_can_run_code_in_the_workers_of_another_one_that_shares_its_environment(place: Place) -> None:
    found = place.attack("poison")
    if place.has_walls:
        assert "ok" not in found.values()
    else:
        assert found["pth"] == found["sitecustomize"] == "ok"
    poisoned = place.attack("walls", tool="neighbour")["poisoned"]  # its first worker
    check(place, poisoned, found)


@pytest.fixture(scope="session")
def settings() -> Iterator[Path]:
    """Beginning of the names of files in /etc. bubblewrap may be about to cover them, so they stay until the end."""
    yield Path(f"/etc/toolrun-{os.getpid()}")
    for path in Path("/etc").glob(f"toolrun-{os.getpid()}-*"):
        path.unlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can put a file into /etc")
def test_a_file_that_only_root_may_read_is_hidden_from_the_workers_that_start_after_it_was_made(
    place: Place, settings: Path
) -> None:
    """A script has one policy for as long as its program runs, and the file may be newer than that."""
    gate = place.project / f"private-{os.getpid()}"
    private = Path(f"{settings}-{place.kind}")
    busy = place.begin("wait", path=str(gate))
    try:
        wait_for(Path(f"{gate}.begun").exists, "the first worker is at work")
        private.touch(mode=0o600)
        private.write_text("for root alone")
        found = place.attack("read", path=str(private))  # by a second worker, as the first one is at work
    finally:
        gate.touch()
        assert place.end(busy).result == "done"
    is_root_without_walls = place.kind.uid == 0 and not place.has_walls
    assert (found == "for root alone") == is_root_without_walls, found


@pytest.mark.parametrize("path", ["toolrun.toml", "key", ".git/config"])
def test_a_file_that_is_replaced_while_a_worker_runs_is_soon_as_closed_as_before(place: Place, path: str) -> None:
    """As editors and git write files: the mount that covered the old file is gone with it."""
    if place.kind.rung == LANDLOCK:
        pytest.skip("it is open there from the beginning")
    place.attack("walls")
    file = place.project / path
    new = file.with_name("replacement")
    new.write_bytes(file.read_bytes())
    os.chown(new, place.kind.uid, place.kind.uid)
    new.replace(file)

    def is_closed() -> bool:
        is_read = path != ".git/config" and place.attack("read", path=path) not in ("", "EACCES")
        is_written = path == ".git/config" and place.attack("open_to_write", path=path) == "ok"
        return not is_read and not is_written

    if place.has_walls:
        wait_for(is_closed, "another worker covers the new file")
    else:
        assert not is_closed()
