"""What in a project no sandboxed process sees or changes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from toolrun.config.model import Config, FileSettings, JournalSettings, ServerSettings
from toolrun.journal.journal import Journal
from toolrun.processes.sandbox import project_paths
from toolrun.processes.sandbox.imported_files import imported_files
from toolrun.processes.sandbox.project_paths import paths_of_project


def hidden(root: Path, journal: str) -> set[str]:
    config = Config(path=root / "toolrun.toml", root=root, journal=JournalSettings(path=journal))
    return {str(path.relative_to(root)) for path in paths_of_project(config, root / "cache").hidden}


@pytest.mark.parametrize("journal", [".toolrun/journal.db", "data/.toolrun/journal.db", "data/calls.db", "calls.db"])
def test_every_file_of_the_journal_is_hidden_wherever_it_is(tmp_path: Path, journal: str) -> None:
    (tmp_path / journal).parent.mkdir(parents=True, exist_ok=True)
    opened = Journal(tmp_path / journal)
    opened.run(lambda connection: connection.execute("SELECT 1")).result()
    names = {str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*.db*")}
    opened.close()
    assert {journal, f"{journal}-lock", f"{journal}-wal"} <= names
    covered = hidden(tmp_path, journal)
    assert [name for name in names if not any(name == it or name.startswith(f"{it}/") for it in covered)] == []


def test_the_file_that_a_linked_journal_means_is_hidden_too(tmp_path: Path) -> None:
    (tmp_path / "journal.db").symlink_to(tmp_path / "data" / "calls.db")
    assert {"journal.db", "data/calls.db", "data/calls.db-wal", "data/calls.db-lock"} <= hidden(tmp_path, "journal.db")


def test_a_journal_in_the_home_directory_is_the_one_that_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = Config(path=None, root=tmp_path / "project", journal=JournalSettings(path="~/calls.db"))
    assert config.journal_file == tmp_path / "calls.db"
    assert tmp_path / "calls.db-wal" in paths_of_project(config, tmp_path / "cache").hidden


def test_the_configuration_and_what_toolrun_remembers_are_hidden(tmp_path: Path) -> None:
    assert {"toolrun.toml", ".toolrun", "cache"} <= hidden(tmp_path, "elsewhere/calls.db")


def test_files_with_tools_are_protected_by_their_directory_or_one_by_one_in_the_root(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    (tmp_path / "b.py").touch()
    files = FileSettings(python=("tools/*.py", "more/deep/*.py", "*.py"), catalogs=())
    project_paths = paths_of_project(Config(path=None, root=tmp_path, files=files), tmp_path / "cache")
    protected = {str(path.relative_to(tmp_path)) for path in project_paths.protected}
    assert protected == {"tools", "more/deep", "a.py", "b.py", ".git/hooks", ".git/config"}


def protected(root: Path) -> set[str]:
    files = FileSettings(python=(), catalogs=())
    paths = paths_of_project(Config(path=root / "toolrun.toml", root=root, files=files), root / "cache")
    return {str(path.relative_to(root)) for path in paths.protected}


def test_in_a_linked_working_tree_the_file_that_leads_git_to_its_configuration_is_protected(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere")
    assert protected(tmp_path) == {".git"}


def test_the_environment_of_this_program_is_protected_if_it_is_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    assert ".venv" in protected(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert {"bin", "lib", "pyvenv.cfg"} <= protected(tmp_path)


def test_toolrun_itself_is_protected_if_it_is_in_the_project() -> None:
    own = Path(project_paths.__file__).parents[2]
    files = FileSettings(python=(), catalogs=())
    assert own in paths_of_project(Config(path=None, root=own.parent, files=files), own.parent / "cache").protected


def test_the_programs_of_servers_are_protected_and_their_data_is_not(tmp_path: Path) -> None:
    for name in ("server.py", "notes.db", "build/index.js", "env/bin/python", "env/pyvenv.cfg", "run", "app/job.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "run").chmod(0o755)
    servers = {
        "a": ServerSettings(
            command="python", args=("server.py", "--db", "notes.db", ".", "x" * 5000, "~nobody/x", "\0")
        ),
        "b": ServerSettings(command="node", args=("index.js",), cwd="build"),
        "c": ServerSettings(command="env/bin/python", args=("-m", "app.job")),
        "d": ServerSettings(command="./run"),
        "e": ServerSettings(command="python", args=("../beside.py", "/usr/bin/env")),
        "f": ServerSettings(url="http://localhost/server.py"),
    }
    (tmp_path / "env/bin/python").chmod(0o755)
    files = FileSettings(python=(), catalogs=())
    config = Config(path=tmp_path / "toolrun.toml", root=tmp_path, files=files, servers=servers)
    found = {
        str(it.relative_to(tmp_path)) for it in paths_of_project(config, tmp_path / "cache").protected if it.exists()
    }
    assert found == {"server.py", "build/index.js", "env", "env/bin/python", "app/job.py", "run"}


def test_what_this_program_has_imported_out_of_a_project_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported(name: str, file: str) -> None:
        module = ModuleType(name)
        module.__file__ = file
        monkeypatch.setitem(sys.modules, name, module)

    root, link = tmp_path / "project", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    imported("toolrun_test_a", f"{root}/helper.py")
    imported("toolrun_test_b", f"{root}/app/models/user.py")
    imported("toolrun_test_c", f"{root}/app/models/__init__.py")
    imported("toolrun_test_d", f"{link}/other/part.py")
    imported("toolrun_test_e", f"{root}/.local/lib/python3/site-packages/pkg/deep/mod.py")
    imported("toolrun_test_f", f"{root}/tools/weather.py")
    imported("toolrun_test_g", f"{root}2/beside.py")
    found = {str(it.relative_to(root)) for it in imported_files(root, [root / "tools"])}
    libraries = ".local/lib/python3/site-packages"
    assert found == {"helper.py", "__pycache__", "app/models", "other", libraries}
    imported("toolrun_test_h", f"{root}/app/late.py")
    found = {str(it.relative_to(root)) for it in imported_files(root, [root / "tools"])}
    assert found == {"helper.py", "__pycache__", "app", "other", libraries}


@pytest.mark.parametrize(("is_found", "has_file"), [(True, True), (False, True), (False, False)])
def test_a_directory_is_a_project_with_a_toolrun_toml_or_by_a_programs_own_settings(
    tmp_path: Path, is_found: bool, has_file: bool
) -> None:
    config = Config(path=tmp_path / "toolrun.toml" if has_file else None, root=tmp_path, is_found=is_found)
    assert paths_of_project(config, tmp_path / "cache").is_configured
    without = Config(path=None, root=tmp_path, is_found=True)
    assert not paths_of_project(without, tmp_path / "cache").is_configured
