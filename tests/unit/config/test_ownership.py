"""Whose files toolrun uses without being told to. The tests pretend to be another user, so they need no rights."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrun.config import ownership
from toolrun.config.load import find_config, load_config
from toolrun.config.ownership import (
    ControlledBy,
    Fault,
    PathRole,
    User,
    check_found,
    current_user,
    find_fault,
    judge,
    refusal,
)
from toolrun.errors import ConfigError
from toolrun.runtime import Runtime, read_config

ME = os.geteuid()
STRANGER = 54321
REGULAR, FOLDER, LINK, STICKY = stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_ISVTX
PRIVATE, SHARED = 100, 200
"""Two groups."""


def user(uid: int = 1000, *, safe: tuple[Path | str, ...] = (), trusted: tuple[int, ...] = ()) -> User:
    return User(uid, frozenset({uid, 0, *trusted}), lambda gid: gid == PRIVATE, tuple(map(str, safe)))


def status(mode: int, uid: int = 1000, gid: int = SHARED) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "role", "controlled_by"),
    [
        (REGULAR | 0o644, 1000, SHARED, PathRole.ENTRY, None),
        (REGULAR | 0o644, 0, SHARED, PathRole.ENTRY, None),
        (REGULAR | 0o644, STRANGER, SHARED, PathRole.ENTRY, ControlledBy.OWNER),
        (REGULAR | 0o666, 1000, SHARED, PathRole.ENTRY, ControlledBy.EVERYBODY),
        (REGULAR | 0o664, 1000, SHARED, PathRole.ENTRY, ControlledBy.GROUP),
        (REGULAR | 0o664, 1000, PRIVATE, PathRole.ENTRY, None),
        (LINK | 0o777, 1000, SHARED, PathRole.ENTRY, None),
        (LINK | 0o777, STRANGER, SHARED, PathRole.ENTRY, ControlledBy.OWNER),
        (FOLDER | 0o755, 1000, SHARED, PathRole.FOLDER, None),
        (FOLDER | 0o755, STRANGER, SHARED, PathRole.FOLDER, ControlledBy.OWNER),
        (FOLDER | 0o777, 0, SHARED, PathRole.FOLDER, ControlledBy.EVERYBODY),
        (FOLDER | 0o777 | STICKY, 0, SHARED, PathRole.FOLDER, None),
        (FOLDER | 0o777 | STICKY, STRANGER, SHARED, PathRole.FOLDER, ControlledBy.OWNER),
        (FOLDER | 0o777 | STICKY, 0, SHARED, PathRole.TOOL_FOLDER, ControlledBy.EVERYBODY),
        (FOLDER | 0o775, 1000, SHARED, PathRole.FOLDER, ControlledBy.GROUP),
        (FOLDER | 0o775, 1000, PRIVATE, PathRole.FOLDER, None),
        (FOLDER | 0o775 | STICKY, 1000, SHARED, PathRole.TOOL_FOLDER, ControlledBy.GROUP),
        (FOLDER | 0o755, STRANGER, SHARED, PathRole.ABOVE, None),
        (FOLDER | 0o775, 0, SHARED, PathRole.ABOVE, None),
        (FOLDER | 0o777, 0, SHARED, PathRole.ABOVE, ControlledBy.EVERYBODY),
        (FOLDER | 0o777 | STICKY, 0, SHARED, PathRole.ABOVE, None),
    ],
)
def test_who_decides_what_is_in_a_file(
    mode: int, uid: int, gid: int, role: PathRole, controlled_by: ControlledBy | None
) -> None:
    assert judge(status(mode, uid, gid), role, user()) is controlled_by


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "project"
    (root / "tools" / "deep").mkdir(parents=True)
    for folder in (root, root / "tools", root / "tools" / "deep"):
        folder.chmod(0o755)
    for name in ("toolrun.toml", "tools/one.py", "tools/deep/two.py"):
        (root / name).touch(0o644)
    yield root
    for folder in (root, root / "tools", root / "tools" / "deep"):
        folder.chmod(0o755)


def faulty(path: Path, who: User, root: Path | None = None) -> tuple[Path, ControlledBy] | None:
    fault = find_fault(path, who, root)
    return None if fault is None else (fault.place, fault.controlled_by)


def test_what_is_ones_own_is_used(project: Path) -> None:
    me = user(ME)
    assert faulty(project / "toolrun.toml", me) is None
    assert faulty(project / "tools" / "deep" / "two.py", me, project) is None


@pytest.mark.skipif(ME == 0, reason="root's files are everybody's to trust")
def test_the_file_of_another_user_is_refused(project: Path) -> None:
    assert faulty(project / "toolrun.toml", user(STRANGER)) == (project / "toolrun.toml", ControlledBy.OWNER)


@pytest.mark.parametrize("folder", ["tools/deep", "tools", "."])
def test_no_folder_between_the_configuration_and_a_tool_is_open_to_others(folder: str, project: Path) -> None:
    (project / folder).chmod(0o777)
    assert faulty(project / "tools/deep/two.py", user(ME), project) == (project / folder, ControlledBy.EVERYBODY)


def test_in_a_sticky_folder_a_configuration_is_used_and_a_tool_is_not(project: Path) -> None:
    """Others could add bytecode for the tool."""
    me = user(ME)
    for folder in (project, project / "tools"):
        folder.chmod(0o1777)
    assert faulty(project / "toolrun.toml", me) is None
    assert faulty(project / "tools" / "one.py", me, project) == (project / "tools", ControlledBy.EVERYBODY)
    assert faulty(project / "tools" / "deep" / "two.py", me, project) is None


def test_a_folder_further_up_in_which_everybody_can_rename_is_refused(project: Path) -> None:
    above = project.parent
    above.chmod(0o777)
    assert faulty(project / "toolrun.toml", user(ME)) == (above, ControlledBy.EVERYBODY)
    above.chmod(0o1777)
    assert faulty(project / "toolrun.toml", user(ME)) is None


def test_of_a_link_both_ends_are_looked_at(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.toml").touch(0o644)
    (elsewhere / "second.toml").symlink_to("real.toml")
    (project / "toolrun.toml").unlink()
    (project / "toolrun.toml").symlink_to("../elsewhere/second.toml")
    assert faulty(project / "toolrun.toml", user(ME)) is None
    elsewhere.chmod(0o777)
    found = faulty(project / "toolrun.toml", user(ME))
    assert found is not None
    assert (found[0].resolve(), found[1]) == (elsewhere, ControlledBy.EVERYBODY)
    elsewhere.chmod(0o755)
    (elsewhere / "real.toml").chmod(0o666)
    assert faulty(project / "toolrun.toml", user(ME)) == (elsewhere / "real.toml", ControlledBy.EVERYBODY)


def test_a_link_to_a_folder_of_tools_leads_to_the_same_check(project: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "three.py").touch(0o644)
    (project / "more").symlink_to(shared)
    assert faulty(project / "more" / "three.py", user(ME), project) is None
    shared.chmod(0o777)
    assert faulty(project / "more" / "three.py", user(ME), project) == (project / "more", ControlledBy.EVERYBODY)


def test_a_link_that_leads_to_itself_ends(project: Path) -> None:
    (project / "loop.py").symlink_to("loop.py")
    assert faulty(project / "loop.py", user(ME), project) is None


@pytest.mark.parametrize("place", ["*", "project", "."])
def test_what_is_below_a_safe_directory_is_used(place: str, project: Path) -> None:
    project.chmod(0o777)
    project.parent.chmod(0o777)
    safe = "*" if place == "*" else project.parent / place
    assert faulty(project / "toolrun.toml", user(ME, safe=(safe,))) is None
    assert faulty(project / "toolrun.toml", user(ME, safe=(project / "tools",))) is not None


def test_a_safe_directory_says_nothing_of_where_its_links_lead(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "four.py").touch(0o666)
    (elsewhere / "four.py").chmod(0o666)
    (project / "tools" / "four.py").symlink_to(elsewhere / "four.py")
    found = faulty(project / "tools" / "four.py", user(ME, safe=(project,)), project)
    assert found == (elsewhere / "four.py", ControlledBy.EVERYBODY)


def test_who_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusted(uid: int, **environ: str) -> frozenset[int]:
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        found = current_user(environ)
        assert found is not None
        return found.trusted

    assert trusted(1000) == {1000, 0}
    assert trusted(0) == {0}
    assert trusted(0, SUDO_UID="1000") == {0, 1000}
    assert trusted(1000, SUDO_UID="1001") == {1000, 0}
    assert trusted(0, SUDO_UID="-1") == trusted(0, SUDO_UID="x") == trusted(0, SUDO_UID="²") == {0}


def test_a_group_is_private_if_only_its_user_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    groups = {1000: ("anna", []), 1001: ("anna", ["bert"]), 1002: ("staff", [])}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def entry(table: dict[int, tuple[str, list[str]]], gid: int) -> grp.struct_group:
        name, members = table[gid]
        return grp.struct_group((name, "x", gid, members))

    monkeypatch.setattr(grp, "getgrgid", lambda gid: entry(groups, gid))

    def is_private(gid: int, primary: int) -> bool:
        people = {1000: pwd.struct_passwd(("anna", "x", 1000, primary, "", "/", "/bin/sh"))}
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: people[uid])
        found = current_user({})
        assert found is not None
        return found.is_private_group(gid)

    assert is_private(1000, 1000)
    assert not is_private(1000, 1002)
    assert not is_private(1001, 1001)
    assert not is_private(1002, 1002)
    groups.clear()  # as in a container
    assert is_private(1000, 1000)
    assert not is_private(1001, 1001)


def test_the_refusal_names_the_file_the_reason_and_every_way_out(project: Path) -> None:
    project.chmod(0o777)
    with pytest.raises(ConfigError) as caught:
        find_config(project / "tools", environ={})
    text = str(caught.value)
    assert f"{project / 'toolrun.toml'} is not used: everybody may write to the folder {project}." in text
    assert f"--config {project / 'toolrun.toml'}" in text
    assert f"export TOOLRUN_SAFE_DIRECTORY={project}" in text
    assert f"chmod o-w {project}" in text
    assert find_config(project, environ={"TOOLRUN_SAFE_DIRECTORY": f"/nowhere:{project}"}) == project / "toolrun.toml"


def test_every_way_out_that_is_a_command_is_one(project: Path) -> None:
    spaced = project / "my folder"
    spaced.mkdir()
    spaced.chmod(0o777)
    (spaced / "toolrun.toml").touch()
    with pytest.raises(ConfigError) as caught:
        check_found(spaced / "toolrun.toml", {})
    command = str(caught.value).rpartition("make it yours alone: ")[2]
    assert os.system(command) == 0
    check_found(spaced / "toolrun.toml", {})


def test_the_folder_to_trust_is_the_one_that_a_link_leads_to(project: Path, tmp_path: Path) -> None:
    elsewhere, found = tmp_path / "elsewhere", project / "toolrun.toml"
    elsewhere.mkdir()
    (elsewhere / "real.toml").touch()
    (elsewhere / "real.toml").chmod(0o666)
    found.unlink()
    found.symlink_to(elsewhere / "real.toml")
    (project / "tools" / "four.py").symlink_to(elsewhere / "real.toml")
    for environ in ({}, {"TOOLRUN_SAFE_DIRECTORY": "/nowhere:/else"}):
        with pytest.raises(ConfigError) as caught:
            check_found(found, environ)
        (line,) = [it for it in str(caught.value).splitlines() if "trust its folder: export " in it]
        variable, _, value = line.rpartition("export ")[2].partition("=")
        assert value.split(":") == [*environ.get(variable, "").split(":")[: 2 * len(environ)], str(elsewhere)]
        check_found(found, {variable: value})
        assert f"export {variable}={value};" in refusal(project / "tools" / "four.py", project, found, environ)
        assert not refusal(project / "tools" / "four.py", project, found, {variable: value})


@pytest.mark.parametrize(
    ("owner", "command"), [(STRANGER, "sudo chown 1000 "), (0, "sudo chmod o-w "), (1000, "chmod o-w ")]
)
def test_what_only_root_may_mend_is_mended_with_sudo(
    owner: int, command: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = project / "toolrun.toml"
    fault = Fault(
        found, ControlledBy.OWNER if owner == STRANGER else ControlledBy.EVERYBODY, status(REGULAR, owner), found
    )
    monkeypatch.setattr(ownership, "current_user", lambda _: user(1000))
    monkeypatch.setattr(ownership, "find_fault", lambda *_: fault)
    with pytest.raises(ConfigError) as caught:
        check_found(found, {})
    assert f"- make it yours alone: {command}{found}" in str(caught.value)


def test_the_refusal_of_a_tool_can_be_shown_in_one_line(project: Path) -> None:
    (project / "tools").chmod(0o777)
    assert refusal(project / "tools/one.py", project, project / "toolrun.toml", {}) == (
        f"is not loaded: everybody may write to the folder {project}/tools. "
        f"If you trust it: chmod o-w {project}/tools; or export TOOLRUN_SAFE_DIRECTORY={project}; "
        f"or name the configuration: --config {project}/toolrun.toml"
    )
    assert "--config" not in refusal(project / "tools/one.py", project, None, {})


def test_a_configuration_that_is_named_is_not_questioned(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not load_config(project / "toolrun.toml", environ={}).is_found
    project.chmod(0o777)
    assert not read_config(str(project / "toolrun.toml")).is_found
    monkeypatch.chdir(project)
    with pytest.raises(ConfigError, match="everybody may write"):
        read_config(None)
    project.chmod(0o755)
    assert read_config(None).is_found


TOOL = 'from toolrun import tool\n\n@tool\ndef {name}() -> str:\n    """Says a name."""\n    return "{name}"\n'


@pytest.mark.parametrize("has_configuration", [True, False])
async def test_a_tool_in_a_folder_of_others_is_a_problem_and_the_rest_works(
    has_configuration: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "tools" / "one.py").write_text(TOOL.format(name="one"))
    (project / "tools" / "deep" / "two.py").write_text(TOOL.format(name="two"))
    (project / "tools" / "deep").chmod(0o777)
    (project / "toolrun.toml").write_text('[tools]\npython = ["tools/**/*.py"]\n[journal]\nenabled = false\n')
    if not has_configuration:
        (project / "toolrun.toml").unlink()
        (project / "tools").chmod(0o777)
    monkeypatch.chdir(project)
    async with Runtime.open() as runtime:
        assert [it.name for it in runtime.manager] == (["one"] if has_configuration else [])
        [problem] = runtime.problems
        assert "everybody may write to the folder" in problem.message
        refused = await runtime.executor.execute("two" if has_configuration else "one", {})
        assert "everybody may write" in str(refused.to_dict())
    if has_configuration:
        async with Runtime.open(project / "toolrun.toml") as runtime:
            assert sorted(it.name for it in runtime.manager) == ["one", "two"]


async def test_catalogs_and_files_with_servers_are_checked_like_tools(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = '{"name": "m", "description": "d", "implementation": {"type": "mock", "mock_response": 1}}'
    (project / "tools" / "mock.json").write_text(catalog)
    (project / "tools" / "mock.json").chmod(0o666)
    (project / "servers.json").write_text('{"mcpServers": {"x": {"command": "touch", "args": ["planted"]}}}')
    (project / "servers.json").chmod(0o666)
    (project / "toolrun.toml").write_text('[mcp]\nfiles = ["servers.json"]\n[journal]\nenabled = false\n')
    monkeypatch.chdir(project)
    async with Runtime.open() as runtime:
        assert len(runtime.manager) == 0
        assert runtime.servers == []
        assert [it.file.name for it in runtime.problems] == ["servers.json", "mock.json"]
    assert not (project / "planted").exists()


async def test_modules_are_not_imported_from_a_folder_to_which_others_can_add(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "tools" / "one.py").write_text("import planted_by_others\n" + TOOL.format(name="one"))
    (project / "planted_by_others.py").touch()
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    (project / ".").chmod(0o1777)
    monkeypatch.chdir(project)
    async with Runtime.open() as runtime:
        [problem] = runtime.problems
    assert "No module named 'planted_by_others'" in problem.message


def test_what_somebody_else_has_put_beside_a_configuration_is_no_memory_of_ours(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder such as /tmp others can make `.toolrun`, with answers and definitions that nobody has agreed to."""
    (project / "toolrun.toml").chmod(0o644)
    (project / ".toolrun").mkdir()
    found = project / "toolrun.toml"
    project.chmod(0o1777)
    check_found(found, {})
    planted = os.stat_result((FOLDER | 0o755, 1, 1, 1, STRANGER, SHARED, 0, 0, 0, 0))
    lstat = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: planted if path.name == ".toolrun" else lstat(path))
    with pytest.raises(ConfigError) as refused:
        check_found(found, {})
    assert f"{found} is not used: the folder {project / '.toolrun'} belongs to" in str(refused.value)
    assert f"do without what is in it: rm -r {project / '.toolrun'}" in str(refused.value)
    project.chmod(0o755)  # then its owner has made it, or let somebody make it
    check_found(found, {})
