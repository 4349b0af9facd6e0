"""A home with a project in it, and a program of its owner that runs toolrun there, on a given rung of the sandbox.

The owner is whoever runs the tests, or another user: a number that needs no account. All of the home is removed again.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from faults.bench import is_locked
from toolrun.processes.sandbox.system_support import gaps, landlock_abi
from toolrun.processes.watchdog import descendants, find_children

LIMIT = 30.0
"""Seconds for what must happen. Only a failing test waits so long."""
OTHER_USER = 54321
OFF = "off"
HERE = Path(__file__).parent
SECRET = "canary-5a3bd1e0c4f2"
CANARY = r"canary-[0-9a-f]{12}"
TOKEN = "token-of-the-victim"
CONFIGURATION = """
[workers]
cache = "{cache}"
sandbox = "{level}"
grace = 0.5
max_workers = 8
[secrets]
KEY = {{ file = "key" }}
[tool.victim]
secrets = ["KEY"]
[tool.victim.permissions]
env = ["VICTIM_TOKEN"]
[tool.recluse]
sandbox = "strict"
[tool.trusted]
sandbox = "strict"
[tool.trusted.permissions]
net = true
read = ["~/readable"]
write = ["~/writable"]
run = ["id"]
env = ["GRANTED"]
[tool.linked]
sandbox = "strict"
[tool.linked.permissions]
write = ["linked"]
[tool.caller]
sandbox = "strict"
[tool.caller.permissions]
net = ["localhost:{port}"]
[servers.idle]
command = "python3"
args = ["server.py"]
enabled = false
"""
COPIES = ("intruder", "neighbour", "recluse", "trusted", "caller", "linked")
"""Scripts with the same content: what they may do differs."""


class AttackFailure(AssertionError):
    """The host or a call did not do what every attack needs."""


@dataclass(frozen=True)
class Answer:
    result: Any
    kind: str | None
    error: str


@dataclass(frozen=True)
class Kind:
    """What is walled in by what."""

    rung: str
    is_own: bool
    """Whether the user is the one who runs the tests."""
    abi: int = 0
    """The Landlock of an older kernel: what that does not know is not asked of this one. 0: this kernel's own."""

    def __str__(self) -> str:
        return f"{self.rung}-{'own' if self.is_own else 'other'}-user{f'-landlock-{self.abi}' if self.abi else ''}"

    @property
    def uid(self) -> int:
        return os.getuid() if self.is_own else OTHER_USER


