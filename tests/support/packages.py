"""Programs from npm and PyPI that tests run against, installed once into .cache at the root of the project."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
import uv

CACHE = Path(__file__).parents[2] / ".cache"
_LIMIT = 400.0
"""Seconds for one installation. The time limit of a test does not count its fixtures."""


class MissingError(Exception):
    """They cannot be had on this machine."""


def npm_install(wanted: Path, name: str) -> Path:
    """The `node_modules` with what a package.json asks for. Raises MissingError with the reason."""
    cache = CACHE / name
    with _installing(wanted, cache) as is_needed:
        if is_needed:
            if shutil.which("npm") is None:
                raise MissingError("npm is not there")
            cache.mkdir(exist_ok=True)
            (cache / "package.json").write_bytes(wanted.read_bytes())
            _run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", cwd=cache)
    return cache / "node_modules"


def node(modules: Path, oldest: int) -> str:
    """A Node that is new enough: the machine's own, or one that npm brought. Raises MissingError if there is none."""
    own = shutil.which("node")
    if own is not None:
        version = subprocess.run([own, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        if int(version.lstrip("v").partition(".")[0]) >= oldest:
            return own
    brought = next(modules.glob("node-*/bin/node"), None)
    if brought is None:
        raise MissingError(f"Node {oldest} or newer is not there, and npm has none for this machine")
    return str(brought)


def uv_install(wanted: Path, name: str) -> Path:
    """The directory with the programs of the packages in a requirements.txt. Raises MissingError with the reason."""
    cache = CACHE / name
    programs = cache / "bin"
    with _installing(wanted, cache) as is_needed:
        if is_needed:
            _run(uv.find_uv_bin(), "venv", "--quiet", "--clear", "--python", sys.executable, str(cache))
            options = ["--quiet", "--compile-bytecode", "--python", str(programs / "python")]
            _run(uv.find_uv_bin(), "pip", "sync", *options, str(wanted))
    return programs


def give_up(error: MissingError, what: str) -> NoReturn:
    """Skip on a developer's machine, fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} cannot be had: {error}")
    pytest.skip(f"{what} cannot be had: {error}")


@contextmanager
def _installing(wanted: Path, cache: Path) -> Iterator[bool]:
    """Whether it has to be installed. Tests run in several processes: the others wait for the one that does it."""
    CACHE.mkdir(exist_ok=True)
    with CACHE.joinpath(f"{cache.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done, text = cache / "installed", wanted.read_bytes()
        if done.exists() and done.read_bytes() == text:
            yield False
        else:
            yield True
            done.write_bytes(text)


def _run(*command: str, cwd: Path | None = None) -> None:
    what = Path(command[0]).name
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise MissingError(f"{what} did not install it within {_LIMIT:g} s") from None
    if done.returncode != 0:
        raise MissingError(f"{what} cannot install it: {done.stderr.strip()[:500]}")
