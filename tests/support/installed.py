"""toolrun as users have it: the wheel of these sources, in environments with just what somebody has installed.

They are kept in .cache at the root of the project, and made anew when a source changes. Tests in several processes
share them.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import uv

from support.packages import CACHE

ROOT = Path(__file__).parents[2]
_LIMIT = 400.0
"""Seconds for one installation: the first one may have to download."""
_NEED = re.compile(r"(?:The examples on this page need|Install)\s+`pip install (.*?)`")


def needs(page: Path) -> str:
    """What a page says that its examples need, as an argument of `installed`."""
    found = _NEED.search(page.read_text(encoding="utf-8"))
    return found[1] if found else "toolrun"


def installed(packages: str = "toolrun", python: str = sys.executable, name: str = "") -> Path:
    """The directory with the programs of an environment in which a user has run `pip install PACKAGES`."""
    archive = wheel()
    name = re.sub(r"\W+", "-", f"{packages}-{name}").strip("-")
    directory = CACHE / f"installed-{name}"
    programs = directory / "bin"
    with _up_to_date(directory, _digest() + packages) as is_new:
        if is_new:
            command = [re.sub(r"^toolrun(?=\[|$)", str(archive), it) for it in shlex.split(packages)]
            _run("venv", "--quiet", "--clear", "--python", python, str(directory))
            constraints = ["--constraint", str(_constraints())]
            _run("pip", "install", "--quiet", "--python", str(programs / "python"), *constraints, *command)
    return programs


def wheel() -> Path:
    """The wheel of these sources."""
    [found] = _built().glob("*.whl")
    return found


def sdist() -> Path:
    """The source distribution."""
    [found] = _built().glob("*.tar.gz")
    return found


def _built() -> Path:
    directory = CACHE / "dist"
    with _up_to_date(directory, _digest()) as is_new:
        if is_new:
            shutil.rmtree(directory, ignore_errors=True)
            _run("build", "--quiet", "--out-dir", str(directory), str(ROOT))  # the wheel from the source distribution
    return directory


def _constraints() -> Path:
    """The versions of the lock file, without its hashes, which would be asked of the wheel too."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    path = CACHE / f"constraints-{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    if not path.exists():
        path.write_text("\n".join(line.rstrip(" \\") for line in text.splitlines() if re.match(r"\w", line)))
    return path


@cache
def _digest() -> str:
    found = hashlib.sha256()
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted([*files, ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("hatch_build.py")]):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


@contextmanager
def _up_to_date(directory: Path, digest: str) -> Iterator[bool]:
    """Whether it has to be made. Tests run in several processes: the others wait for the one that does it."""
    CACHE.mkdir(exist_ok=True)
    with CACHE.joinpath(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = CACHE / f"{directory.name}.digest"
        if done.exists() and done.read_text() == digest and directory.exists():
            yield False
        else:
            done.unlink(missing_ok=True)
            yield True
            done.write_text(digest)


def _run(*arguments: str) -> None:
    done = subprocess.run([uv.find_uv_bin(), *arguments], capture_output=True, text=True, timeout=_LIMIT, check=False)
    assert done.returncode == 0, f"uv {arguments[0]}: {done.stderr}"
