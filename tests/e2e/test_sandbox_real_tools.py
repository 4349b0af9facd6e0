"""Real tools behind the walls: nothing has to be granted by default, and `strict` needs what the table below says.

The table is that of docs/security.md. The scripts are in tests/scripts/real_tools.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from threading import Thread

import pytest

from support.console import CACHE, ROOT
from support.packages import MissingError, give_up
from toolrun import Runtime, ToolResult
from toolrun.processes.sandbox.system_support import (
    RUNGS,
    SystemSupport,
    find_support,
    gaps,
    landlock_abi,
    remember_support,
)
from toolrun.scripts.environment import ScriptEnvironmentError

SCRIPTS = ROOT / "tests" / "scripts" / "real_tools"
PAGE = ROOT / "docs" / "security.md"
WRITES = 'write = ["out"]'


@dataclass(frozen=True)
class Row:
    """A tool, and what `strict` has to grant to it."""

    title: str
    function: str
    expected: object
    """The result, or a function that says whether it is right."""
    grants: str = ""
    """The lines of its section of permissions."""
    script: str = "everyday"
    needs_namespaces: bool = False


TABLE = (
    Row("numpy, with its threads", "numpy_solve", 150.0),
    Row("pandas, a CSV file of the project", "pandas_table", {"ground": 30, "upper": 12}),
    Row("Pillow, a picture in `out/`", "pillow_image", [40, 20], WRITES),
    Row("matplotlib, a figure in `out/`", "matplotlib_figure", "PNG", WRITES),
    Row("httpx, any host", "httpx_get", "hello from loopback", "net = true"),
    Row(
        "httpx, one host through the proxy",
        "httpx_get_in_a_host_list",
        "hello from loopback",
        'net = ["127.0.0.1:*"]',
        needs_namespaces=True,
    ),
    Row("a server on loopback", "asyncio_server", "hello", "net = true"),
    Row("a program, with `subprocess`", "run_program", "Linux", 'run = ["uname"]'),
    Row("a program, with `asyncio`", "asyncio_subprocess", "Linux", 'run = ["uname"]'),
    Row("a pipe of the shell", "run_shell", "HELLO", 'run = ["sh", "tr"]'),
    Row("git, a repository in `out/`", "git_commit", "First", f'{WRITES}\nrun = ["git", "/usr/lib/git-core"]'),
    Row("SQLite with a write-ahead log, in `out/`", "sqlite_wal", ["wal", "kept"], WRITES),
    Row("`multiprocessing`, fork", "multiprocessing_fork", [1, 4, 9]),
    Row("`multiprocessing`, spawn", "multiprocessing_spawn", [1, 2, 6]),
    Row("`multiprocessing`, fork server", "multiprocessing_forkserver", [1, 2, 6]),
    Row("`multiprocessing`, manager", "multiprocessing_manager", {"answer": 42}),
    Row("shared memory", "shared_memory", 42),
    Row("temporary files", "temporary_files", ["hello", "again"]),
    Row("time zones", "time_zones", "2026-07-01T12:00:00+02:00"),
    Row("the system's certificates", "ssl_certificates", lambda number: number > 0),
    Row("locales", "locale_names", "UTF-8"),
    Row("the user's name, the number of cores", "users_and_cores", lambda found: all(number > 0 for number in found)),
    Row("a pseudo-terminal", "terminal", "hello"),
    Row("a file in the project, moved", "write_to_the_project", "kept", 'write = ["."]'),
)
MODEL = Row("a local model (llama.cpp)", "local_model", lambda tokens: 1 <= tokens <= 4, "net = true", "local_model")


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"hello from loopback"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(30)


@pytest.fixture(params=["namespaces", "bubblewrap", "landlock"])
def rung(request: pytest.FixtureRequest) -> str:
    """Each rung that works here."""
    wanted, found = str(request.param), find_support(CACHE)
    if RUNGS.index(wanted) > RUNGS.index(found.rung):
        pytest.skip(f"this system does not allow {wanted}: {found.refused.get(wanted)}")
    if wanted == "bubblewrap" and shutil.which("bwrap") is None:
        give_up(MissingError("bwrap is not there"), "bubblewrap")
    return wanted


def cache_of(rung: str) -> Path:
    """A cache for the environments of the scripts in which toolrun finds that this rung is the highest."""
    cache = CACHE.with_name(f"toolrun-{rung}")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_support(cache).rung != rung:
            remember_support(cache, SystemSupport(rung, landlock_abi()))
    return cache


def write_project(project: Path, row: Row, rung: str, level: str, grants: str) -> Path:
    """The script of a row in a project of its own. Returns its configuration."""
    (project / "tools").mkdir(parents=True)
    (project / "out").mkdir()
    shutil.copy(SCRIPTS / f"{row.script}.py", project / "tools")
    (project / "rooms.csv").write_text("floor,area\nground,10\nground,20\nupper,12\n")
    settings = f"""
        [workers]
        sandbox = "{level}"
        cache = "{cache_of(rung)}"
        [tool.{row.script}.permissions]
        {grants}
    """
    (project / "toolrun.toml").write_text(dedent(settings))
    return project / "toolrun.toml"


async def call(config: Path, row: Row, url: str) -> tuple[ToolResult, str]:
    """The answer of the tool, and what enforced its sandbox."""
    name = row.function if row.function == row.script else f"{row.script}.{row.function}"
    with chdir(config.parent):  # where the paths of the tools begin
        async with Runtime.open(config, lazy=True) as runtime:
            try:
                await runtime.scripts[0].prepare()
            except ScriptEnvironmentError as error:
                give_up(MissingError(str(error)), "the packages of the script")
            result = await runtime.executor.execute(name, {"url": url} if "httpx" in name else {}, timeout=60)
            workers = [worker for script in runtime.scripts for worker in script.pool.workers]
            infos = [info.sandbox for worker in workers if (info := worker.describe()) is not None]
            return result, infos[0] if infos else ""


def check(row: Row, result: ToolResult) -> None:
    assert result.success, f"{result.error}"
    is_right = row.expected(result.result) if callable(row.expected) else result.result == row.expected
    assert is_right, result.result


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.function)
async def test_it_works_by_default_without_a_grant(row: Row, rung: str, url: str, tmp_path: Path) -> None:
    result, enforced = await call(write_project(tmp_path / "project", row, rung, "standard", ""), row, url)
    check(row, result)
    assert enforced == rung


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.function)
async def test_it_works_in_strict_with_the_grants_of_the_table(row: Row, rung: str, url: str, tmp_path: Path) -> None:
    result, enforced = await call(write_project(tmp_path / "project", row, rung, "strict", row.grants), row, url)
    if row.needs_namespaces and rung != "namespaces":
        assert "needs the sandbox 'namespaces'" in str(result.error)
        return
    check(row, result)
    assert enforced == rung


@pytest.mark.parametrize("row", [row for row in TABLE if row.grants], ids=lambda row: row.function)
async def test_strict_stops_it_without_them(row: Row, rung: str, url: str, tmp_path: Path) -> None:
    result, _ = await call(write_project(tmp_path / "project", row, rung, "strict", ""), row, url)
    assert not result.success


@pytest.mark.parametrize(("grants", "name"), [("", ""), ('read = ["~/.gitconfig"]', "Ada")], ids=["hidden", "granted"])
async def test_git_reads_the_users_configuration_if_that_is_granted(
    grants: str, name: str, rung: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", os.environ.get("UV_CACHE_DIR", f"{os.environ['HOME']}/.cache/uv"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\nname = Ada\n")
    row = Row("", "git_name", name)
    result, _ = await call(write_project(tmp_path / "project", row, rung, "standard", grants), row, "")
    check(row, result)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("level", "grants"), [("standard", ""), ("strict", MODEL.grants)])
async def test_a_local_model_answers(level: str, grants: str, tmp_path: Path) -> None:
    rung = find_support(CACHE).rung
    result, enforced = await call(write_project(tmp_path / "project", MODEL, rung, level, grants), MODEL, "")
    check(MODEL, result)
    assert enforced == rung


def part(heading: str) -> str:
    """A section of the page."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_table_of_the_page_is_this_one() -> None:
    shown = [line for line in part("What strict needs").splitlines() if line.startswith("| ")][1:]
    grants = [", ".join(f"`{line}`" for line in row.grants.splitlines()) or "nothing" for row in (*TABLE, MODEL)]
    assert shown == [f"| {row.title} | {needed} |" for row, needed in zip((*TABLE, MODEL), grants, strict=True)]


@pytest.mark.parametrize("rung", RUNGS)
def test_the_page_names_the_gaps_of_each_rung(rung: str) -> None:
    [row] = [line for line in part("Rungs").splitlines() if line.startswith(f"| `{rung}` |")]
    for gap in gaps(rung, 1):
        assert gap in row
