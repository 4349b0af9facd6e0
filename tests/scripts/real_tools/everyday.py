# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pandas", "pillow", "matplotlib", "httpx"]
# ///
"""What scripts do every day, one function for each. They write into the directory `out` of the project only."""

import math
from pathlib import Path


def numpy_solve() -> float:
    """Solve equations, with the threads of the linear algebra library."""
    import numpy

    matrix = numpy.eye(300) * 2
    return float(numpy.linalg.solve(matrix, numpy.ones(300)).sum())


def pandas_table() -> dict[str, int]:
    """Read a table of the project, and group it."""
    import pandas

    table = pandas.read_csv("rooms.csv")
    return {str(name): int(value) for name, value in table.groupby("floor")["area"].sum().items()}


def pillow_image() -> list[int]:
    """Draw a picture, save it, and read it again."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (40, 20), "white")
    ImageDraw.Draw(image).text((2, 2), "hello", fill="black", font=ImageFont.load_default())
    image.save("out/picture.png")
    return list(Image.open("out/picture.png").size)


def matplotlib_figure() -> str:
    """Draw a figure into a file."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 4])
    axes.set_title("Room temperature")
    figure.savefig("out/figure.png")
    return Path("out/figure.png").read_bytes()[1:4].decode()


def httpx_get(url: str) -> str:
    """Fetch a page."""
    import httpx

    return httpx.get(url, timeout=10).text


def httpx_get_in_a_host_list(url: str) -> str:
    """Fetch a page from an allowed host."""
    return httpx_get(url)


def run_program() -> str:
    """Run a program."""
    import subprocess

    return subprocess.run(["uname", "-s"], capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def run_shell() -> str:
    """Run a pipe of the shell."""
    import subprocess

    pipe = "echo hello | tr a-z A-Z"
    return subprocess.run(pipe, shell=True, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


async def asyncio_subprocess() -> str:
    """Run a program without blocking."""
    import asyncio

    process = await asyncio.create_subprocess_exec("uname", "-s", stdout=asyncio.subprocess.PIPE)
    written, _ = await asyncio.wait_for(process.communicate(), 10)
    return written.decode().strip()


def git_commit() -> str:
    """Make a repository with one commit."""
    import subprocess

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        done = subprocess.run(command, cwd="out/repository", capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    Path("out/repository").mkdir()
    git("init", "--quiet")
    Path("out/repository/file").write_text("one\n")
    git("add", "file")
    git("commit", "--quiet", "--message", "First")
    return git("log", "--format=%s")


def git_name() -> str:
    """Tell the name that git would commit with."""
    import subprocess

    done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, timeout=30)
    return done.stdout.strip()


def sqlite_wal() -> list[str]:
    """Write a database with a write-ahead log from two connections."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect("out/data.db")) as one, closing(sqlite3.connect("out/data.db")) as other:
        [mode] = one.execute("pragma journal_mode = wal").fetchone()
        with one:
            one.execute("create table t (x)")
            one.execute("insert into t values ('kept')")
        return [mode, other.execute("select x from t").fetchone()[0]]


def _square(number: int) -> int:
    return number * number


def multiprocessing_fork() -> list[int]:
    """Work in forked processes."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(_square, [1, 2, 3])


def multiprocessing_spawn() -> list[int]:
    """Work in processes that start a Python of their own, and ends with them."""
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(math.factorial, [1, 2, 3])


def multiprocessing_forkserver() -> list[int]:
    """Work in processes of a fork server."""
    import multiprocessing

    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        return pool.map(math.factorial, [1, 2, 3])


def multiprocessing_manager() -> dict[str, int]:
    """Share a dict through a manager."""
    import multiprocessing

    with multiprocessing.get_context("fork").Manager() as manager:
        shared = manager.dict()
        shared["answer"] = 42
        return dict(shared)


def shared_memory() -> int:
    """Share a block of memory with another process."""
    import multiprocessing
    from multiprocessing.shared_memory import SharedMemory

    block = SharedMemory(create=True, size=16)
    try:
        process = multiprocessing.get_context("fork").Process(target=_write_to, args=(block.name,))
        process.start()
        process.join(10)
        return block.buf[0]
    finally:
        block.close()
        block.unlink()


def _write_to(name: str) -> None:
    from multiprocessing.shared_memory import SharedMemory

    block = SharedMemory(name)
    block.buf[0] = 42
    block.close()


def temporary_files() -> list[str]:
    """Use temporary files and directories."""
    import os
    import tempfile

    with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file, tempfile.TemporaryDirectory() as directory:
        file.write("hello")
        file.seek(0)
        Path(file.name).rename(f"{directory}/moved")
        Path(directory, "again").write_text("again")
        os.link(f"{directory}/moved", file.name)
        return [file.read(), Path(directory, "again").read_text()]


def time_zones() -> str:
    """Use the time zones of the system."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    return datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Oslo")).isoformat()


def ssl_certificates() -> int:
    """Count the certificates that the system trusts."""
    import ssl

    return len(ssl.create_default_context().get_ca_certs())


def locale_names() -> str:
    """Use the locale of the user."""
    import locale

    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    return locale.nl_langinfo(locale.CODESET)


def users_and_cores() -> list[int]:
    """Look up the user, and count the cores."""
    import os
    import pwd

    return [len(pwd.getpwuid(os.getuid()).pw_name), len(os.sched_getaffinity(0)), os.cpu_count() or 0]


def terminal() -> str:
    """Open a terminal and read what is written to it."""
    import os
    import pty

    ours, theirs = pty.openpty()
    try:
        os.write(theirs, b"hello\n")
        return os.read(ours, 100).decode().strip()
    finally:
        os.close(ours)
        os.close(theirs)


async def asyncio_server() -> str:
    """Serve on loopback, and be the client."""
    import asyncio

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    return line.decode().strip()


def write_to_the_project() -> str:
    """Write a file beside toolrun.toml, and move it."""
    Path("note.txt").write_text("kept")
    Path("note.txt").rename("out/note.txt")
    return Path("out/note.txt").read_text()