class Place:
    """A project that is in use."""

    def __init__(self, kind: Kind, home: Path, process: subprocess.Popen[bytes]) -> None:
        self.kind = kind
        self.home = home
        self.project = home / "project"
        self.process = process
        self.has_walls = kind.rung != OFF
        self.gaps = gaps(kind.rung, kind.abi or landlock_abi()) if self.has_walls else ()
        self._numbers = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._rest = b""

    def call(self, function: str, *, tool: str = "intruder", timeout: float = LIMIT, **arguments: Any) -> Answer:
        """The answer to a call."""
        return self.end(self.begin(function, tool=tool, timeout=timeout, **arguments))

    def attack(self, function: str, **arguments: Any) -> Any:
        """How far an attack got. That it could be tried is checked."""
        answer = self.call(function, **arguments)
        if answer.error:
            raise AttackFailure(f"{function} was not carried out: {answer.error}")
        return answer.result

    def begin(self, function: str, *, tool: str = "intruder", timeout: float = LIMIT, **arguments: Any) -> int:
        """Make a call, and do not wait for its end."""
        number = next(self._numbers)
        name = tool if tool == function else f"{tool}.{function}"
        request = {"number": number, "tool": name, "arguments": arguments, "timeout": timeout}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return number

    def end(self, number: int) -> Answer:
        """Wait for the answer to a call."""
        until = time.monotonic() + 2 * LIMIT
        while number not in self._answers:
            self._receive(until - time.monotonic())
        return self._answers.pop(number)

    def _receive(self, timeout: float) -> None:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], max(0.0, timeout))[0]:
            raise AttackFailure("the host does not answer")
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            raise AttackFailure("the host has ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            number = message.pop("number")
            self._answers[number] = Answer(**message)

    def workers(self, tool: str) -> list[int]:
        """All processes of a script: the first one, the walls', the worker itself."""
        children = find_children()
        wanted = f"TOOLRUN_LABEL={self.project / 'tools' / tool}.py".encode()
        found: set[int] = set()
        for first in children.get(self.process.pid, ()):
            with suppress(OSError):
                if wanted in Path(f"/proc/{first}/environ").read_bytes().split(b"\0"):
                    found |= descendants(first, children)
        return sorted(found)

    @contextmanager
    def victim(self) -> Iterator[list[int]]:
        """A call of another tool, which has a secret, is under way: its processes. It must come to its own end."""
        gate = self.project / f"gate-{next(self._numbers)}"
        number = self.begin("victim", tool="victim", until=str(gate))
        try:
            wait_for(Path(f"{gate}.begun").exists, "the victim is at work")
            yield self.workers("victim")
        finally:
            gate.touch()
            self.answer_of_the_victim = self.end(number)

    def close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT)
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait for something that nobody tells of."""
    until = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not so within {LIMIT:g} s: {what}")
        time.sleep(0.005)


def is_held(path: Path) -> bool:
    """Whether a process of those that hold the file is alive. What was never made is not held."""
    return path.exists() and is_locked(path)


@contextmanager
def open_place(kind: Kind, port: int = 9) -> Iterator[Place]:
    """`port` is that of the only server that the script `caller` may reach."""
    with ExitStack() as stack:
        home = _make_home(kind, port)
        stack.callback(shutil.rmtree, home.parent)
        variables = {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "VICTIM_TOKEN": TOKEN,
            "GRANTED": "a granted variable",
            "WITHHELD": "another variable",
            "UV_PYTHON_DOWNLOADS": "never",
        }
        python, more = interpreter(kind.is_own)
        process = subprocess.Popen(
            [python, str(HERE / "host.py"), str(home / "project"), kind.rung, str(kind.abi)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables | more,
            cwd=home / "project",
            bufsize=0,
            **_as_user(kind),
        )
        place = Place(kind, home, process)
        stack.callback(place.close)
        place.end(0)
        yield place


def _as_user(kind: Kind) -> dict[str, Any]:
    return {} if kind.is_own else {"user": kind.uid, "group": kind.uid, "extra_groups": []}


def _make_home(kind: Kind, port: int) -> Path:
    base = Path(tempfile.mkdtemp(prefix="toolrun-walls-", dir="/var/tmp"))  # /tmp is behind a wall of its own
    base.chmod(0o755)
    home = base / "home"
    shutil.copytree(HERE / "project", home / "project", ignore=shutil.ignore_patterns("__pycache__"))
    tools = home / "project" / "tools"
    for name in COPIES[1:]:
        shutil.copyfile(tools / "intruder.py", tools / f"{name}.py")
    level = OFF if kind.rung == OFF else "standard"
    text = CONFIGURATION.format(cache=home / ".cache" / "toolrun", level=level, port=port)
    if kind.rung == OFF:
        text = text.replace('"strict"', '"off"')
    for name, content in {
        "project/toolrun.toml": text,
        "project/key": SECRET,
        "project/data.txt": "the project's own",
        "project/.git/hooks/pre-commit": "exit 0",
        "project/.git/config": "[core]",
        "project/server.py": "raise SystemExit",
        "project/__pycache__/shared.pyc": "bytecode",
        "other/notes.txt": "another project's own",
        ".ssh/id_ed25519": "a private key",
        "readable/file.txt": "to be read",
        "writable/file.txt": "to be written",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    if not kind.is_own:
        for path in (home, *home.rglob("*")):
            os.chown(path, kind.uid, kind.uid)
    home.chmod(0o700)
    return home


@cache
def interpreter(is_own: bool) -> tuple[str, dict[str, str]]:
    """A Python with toolrun for the user, and the variables that it needs; an empty one if there is none."""
    source = str(HERE.parents[1] / "src")
    if is_own:
        return sys.executable, {"PYTHONPATH": source}
    paths = [path for path in sys.path if path.endswith("site-packages")]
    variables = {"PYTHONPATH": os.pathsep.join([source, *paths]), "PYTHONDONTWRITEBYTECODE": "1"}
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        with suppress(OSError):
            done = subprocess.run(
                [python, "-c", "import toolrun"],
                env=variables,
                cwd="/",
                capture_output=True,
                check=False,
                timeout=LIMIT,
                **_as_user(Kind(OFF, is_own=False)),
            )
            if done.returncode == 0:
                return python, variables
    return "", {}


def check(place: Place, has_worked: object, what: object, *, gap: str = "") -> None:
    """That an attack failed, because of the walls: without them it works.

    `gap` is how `SystemSupport.gaps` describes it where a rung cannot stop it. It must work there, or it were no gap.
    """
    is_gap = bool(gap) and any(gap in it for it in place.gaps)
    assert bool(has_worked) == (not place.has_walls or is_gap), (str(place.kind), what)
