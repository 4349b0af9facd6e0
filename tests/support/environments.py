"""What tests of script environments share: headers, a uv that does as it is told, and a way to see processes end."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from toolrun.scripts.environment import Requirements, read_requirements

LIMIT = 60.0
"""Seconds that nothing should ever take."""


def header(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("# /// script", *(f"# {line}" for line in lines), "# ///"))


def requirements(*lines: str, lock: bytes | None = None) -> Requirements:
    found = read_requirements(header(*lines), lock)
    assert found is not None
    return found


def make_wheel(directory: Path, name: str, version: str = "1.0") -> str:
    """A package with one module and one command, as a requirement."""
    files = {
        f"{name}.py": f"def main():\n    print('{name} {version}')\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-{version}.dist-info/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = f"{name}-{version}.dist-info/RECORD"
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(record, "".join(f"{file},,\n" for file in [*files, record]))
    return f"{name} @ {path.as_uri()}"


def write_uv(directory: Path, body: str) -> Path:
    """A uv for `uv.find_uv_bin`: notes each run in `runs`, then does what the shell commands say."""
    path = directory / "uv"
    venv = f'mkdir -p "$VIRTUAL_ENV/bin" && ln -s {shlex.quote(sys.executable)} "$VIRTUAL_ENV/bin/python"'
    path.write_text(
        f"#!/bin/sh\nhere={shlex.quote(str(directory))}\nmake_venv() {{ {venv}; }}\n"
        f'printf "%s\\n" "$*" >> "$here/runs"\n{body}\n'
    )
    path.chmod(0o755)
    return path


def runs(directory: Path) -> list[str]:
    file = directory / "runs"
    return file.read_text().splitlines() if file.exists() else []


class Gate:
    """A named pipe that processes hold open: tells when they have started, and when the last of them is gone."""

    def __init__(self, reader: asyncio.StreamReader, keeper: IO[bytes]) -> None:
        self._reader = reader
        self._keeper = keeper

    async def started(self) -> str:
        """The line that the first process writes."""
        line = await asyncio.wait_for(self._reader.readline(), LIMIT)
        self._keeper.close()
        return line.decode().strip()

    async def ended(self) -> None:
        await asyncio.wait_for(self._reader.read(), LIMIT)


@asynccontextmanager
async def open_gate(path: Path) -> AsyncIterator[Gate]:
    os.mkfifo(path)
    reader = asyncio.StreamReader()
    with (
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file,
        os.fdopen(os.open(path, os.O_WRONLY), "wb", buffering=0) as keeper,  # no end of file before the first writer
    ):
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        try:
            yield Gate(reader, keeper)
        finally:
            transport.close()


@contextmanager
def no_processes_left(directory: Path) -> Iterator[None]:
    """Fails if a process is left that was started with a path in the directory."""
    yield
    wanted = str(directory).encode()
    left = []
    for entry in Path("/proc").glob("[0-9]*/cmdline") if Path("/proc/self").exists() else ():
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if wanted in command and entry.parent.name != str(os.getpid()):
            left.append(f"{entry.parent.name}: {command.decode(errors='replace')!r}")
    assert not left, f"the test left processes behind: {left}"


def uv_variables(directory: Path) -> dict[str, str]:
    """The variables of this process, with a cache of uv's that the user's own packages are not in."""
    return dict(os.environ) | {"UV_CACHE_DIR": str(directory / "uv-cache"), "UV_PYTHON_DOWNLOADS": "never"}
