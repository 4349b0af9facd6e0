"""Installs the conformance suite and the inspector, and runs them.

They are npm packages, and need Node 22: where the machine has an older one, npm brings it along. All of it goes to
.cache/conformance at the root, once for each change of package.json.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.packages import CACHE, node, npm_install

HERE = Path(__file__).parent
MODULES = CACHE / "conformance" / "node_modules"
SUITES = ("conformance-0.1", "conformance-0.2")
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
OLDEST_NODE = 22
LIMIT = 110.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a scenario looked at."""

    scenario: str
    id: str
    status: str
    message: str


def install() -> None:
    """Raises MissingError with the reason."""
    npm_install(HERE / "package.json", "conformance")
    node(MODULES, OLDEST_NODE)


def run(
    program: Path | str, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a JavaScript program; a suite by its name."""
    path = MODULES / program / "dist" / "index.js" if isinstance(program, str) else program
    return subprocess.run(
        [node(MODULES, OLDEST_NODE), str(path), *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def run_side_by_side(commands: Sequence[tuple[str, ...]]) -> str:
    """Run a suite several times, a few at once. Their output."""
    with ThreadPoolExecutor(3) as threads:
        return "".join(done.stdout + done.stderr for done in threads.map(lambda command: run(*command), commands))


@functools.cache
def scenarios(suite: str, side: str, revision: str | None = None) -> list[str]:
    """What a suite has for servers or clients, in one revision of the protocol or in all."""
    text = run(suite, "list").stdout
    parts = re.split(r"^(\w+)[\w ]* scenarios .*:$", text, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))[side.capitalize()]
    named = re.findall(r"^\s+- (\S+) \[(.*)\]", found, re.MULTILINE)
    return [name for name, revisions in named if revision is None or revision in revisions]


def checks(output: Path, side: str, names: Sequence[str]) -> Iterator[Check]:
    """What a suite wrote about the scenarios that it ran. Servers' are in directories `server-NAME-TIME`."""
    for file in sorted(output.rglob("checks.json")):
        directory = file.parent.relative_to(output).as_posix()
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", directory)
        scenario = name if name in names else name.removeprefix(f"{side}-")
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        for it in found:
            yield Check(scenario, it["id"], it["status"], it.get("errorMessage") or "")
