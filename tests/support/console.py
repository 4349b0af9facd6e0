"""Runs the real `toolrun` in a process of its own, in a pipe or on a terminal. Every wait has a limit."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

LIMIT = 60.0
_STATUS = re.compile(r"\x1b\[2K\r(?!\x1b\[K)(?:(?!\x1b\[2K)[^\n])*|\x1b\[2K\r\x1b\[K")
ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"
TOOLRUN = Path(sys.executable).with_name("toolrun")
CACHE = ROOT / ".pytest_cache" / "toolrun"
"""Environments of scripts, kept from run to run: not those of the user, and not made anew each time."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change the output."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    ours = {"TERM": "xterm", "PATH": f"{TOOLRUN.parent}:{os.environ['PATH']}", "TOOLRUN_WORKERS_CACHE": str(CACHE)}
    return kept | ours | dict(extra or {})


def toolrun(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `toolrun` in a pipe."""
    return run(str(TOOLRUN), *arguments, cwd=cwd, stdin=stdin, env=env)


def run(
    *command: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, input=stdin, env=environment(env), capture_output=True, text=True, timeout=LIMIT, check=False
    )


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """`toolrun` while it runs; killed if the test leaves it running."""
    command = [str(TOOLRUN), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, env=environment(), text=True, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(*command: str, cwd: Path, env: Mapping[str, str] | None = None, typed: str = "") -> tuple[int, str]:
    """Run a command on a terminal: its exit code, and all that it wrote there. `typed` is there before it reads."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command, cwd=cwd, env=environment(env), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        written = _read_all(ours)
        return process.wait(LIMIT), without_status(written.decode().replace("\r\n", "\n"))
    finally:
        os.close(ours)


def without_status(written: str) -> str:
    """What stays on a terminal: everything but the status lines, which come and go with the time that work takes."""
    return _STATUS.sub("", written)


def status_lines(written: str) -> list[str]:
    """The status lines that were drawn, with their colours."""
    return [
        found[0].removeprefix("\x1b[2K\r") for found in _STATUS.finditer(written) if not found[0].endswith("\r\x1b[K")
    ]


def _read_all(terminal: int) -> bytes:
    import select

    written = b""
    while select.select([terminal], [], [], LIMIT)[0]:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux: EIO once nobody has the other side open
            chunk = b""
        if not chunk:
            return written
        written += chunk
    raise TimeoutError(f"nothing came for {LIMIT} s after {written!r}")


def write_project(root: Path, **files: str) -> Path:
    """A project with one Python file of tools for each keyword, and an empty configuration."""
    (root / "tools").mkdir(exist_ok=True)
    (root / "toolrun.toml").touch()
    for name, content in files.items():
        (root / "tools" / f"{name}.py").write_text("from toolrun import tool\n" + dedent(content), encoding="utf-8")
    return root
