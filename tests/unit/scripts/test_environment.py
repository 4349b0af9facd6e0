"""How environments are made, shared and given up, with a uv that does as it is told. The real one: tests/contract."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uv

from support.environments import LIMIT, header, no_processes_left, open_gate, requirements, runs, write_uv
from toolrun.errors import CallError, ErrorKind, SideEffects
from toolrun.scripts import environment
from toolrun.scripts.environment import Environments, ScriptEnvironmentError, read_requirements
from toolrun.scripts.uv import clean_variables, readable

HOST = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
SIX = requirements('dependencies = ["six"]')


@pytest.fixture(autouse=True)
def processes(tmp_path: Path) -> Iterator[None]:
    with no_processes_left(tmp_path):
        yield


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace uv by shell commands."""

    def replace(body: str) -> None:
        path = write_uv(tmp_path, body)
        monkeypatch.setattr(uv, "find_uv_bin", lambda: str(path))

    return replace


@asynccontextmanager
async def opened(tmp_path: Path, **options: object) -> AsyncIterator[Environments]:
    environments = Environments(tmp_path / "cache", **({"variables": HOST} | options))  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT):
        yield environments
        await environments.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"the test left tasks behind: {left}"


async def failure(tmp_path: Path, **options: object) -> str:
    async with opened(tmp_path, **options) as environments:
        with pytest.raises(ScriptEnvironmentError) as raised:
            await environments.interpreter(SIX)
        assert environments.known(SIX) is None
    assert raised.value.kind is ErrorKind.UNAVAILABLE
    assert raised.value.side_effects is SideEffects.NOT_STARTED
    assert not list((tmp_path / "cache").rglob("venv-*")), "nothing is left of a making that failed"
    return str(raised.value)


# requirements


@pytest.mark.parametrize(
    "source",
    [
        header('dependencies=["six"]'),
        header('dependencies = ["six"] # as it was'),
        header('dependencies = ["six"]', 'requires-python = ""'),
        header('dependencies = ["six"]', "[tool.toolrun]", "timeout = 5"),
        header('dependencies = ["six"]') + "import six\n",
        header('dependencies = ["six"]').replace("\n", "\r\n"),
    ],
)
def test_what_does_not_decide_an_environment_does_not_change_its_key(source: str) -> None:
    assert read_requirements(source, None) == SIX


def test_whatever_decides_an_environment_changes_its_key() -> None:
    different = [
        SIX,
        requirements("dependencies = []"),
        requirements('dependencies = ["six", "iniconfig"]'),
        requirements('dependencies = ["six"]', 'requires-python = ">=3.9"'),
        requirements('dependencies = ["six"]', "[tool.uv]", 'exclude-newer = "2024-01-01T00:00:00Z"'),
        requirements('dependencies = ["six"]', "[tool.uv]", "exclude-newer = 2024-01-02T00:00:00Z"),
        requirements('dependencies = ["six"]', lock=b""),
        requirements('dependencies = ["six"]', lock=b"version = 1"),
    ]
    assert len({it.key for it in different}) == len(different)
    assert len(set(different)) == len(different)


def test_the_metadata_is_there_as_a_whole() -> None:
    found = requirements('dependencies = ["six"]', "[tool.toolrun]", "timeout = 5")
    assert found.metadata == {"dependencies": ["six"], "tool": {"toolrun": {"timeout": 5}}}


@pytest.mark.parametrize(
    "source",
    ["", "import six\n", header("dependencies = ["), header('dependencies = "six"'), header('a = "\udc80"')],
)
def test_a_script_without_readable_metadata_has_no_requirements(source: str) -> None:
    assert read_requirements(source, None) is None


# one making


