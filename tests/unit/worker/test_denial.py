"""What is said of an exception behind walls, given the policy. Real walls are in tests/e2e/test_cli_sandbox.py."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolrun.worker.denial import explain

HOME = "/home/u"


def policy(project: Path | str = "/project", **more: Any) -> dict[str, Any]:
    """That of a script with the standard sandbox, in namespaces."""
    return {
        "section": "tool.weather.permissions",
        "given": {"read": [], "write": [], "env": []},
        "level": "standard",
        "read": ["/usr", "/etc"],
        "write": [str(project), "/tmp", "/dev/null"],
        "hidden": [],
        "protected": [],
        "covered": [HOME, "/run", "/tmp"],
        "home": HOME,
        "net": True,
        "hosts": None,
        "has_proxy": True,
        "run": True,
        "programs": [],
    } | more


STRICT: dict[str, Any] = {"read": ["/usr", "/etc", "/project"], "write": ["/tmp"], "net": False, "run": False}


def raised(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except BaseException as error:  # noqa: BLE001  whatever it is
        return error
    raise AssertionError("nothing was raised")


def fail(error: BaseException) -> BaseException:
    def act() -> None:
        raise error

    return raised(act)


def refuse_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the filter of system calls does, in a frame of `socket`."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    namespace: dict[str, Any] = {"__name__": "socket", "refused": refused}
    exec("class socket:\n    def __init__(self, *_, **__):\n        refused()\n", namespace)
    monkeypatch.setattr(socket, "socket", namespace["socket"])


@pytest.mark.parametrize(
    ("number", "path", "line"),
    [
        (errno.EACCES, "/home/u/data/x.csv", 'read = ["/home/u/data"]'),
        (errno.EACCES, "/home/u/x.csv", 'read = ["/home/u/x.csv"]'),
        (errno.EACCES, "/home/u/.ssh/id_rsa", 'read = ["/home/u/.ssh/id_rsa"]'),
        (errno.EACCES, '/srv/a/b/say "hi" \\ there/x', 'read = ["/srv/a/b/say \\"hi\\" \\\\ there"]'),
        (errno.EROFS, "/home/u/data/x.csv", 'write = ["/home/u/data"]'),
        (errno.EROFS, "/etc/hosts", 'write = ["/etc/hosts"]'),
        (errno.EXDEV, "/home/u/data/x.csv", 'write = ["/home/u/data"]'),
    ],
)
def test_a_refused_path_is_named_with_the_line_that_allows_it(number: int, path: str, line: str) -> None:
    said = explain(fail(OSError(number, os.strerror(number), path)), policy())
    key = line.partition(" ")[0]
    assert said == (
        f"The sandbox does not let this tool {key} {path}. "
        f"To allow it, add {line} to [tool.weather.permissions] in toolrun.toml."
    )
    assert key in tomllib.loads(line)


GIVEN = {"read": ["data", "~/more"], "write": ["out"], "env": ["HERE"]}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(errno.EACCES, "", "/home/u/data/x.csv"), 'read = ["data", "~/more", "/home/u/data"]'),
        (OSError(errno.EROFS, "", "/etc/hosts"), 'write = ["out", "/etc/hosts"]'),
        (FileNotFoundError(errno.ENOENT, "", "/home/u/data/x.csv"), 'read = ["data", "~/more", "/home/u/data"]'),
    ],
)
def test_the_line_takes_the_place_of_the_one_that_is_there(error: BaseException, line: str) -> None:
    """Two lines with the same key are no TOML."""
    said = explain(fail(error), policy(given=GIVEN))
    assert f"set {line} in [tool.weather.permissions] of toolrun.toml." in said


def test_a_variable_that_was_not_passed_on_is_named_with_the_line_that_grants_it() -> None:
    said = explain(raised(lambda: os.environ["TOOLRUN_NOT_SET"]), policy())
    assert said == (
        "A tool gets the variables that it is granted. If toolrun has TOOLRUN_NOT_SET, "
        'add env = ["TOOLRUN_NOT_SET"] to [tool.weather.permissions] in toolrun.toml.'
    )
    more = explain(raised(lambda: os.environ["TOOLRUN_NOT_SET"]), policy(given=GIVEN))
    assert 'set env = ["HERE", "TOOLRUN_NOT_SET"] in [tool.weather.permissions] of toolrun.toml.' in more
    granted = {**GIVEN, "env": ["TOOLRUN_NOT_SET"]}
    assert explain(raised(lambda: os.environ["TOOLRUN_NOT_SET"]), policy(given=granted)) == ""
    assert explain(raised(lambda: dict[str, str]()["other"]), policy()) == ""


@pytest.mark.parametrize(
    "act",
    [
        lambda: open("/etc/hostname", "w"),  # noqa: PTH123, SIM115  it fails
        lambda: Path("/etc/hostname").write_text(""),
        lambda: os.mkdir("/etc/hostname"),  # noqa: PTH102  itself the subject
        lambda: Path("/etc/a/b").mkdir(parents=True),
    ],
)
def test_a_write_outside_of_what_is_readable_is_recognised_by_the_stack(
    act: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/home/u/data/x")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    monkeypatch.setattr(os, "mkdir", refuse)
    error = raised(act)
    monkeypatch.undo()
    assert 'write = ["/home/u/data"]' in explain(_without_last_frame(error), policy())


def _without_last_frame(error: BaseException) -> BaseException:
    """A refusal of the kernel has no frame of its own."""
    place = error.__traceback__
    frames = []
    while place is not None and place.tb_next is not None:
        frames.append(place)
        place = place.tb_next
    following = None
    for it in reversed(frames):
        following = type(it)(following, it.tb_frame, it.tb_lasti, it.tb_lineno)
    return error.with_traceback(following)


def test_what_is_readable_but_not_writable_was_to_be_written() -> None:
    said = explain(PermissionError(errno.EACCES, "", "/etc/hostname"), policy())
    assert 'add write = ["/etc/hostname"]' in said
    said = explain(OSError(errno.EROFS, "", "/project/out/x"), policy(**STRICT))
    assert 'add write = ["/project/out"]' in said


def test_protected_places_are_granted_as_a_whole() -> None:
    said = explain(OSError(errno.EROFS, "", "/project/.git/config"), policy(protected=["/project/.git/config"]))
    assert 'add write = ["/project/.git/config"]' in said


def test_what_is_hidden_from_every_tool_cannot_be_granted() -> None:
    error = FileNotFoundError(errno.ENOENT, "", "/project/.toolrun/journal.db")
    assert explain(error, policy(hidden=["/project/.toolrun"])) == (
        "The sandbox hides /project/.toolrun/journal.db from every tool."
    )


def test_a_missing_file_in_a_place_that_looks_empty_may_exist() -> None:
    assert explain(FileNotFoundError(errno.ENOENT, "", "/home/u/data/x.csv"), policy()) == (
        "The sandbox hides what is below /home/u from this tool. If /home/u/data/x.csv exists, "
        'add read = ["/home/u/data"] to [tool.weather.permissions] in toolrun.toml.'
    )
    said = explain(FileNotFoundError(errno.ENOENT, "", "/tmp/x.csv"), policy())
    assert said.startswith("The sandbox gives this tool a /tmp of its own, without the files of other programs. If ")
    said = explain(FileNotFoundError(errno.ENOENT, "", "/srv/a/x"), policy(covered=["/"]))
    assert said.startswith("The sandbox hides most files from this tool. If /srv/a/x exists, add read = ")


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/home/u/data/x")
    said = explain(FileNotFoundError(errno.ENOENT, "", str(tmp_path / "link")), policy(tmp_path))
    assert "If /home/u/data/x exists" in said


def test_two_roots_are_two_file_systems() -> None:
    error = OSError(errno.EXDEV, "", "/tmp/x", None, "/project/x")
    assert explain(error, policy()) == (
        "In the sandbox, /tmp and /project are two file systems. shutil.move copies from one to the other."
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("/home/u/data"),
        FileNotFoundError(errno.ENOENT, "", "/project/missing"),
        FileNotFoundError(errno.ENOENT, "", "/etc/missing"),
        FileNotFoundError(errno.ENOENT, "", "git"),
        PermissionError(errno.EACCES, "", "/project/chmod-000"),
        OSError(errno.EROFS, "", "/project/x"),
        OSError(errno.EXDEV, "", "/project/a", None, "/project/b"),
        PermissionError(errno.EPERM, "", "/project/x"),
        PermissionError(errno.EACCES, ""),
        PermissionError(errno.EACCES, "", 7),
        socket.gaierror(-3, "Temporary failure in name resolution"),
        ConnectionRefusedError(errno.ECONNREFUSED, ""),
        OSError("Tunnel connection failed: 403 Forbidden by the sandbox"),
        BaseExceptionGroup("two", [PermissionError(errno.EACCES, "", "/home/u/x"), ValueError()]),
    ],
)
def test_nothing_is_said_of_what_has_another_reason(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")  # where `git` is not below a covered place
    assert explain(error, policy(write=["/project", "/tmp", "/git"])) == ""


def test_a_missing_file_is_missing_where_nothing_is_covered() -> None:
    assert explain(FileNotFoundError(errno.ENOENT, "", "/home/u/data/x.csv"), policy(covered=[])) == ""


def test_a_file_that_its_mode_forbids_is_not_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.touch()
    error = PermissionError(errno.EACCES, "", str(file))
    readable = policy(read=[str(tmp_path)], write=[])
    assert "write = " in explain(error, readable)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert explain(error, readable) == ""
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    monkeypatch.setattr(os, "getegid", lambda: file.stat().st_gid + 1)
    monkeypatch.setattr(os, "getgroups", list)
    assert explain(error, readable) == ""


def test_chains_and_groups_are_looked_through() -> None:
    inner = PermissionError(errno.EACCES, "", "/home/u/data/x")
    line = 'read = ["/home/u/data"]'
    cause, context, none = ValueError(), ValueError(), ValueError()
    cause.__cause__ = inner
    context.__context__ = cause
    none.__context__, none.__suppress_context__ = inner, True
    assert line in explain(cause, policy())
    assert line in explain(context, policy())
    assert explain(none, policy()) == ""
    assert line in explain(BaseExceptionGroup("one", [inner]), policy())
    assert line in explain(BaseExceptionGroup("two", [inner, inner]), policy())
    cause.__cause__, inner.__context__ = inner, cause  # a circle
    assert line in explain(cause, policy())


def test_an_exception_that_cannot_be_asked_is_no_obstacle() -> None:
    class Odd(OSError):
        @property
        def filename(self) -> str:
            raise RuntimeError

    assert explain(Odd(errno.EACCES, ""), policy()) == ""


@pytest.mark.parametrize(
    ("section", "shown"),
    [
        ("tool.a-b_1.permissions", "[tool.a-b_1.permissions]"),
        ("tool.two words.permissions", '[tool."two words".permissions]'),
        ("tool.a.b.permissions", '[tool."a.b".permissions]'),
        ('tool."a.b".permissions', '[tool."a.b".permissions]'),
    ],
)
def test_the_section_is_toml(section: str, shown: str) -> None:
    said = explain(PermissionError(errno.EACCES, "", "/home/u/x"), policy(section=section))
    found = re.search(r"\[tool.*permissions\]", said)
    assert found is not None
    assert found[0] == shown
    assert list(tomllib.loads(shown)) == ["tool"]


def test_a_name_that_is_no_text_is_not_suggested() -> None:
    assert explain(PermissionError(errno.EACCES, "", os.fsdecode(b"/home/u/\xff")), policy()) == ""


# Programs.


def test_a_program_that_may_not_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").touch()  # which is not executable: the same error
    error = raised(lambda: subprocess.run(["git"], env={"PATH": str(tmp_path)}, check=False))
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert explain(error, policy(**STRICT)) == (
        "The sandbox does not let this tool start git. "
        'To allow it, add run = ["git"] to [tool.weather.permissions] in toolrun.toml.'
    )
    said = explain(error, policy(**STRICT | {"programs": ["/usr/bin/jq"]}))
    assert 'set run = ["/usr/bin/jq", "git"] in [tool.weather.permissions] of toolrun.toml.' in said
    granted = str(Path("/bin/git").resolve())
    assert explain(error, policy(**STRICT | {"programs": [granted]})) == ""
    assert explain(error, policy()) == ""


def test_a_program_that_cannot_be_seen_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "git").touch()
    program = str(tmp_path / "git")
    starts: list[Callable[[], object]] = [
        lambda: subprocess.run([program], check=False),
        lambda: os.posix_spawn(program, ["git"], {}),
    ]
    for start in starts:
        assert explain(raised(start), policy(tmp_path)) == ""
        assert f'add read = ["{tmp_path}"]' in explain(raised(start), policy(write=[]))


def test_the_directory_of_a_program_is_a_path() -> None:
    error = raised(lambda: subprocess.run(["true"], cwd="/home/u/data/x", check=False))
    assert explain(error, policy(**STRICT)).startswith("The sandbox hides what is below /home/u from this tool. If ")


# The network.


def test_without_network_a_name_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr("_socket.getaddrinfo", refused)
    error = raised(lambda: socket.create_connection(("api.example.com", 443)))
    assert explain(error, policy(**STRICT)) == (
        "The sandbox does not let this tool reach api.example.com:443. "
        "To allow it, add net = true to [tool.weather.permissions] in toolrun.toml."
    )
    import urllib.request

    monkeypatch.setattr(urllib.request, "getproxies", dict)
    error = raised(lambda: urllib.request.build_opener().open("https://api.example.com/"))
    assert 'add net = ["api.example.com:443"] to' in explain(error, policy(**STRICT))
    assert "add net = true to" in explain(error, policy(**STRICT | {"has_proxy": False}))
    assert explain(error, policy()) == ""


def test_without_network_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_socket(monkeypatch)
    error = raised(lambda: socket.socket())
    assert explain(error, policy(**STRICT)).startswith("The sandbox does not let this tool use the network. ")
    assert explain(error, policy()) == ""


@pytest.mark.parametrize("error", [ConnectionRefusedError(errno.ECONNREFUSED, ""), OSError(errno.ENETUNREACH, "")])
def test_with_a_list_of_hosts_nothing_is_reached_directly(error: OSError) -> None:
    def connect(host: str, port: int) -> None:
        raise error

    said = explain(raised(lambda: connect("10.0.0.1", 5432)), policy(hosts=["example.com:443"]))
    assert said == (
        "The sandbox lets this tool reach the hosts in net through the proxy that HTTPS_PROXY names, and nothing "
        "directly, so not 10.0.0.1:5432. To allow it, set net = true in [tool.weather.permissions] of toolrun.toml."
    )


def test_a_host_that_the_proxy_refuses_is_named_with_the_whole_list() -> None:
    class Connection:
        """As that of `http.client`."""

        _tunnel_host, _tunnel_port = "other.com", 443

        def connect(self) -> None:
            raise OSError("Tunnel connection failed: 403 Forbidden by the sandbox")

    def ask() -> None:
        try:
            Connection().connect()
        except OSError as error:
            raise ValueError(f"<urlopen error {error}>") from error

    hosts = ["example.com:443"]
    assert explain(raised(ask), policy(hosts=hosts)) == (
        "The sandbox does not let this tool reach other.com:443. To allow it, "
        'set net = ["example.com:443", "other.com:443"] in [tool.weather.permissions] of toolrun.toml.'
    )
    assert "the name leads to an address of this machine" in explain(raised(ask), policy(hosts=["other.com:443"]))


def test_the_url_of_an_exception_names_the_host() -> None:
    class Refused(Exception):
        """As httpx and requests have it."""

        class request:
            url = "http://other.com/path"

    error = Refused("Client error '403 Forbidden by the sandbox' for url 'http://other.com/path'")
    assert 'net = ["other.com:80"]' in explain(error, policy(hosts=[]))
    assert "reach the host. To allow it, add it to net in [" in explain(
        ValueError("403 Forbidden by the sandbox"), policy(hosts=[])
    )


def test_a_system_call_that_is_refused_cannot_be_granted() -> None:
    said = explain(PermissionError(errno.EPERM, "Operation not permitted"), policy())
    assert said.startswith("The sandbox refuses system calls")
    assert said.endswith("No permission allows it.")
