"""Installs the conformance suite and the inspector, and runs them. Run as a program it only installs.

They are npm packages, and need Node 22: where the machine has an older one, npm brings it along. All of it goes to
.cache/conformance at the root, once for each change of package.json.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "conformance"
MODULES = CACHE / "node_modules"
SUITES = ("conformance-0.1", "conformance-0.2")
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
OLDEST_NODE = 22
LIMIT = 110.0


class MissingError(Exception):
    """The suite cannot be had on this machine."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a scenario looked at."""

    scenario: str
    id: str
    status: str
    message: str


def install() -> None:
    """Raises MissingError with the reason."""
    wanted = (HERE / "package.json").read_text(encoding="utf-8")
    done = CACHE / "installed.json"
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    if shutil.which("npm") is None:
        raise MissingError("npm is not there")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "package.json").write_text(wanted, encoding="utf-8")
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    installed = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=600, check=False)
    if installed.returncode != 0:
        raise MissingError(f"npm cannot install it: {installed.stderr.strip()[-500:]}")
    done.write_text(wanted, encoding="utf-8")


def node() -> str:
    """Raises MissingError if there is none that is new enough."""
    brought = next(MODULES.glob("node-*/bin/node"), None)
    own = shutil.which("node")
    if own is not None:
        version = subprocess.run([own, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        if int(version.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
            return own
    if brought is None:
        raise MissingError(f"Node {OLDEST_NODE} or newer is not there, and npm has none for this machine")
    return str(brought)


def run(
    program: Path | str, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a JavaScript program; a suite by its name."""
    path = MODULES / program / "dist" / "index.js" if isinstance(program, str) else program
    return subprocess.run(
        [node(), str(path), *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@functools.cache
def scenarios(suite: str, side: str) -> list[str]:
    """What a suite has for servers or clients."""
    text = run(suite, "list").stdout
    parts = re.split(r"^(\w+)[\w ]* scenarios .*:$", text, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))[side.capitalize()]
    return re.findall(r"^\s+- (\S+)", found, re.MULTILINE)


def checks(output: Path, side: str, names: Sequence[str]) -> Iterator[Check]:
    """What a suite wrote about the scenarios that it ran. Servers' are in directories `server-NAME-TIME`."""
    for file in sorted(output.rglob("checks.json")):
        directory = file.parent.relative_to(output).as_posix()
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", directory)
        scenario = name if name in names else name.removeprefix(f"{side}-")
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        for it in found:
            yield Check(scenario, it["id"], it["status"], it.get("errorMessage") or "")


if __name__ == "__main__":
    install()