async def test_the_environment_is_made_once_and_then_known(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        assert environments.known(SIX) is None
        interpreter = await environments.interpreter(SIX)
        assert interpreter.is_relative_to(tmp_path / "cache" / "environments" / SIX.key)
        assert environments.known(SIX) == interpreter == await environments.interpreter(SIX)
    assert len(runs(tmp_path)) == 1
    async with opened(tmp_path) as others:
        assert others.known(SIX) == interpreter


async def test_fifty_first_callers_share_one_making(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        found = await asyncio.gather(*(environments.interpreter(SIX) for _ in range(50)))
    assert len(set(found)) == 1
    assert len(runs(tmp_path)) == 1


async def test_all_who_wait_hear_of_the_failure_and_the_next_call_tries_again(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake("exit 2")
    async with opened(tmp_path) as environments:
        failures = await asyncio.gather(*(environments.interpreter(SIX) for _ in range(5)), return_exceptions=True)
        assert [type(it) for it in failures] == [ScriptEnvironmentError] * 5
        fake("make_venv")
        assert (await environments.interpreter(SIX)).exists()
    assert len(runs(tmp_path)) == 2


async def test_different_requirements_are_made_at_the_same_time(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake('make_venv; echo . > "$here/met"; read -r _ < "$here/met"')  # each waits for the other at the pipe
    os.mkfifo(tmp_path / "met")
    other = requirements('dependencies = ["iniconfig"]')
    keeper = os.open(tmp_path / "met", os.O_RDWR)
    try:
        async with opened(tmp_path) as environments:
            await asyncio.gather(environments.interpreter(SIX), environments.interpreter(other))
    finally:
        os.close(keeper)
    assert environments.known(SIX) != environments.known(other)


# giving up


async def test_the_cancellation_of_one_waiter_does_not_touch_the_others(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake('echo started > "$here/gate"; make_venv; read -r _ < "$here/go"')
    os.mkfifo(tmp_path / "go")
    async with open_gate(tmp_path / "gate") as gate, opened(tmp_path) as environments:
        first, second = (asyncio.create_task(environments.interpreter(SIX)) for _ in range(2))
        await gate.started()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        assert await second == environments.known(SIX)
    assert len(runs(tmp_path)) == 1


HANGING = 'exec 9> "$here/gate"; make_venv; (sleep 1000) & echo started >&9; wait'


async def test_uv_and_its_children_are_killed_when_the_last_waiter_is_cancelled(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake(HANGING)
    async with open_gate(tmp_path / "gate") as gate, opened(tmp_path) as environments:
        waiters = [asyncio.create_task(environments.interpreter(SIX)) for _ in range(3)]
        await gate.started()
        for waiter in waiters:
            waiter.cancel()
        ends = await asyncio.gather(*waiters, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await gate.ended()
        assert environments.known(SIX) is None
        assert not list((tmp_path / "cache").rglob("venv-*"))
        fake("make_venv")
        assert (await environments.interpreter(SIX)).exists()


async def test_who_comes_while_a_making_is_given_up_gets_a_new_one(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake(HANGING)
    async with open_gate(tmp_path / "gate") as gate, opened(tmp_path) as environments:
        waiter = asyncio.create_task(environments.interpreter(SIX))
        await gate.started()
        fake("make_venv")
        waiter.cancel()
        late = asyncio.create_task(environments.interpreter(SIX))
        assert (await late).exists()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await gate.ended()


async def test_close_ends_what_is_under_way_and_says_so_to_who_waits(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake(HANGING)
    async with open_gate(tmp_path / "gate") as gate, opened(tmp_path) as environments:
        waiter = asyncio.create_task(environments.interpreter(SIX))
        await gate.started()
        await environments.close()
        with pytest.raises(ScriptEnvironmentError, match="closing"):
            await waiter
        await gate.ended()
        with pytest.raises(ScriptEnvironmentError, match="closing"):
            await environments.interpreter(SIX)
        await environments.close()
    assert len(runs(tmp_path)) == 1


@pytest.mark.parametrize("steps", range(40))
async def test_a_cancellation_at_any_moment_leaves_nothing_and_harms_nobody(
    tmp_path: Path, fake: Callable[[str], None], steps: int
) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        waiter = asyncio.create_task(environments.interpreter(SIX))
        for _ in range(steps):
            await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        assert (await environments.interpreter(SIX)).exists()


async def test_a_process_that_left_the_group_and_holds_the_output_does_not_keep_the_caller(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    left = 'exec 9> "$0/gate"; echo $$ >&9; echo > "$0/left"; exec sleep 1000'
    fake(f'make_venv; setsid sh -c \'{left}\' "$here" & read -r _ < "$here/left"')
    os.mkfifo(tmp_path / "left")
    async with open_gate(tmp_path / "gate") as gate, opened(tmp_path) as environments:
        interpreter, pid = await asyncio.gather(environments.interpreter(SIX), gate.started())
        assert interpreter.exists()
        os.kill(int(pid), signal.SIGKILL)
        await gate.ended()


# what is on disk


async def test_an_environment_whose_interpreter_is_gone_is_made_anew(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        first = await environments.interpreter(SIX)
        first.unlink()
        assert environments.known(SIX) is None
        second = await environments.interpreter(SIX)
    assert second.exists()
    assert not first.parent.exists()


@pytest.mark.parametrize("content", [b"", b"venv-0", b"../../..", b"venv-01234567\n", b"\xff\xfe", b"venv-01234567"])
async def test_half_an_environment_never_counts_as_complete(
    tmp_path: Path, fake: Callable[[str], None], content: bytes
) -> None:
    home = tmp_path / "cache" / "environments" / SIX.key
    half = home / "venv-89abcdef" / "bin"
    half.mkdir(parents=True)
    (half / "python").symlink_to("/bin/sh")
    (home / "complete").write_bytes(content)
    (home / "complete.venv-89abcdef").write_bytes(content)
    fake("make_venv")
    async with opened(tmp_path) as environments:
        assert environments.known(SIX) is None
        interpreter = await environments.interpreter(SIX)
    assert interpreter.parent != half
    assert sorted(it.name for it in home.iterdir()) == [
        "complete",
        "lock",
        "script.py",
        "used",
        interpreter.parts[-3],
    ]


async def test_uv_reads_a_copy_of_the_block_and_of_the_lock_file(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake('make_venv; cat "$3" "$3.lock" > "$here/seen"')
    lines = ('dependencies = ["six"]', "[tool.x]", 'text = """', "///", "", "  indented  ", '"""')
    source = f"import os\n{header(*lines)}".replace("# \n", "#\n")
    wanted = read_requirements(source, b"the lock\n")
    assert wanted is not None
    async with opened(tmp_path) as environments:
        await environments.interpreter(wanted)
    assert (tmp_path / "seen").read_text() == header(*lines).replace("# \n", "#\n") + "the lock\n"


async def test_a_uv_that_makes_no_interpreter_is_a_failure(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("exit 0")
    assert "uv made no interpreter" in await failure(tmp_path)


async def test_a_cache_that_cannot_be_written_is_a_failure_that_names_it(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    (tmp_path / "cache").write_text("a file")
    assert str(tmp_path / "cache") in await failure(tmp_path)


# how uv is run


async def test_uv_is_told_what_is_allowed(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("make_venv")
    locked = requirements('dependencies = ["six"]', lock=b"")
    async with opened(tmp_path) as environments:
        await environments.interpreter(SIX)
    async with opened(tmp_path, allow_build=True, offline=True) as environments:
        await environments.interpreter(locked)
    careful, allowed = runs(tmp_path)
    assert "--no-build" in careful
    assert "--offline" not in careful
    assert "--locked" not in careful
    assert "--no-build" not in allowed
    assert "--offline" in allowed
    assert "--locked" in allowed


async def test_a_script_for_another_python_gets_the_one_that_uv_finds(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake('case "$1" in python) echo /opt/other/python;; *) make_venv;; esac')
    other = requirements('requires-python = ">=3.99"')
    async with opened(tmp_path) as environments:
        await environments.interpreter(other)
    find, sync = runs(tmp_path)
    assert find.startswith("python find --script ")
    assert "--python /opt/other/python" in sync


async def test_uv_may_download_a_python_if_the_user_says_so(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("make_venv")
    async with opened(tmp_path, variables=HOST | {"UV_PYTHON_DOWNLOADS": "automatic"}) as environments:
        await environments.interpreter(requirements('requires-python = ">=3.99"'))
    (sync,) = runs(tmp_path)
    assert "--python" not in sync


async def test_uv_sees_no_variables_but_those_that_it_needs_and_the_extra_ones(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake('make_venv; env > "$here/seen"')
    host = HOST | {"ANTHROPIC_API_KEY": "secret", "UV_PUBLISH_TOKEN": "secret", "UV_INDEX": "https://index"}
    async with opened(tmp_path, variables=host, extra={"NETRC": "/netrc"}) as environments:
        await environments.interpreter(SIX)
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    del seen["PWD"]  # the shell's own
    seen.pop("_", None)
    venv = seen.pop("VIRTUAL_ENV")
    assert Path(venv, "bin/python") == environments.known(SIX)
    assert seen == HOST | {
        "UV_INDEX": "https://index",
        "NETRC": "/netrc",
        "NO_COLOR": "1",
        "UV_COMPILE_BYTECODE": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def test_variables_are_passed_by_name() -> None:
    passed = dict.fromkeys(("PATH", "HOME", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "UV_CACHE_DIR"), "x")
    passed |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"), "x")
    withheld = dict.fromkeys(("UV_PUBLISH_PASSWORD", "UV_LOCKED", "UV_FROZEN", "UV_PYTHON", "UV_WORKING_DIR"), "x")
    withheld |= dict.fromkeys(("PYTHONPATH", "VIRTUAL_ENV", "AWS_SECRET_ACCESS_KEY", "XPATH", "MY_UV_X", "uv_x"), "x")
    ours = {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
    assert clean_variables(passed | withheld, {}) == passed | ours | {"UV_PYTHON_DOWNLOADS": "never"}
    assert clean_variables({"UV_PYTHON_DOWNLOADS": ""}, {}) == ours | {"UV_PYTHON_DOWNLOADS": "never"}
    assert clean_variables({"UV_PYTHON_DOWNLOADS": "manual"}, {"A": "1"}) == ours | {
        "UV_PYTHON_DOWNLOADS": "manual",
        "A": "1",
    }


async def test_progress_is_passed_on_line_by_line_without_colours_and_without_the_error(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    fake(r'printf "Resolved \033[1m1 package\033[0m\n\n + six==1.17\nerror: no\n  cause: none\n" >&2; exit 1')
    lines: list[str] = []
    assert "uv says: no\n  cause: none" in await failure(tmp_path, on_progress=lines.append)
    assert lines == ["Resolved 1 package", "+ six==1.17"]


async def test_a_flood_of_output_is_read_and_dropped(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("head -c 8000000 /dev/zero | tr '\\0' x >&2; head -c 8000000 /dev/zero; make_venv")
    async with opened(tmp_path) as environments:
        assert (await environments.interpreter(SIX)).exists()


# failures


@pytest.mark.parametrize(
    ("said", "advised"),
    [
        ("error: No space left on device (os error 28)", "the disk is full"),
        ("error: failed to create directory: Permission denied (os error 13)", "cannot be written"),
        ("error: No interpreter found for Python >=3.99", "uv python install"),
        ("error: Failed\n  cause: Building source distributions for `spy` is disabled", "allow_build"),
        ("error: no\n  cause: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("error: no\n  cause: HTTP status client error (401 Unauthorized)", "credentials"),
        ("error: no\n  cause: dns error", "Check the network"),
        ("  × No solution found when resolving dependencies:\n  ╰─▶ Because six", "Change their versions"),
        ("error: something new", "it failed"),
        ("", "uv says: nothing"),
    ],
)
async def test_a_failure_has_the_words_of_uv_and_what_to_do(
    tmp_path: Path, fake: Callable[[str], None], said: str, advised: str
) -> None:
    (tmp_path / "said").write_text(f"Creating script environment at: x\n{said}\n")
    fake('cat "$here/said" >&2; make_venv; exit 2' if said else "exit 2")
    message = await failure(tmp_path)
    assert message.startswith("Cannot create the environment of a script that needs six: ")
    assert advised in message
    assert "Creating script environment" not in message
    assert said.splitlines()[-1].split(" ", 1)[-1].strip("╰─▶ ") in message if said else True


async def test_a_uv_that_is_killed_is_named_with_the_signal(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("kill -KILL $$")
    assert "killed by SIGKILL" in await failure(tmp_path)


async def test_a_missing_uv_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("not in any of 5 places")

    monkeypatch.setattr(uv, "find_uv_bin", missing)
    assert "python -m pip install uv" in await failure(tmp_path)


@pytest.mark.parametrize("mode", [None, 0o644])
async def test_a_uv_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None
) -> None:
    path = tmp_path / "uv"
    if mode is not None:
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(path))
    assert "uv cannot be started" in await failure(tmp_path)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ('sources = { six = { path = "../six" } }', "../six"),
        ('sources = { six = [{ path = "lib", marker = "x" }] }', "lib"),
        ('index = [{ url = "./wheels" }]', "./wheels"),
        ('find-links = ["wheels"]', "wheels"),
        ('index-url = "simple"', "simple"),
        ('extra-index-url = ["https://host/simple", "./simple"]', "./simple"),
    ],
)
async def test_a_path_that_is_relative_to_the_script_is_refused(
    tmp_path: Path, fake: Callable[[str], None], settings: str, path: str
) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        with pytest.raises(ScriptEnvironmentError, match="absolute path") as raised:
            await environments.interpreter(requirements('dependencies = ["six"]', "[tool.uv]", settings))
    assert repr(path) in str(raised.value)
    assert isinstance(raised.value, CallError)
    assert runs(tmp_path) == []


@pytest.mark.parametrize(
    "settings", ["sources = 1", "index = 1", "find-links = 1", "index-url = 1", 'sources = ["x"]', "sources.x = 1"]
)
async def test_settings_of_the_wrong_type_are_left_to_uv(
    tmp_path: Path, fake: Callable[[str], None], settings: str
) -> None:
    fake("make_venv")
    async with opened(tmp_path) as environments:
        await environments.interpreter(requirements("[tool.uv]", settings))


async def test_a_password_in_a_requirement_is_not_shown(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("exit 2")
    wanted = requirements('dependencies = ["a @ https://me:s3cret@host/a.whl", "b", "c", "d"]')
    async with opened(tmp_path) as environments:
        with pytest.raises(ScriptEnvironmentError) as raised:
            await environments.interpreter(wanted)
    assert "needs a, b, c and 1 more:" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    text = readable("error: the start\n" + "noise\n" * 10_000 + "the end\n")
    assert text.startswith("the start\n")
    assert text.endswith("\nthe end")
    assert len(text) < 2000


def test_an_environment_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("toolrun.scripts.environment.read_regular_file", no_descriptor)
    with pytest.raises(OSError, match="Too many open files"):
        environment._find(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "socket", "link to nothing"])
async def test_whatever_has_the_name_of_the_lock_does_not_hold_the_loop(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "lock", tmp_path / "other"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        if "link" in kind:
            path.symlink_to(other)
        if "pipe" in kind:
            os.mkfifo(other if "link" in kind else path)
    for _ in range(2):
        async with asyncio.timeout(LIMIT), environment._locked(path, lambda _: None):
            assert path.is_file()


async def test_a_directory_with_the_name_of_the_lock_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        async with environment._locked(tmp_path, lambda _: None):
            pass
