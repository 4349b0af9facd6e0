"""Runs faults against the tests that must catch them. `script/mutate --help` says how.

Each fault is applied to a copy of the repository, one copy for each job, so that the working tree is never touched.
`PYTHONPATH` puts the sources of the copy before the installed ones, also for the programs that tests start; a copy is
not used before that is checked.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from acceptance.scenarios import read_proofs
from mutations.fault import ROOT, Fault, load_faults

COPIED = ("src", "tests", "examples", "pyproject.toml", "docs", "script", "CONTRIBUTING.md", "README.md")
TEST_LIMIT = 45
"""Seconds for one test: a fault may make it wait for ever."""
LIMIT = 240.0
"""Seconds for all tests of one fault: one that makes them hang is to be looked at."""
_LEAST = 30.0
"""Seconds that must be left for a fault to be started."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py::\w+)", re.MULTILINE)
_SHARED = ("tests/acceptance/", "tests/support/", "tests/providers/", "tests/conftest.py")
_TESTS = {id: proof for proof in read_proofs() for id in proof.scenarios}


@dataclass(frozen=True)
class Verdict:
    fault: Fault
    is_caught: bool
    reason: str = ""
    """Why it is not caught."""


class Copy:
    """A copy of the repository, in which one fault at a time is tried."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._changes = 0
        for name in COPIED:
            source, target = ROOT / name, directory / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self._environment = {**kept, "PYTHONPATH": str(directory / "src")}
        self._check_imports()

    def try_fault(self, fault: Fault, limit: float | None) -> Verdict | None:
        """None if the tests did not end within so many seconds."""
        path = self._root / fault.file
        original = path.read_text(encoding="utf-8")
        try:
            changed = fault.apply(original)
        except ValueError as error:
            return Verdict(fault, is_caught=False, reason=f"stale: {error}")
        self._write(path, changed)
        try:
            code, output = self.run_tests(tests_of(fault).values(), LIMIT if limit is None else min(limit, LIMIT))
        except subprocess.TimeoutExpired:
            is_hanging = limit is None or limit > LIMIT
            return Verdict(fault, is_caught=False, reason=f"hangs for more than {LIMIT:g} s") if is_hanging else None
        finally:
            self._write(path, original)
        if code not in (0, 1):
            return Verdict(fault, is_caught=False, reason=f"broken: the tests cannot run\n{output}")
        failed = set(_FAILED.findall(output))
        missed = [name for name, test in tests_of(fault).items() if test not in failed]
        return Verdict(fault, not missed, f"survived the test of {', '.join(missed)}" if missed else "")

    def run_tests(self, tests: Iterable[str], limit: float | None = None) -> tuple[int, str]:
        """The exit code and the output of pytest for these tests. Raises TimeoutExpired."""
        options = ["-q", "--tb=line", "-rfE", "-p", "no:cacheprovider", f"--timeout={TEST_LIMIT}"]
        done = self._run(sys.executable, "-m", "pytest", *options, *sorted(set(tests)), limit=limit)
        return done.returncode, done.stdout + done.stderr

    def _write(self, path: Path, text: str) -> None:
        """Each time under another date, whole seconds apart: Python tells stale bytecode by date and size."""
        path.write_text(text, encoding="utf-8")
        self._changes += 1
        os.utime(path, (self._changes * 10, self._changes * 10))

    def _check_imports(self) -> None:
        """Both ways in which tests start programs must use the sources of the copy."""
        code = "import toolrun; print(toolrun.__file__)"
        program = Path(sys.executable).with_name("toolrun")
        through_program = (
            f"import sys; sys.argv = ['-c']; exec(open({str(program)!r}).read().split('if __name__')[0])\n"
        )
        for command in (code, through_program + code):
            found = self._run(sys.executable, "-c", command).stdout.strip()
            if not found.startswith(str(self._root)):
                raise SystemExit(f"the copy in {self._root} would test other sources: {found}")

    def _run(self, *command: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )


def choose(faults: Sequence[Fault], wanted: Sequence[str]) -> list[Fault]:
    """The faults of these scenarios or lists, or with these numbers; without any, all."""
    lists = {it.list_name for it in faults}
    unknown = [it for it in wanted if it not in _TESTS and it not in lists and not it.isdigit()]
    if unknown:
        raise SystemExit(f"unknown scenario {unknown[0]}; tests/acceptance/scenarios.tsv has all of them")
    return [it for it in faults if not wanted or {str(it.number), it.list_name, *it.scenarios} & set(wanted)]


def tests_of(fault: Fault) -> dict[str, str]:
    """The tests that must fail, for pytest, by the names that people are told."""
    by_scenario = {id: f"tests/acceptance/{_TESTS[id]}" for id in fault.scenarios}
    return by_scenario | {test.partition("::")[2]: f"tests/{test}" for test in fault.tests}


def concerned(faults: Sequence[Fault], changed: set[str]) -> list[Fault]:
    """The faults whose file, list or test is among the changed ones; all, if that is what the tests share."""
    if any(it.startswith(_SHARED) and not Path(it).name.startswith("test_") for it in changed):
        return list(faults)
    return [it for it in faults if changed & {it.file, it.listed_in, *map(_file, tests_of(it).values())}]


def most_urgent_first(faults: Sequence[Fault], changed: set[str], newest: set[str], seed: str) -> list[Fault]:
    """Those of the sources that the newest commit changes, those of others that were changed, the rest.

    Among each other in an order that the seed decides: with another commit others come first.
    """
    shuffled = list(faults)
    random.Random(seed).shuffle(shuffled)
    return sorted(shuffled, key=lambda it: (it.file not in newest, it.file not in changed))


def summary(verdicts: Sequence[Verdict], untried: Sequence[Fault], changed: set[str]) -> str:
    """What was found, and of which changed sources faults were not tried."""
    caught = sum(it.is_caught for it in verdicts)
    said = f"{caught} of {len(verdicts)} faults caught"
    if not untried:
        return said
    files = sorted({it.file for it in untried if it.file in changed})
    count = sum(it.file in changed for it in untried)
    said += f", {len(untried)} NOT TRIED for want of time"
    return f"{said}, {count} of them in changed sources: {', '.join(files)}" if files else said


def _file(test: str) -> str:
    return test.partition("::")[0]


def changed_files(revision: str) -> set[str]:
    """What differs from the revision, also if it is not committed."""
    lines = git("diff", "--name-only", revision) + git("ls-files", "--others", "--exclude-standard")
    return set(lines.splitlines())


def default_revision() -> str:
    """Where this branch left the main one; on the main branch itself, twenty commits ago. Empty without a history."""
    head = git("rev-parse", "HEAD").strip()
    for main in ("origin/main", "main", "origin/master", "master"):
        base = git("merge-base", "HEAD", main).strip()
        if base and base != head:
            return base
    history = git("rev-list", "--first-parent", "--max-count=21", "HEAD").split()
    return history[-1] if history else ""


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def try_all(
    faults: Sequence[Fault], jobs: int, seconds: float | None, urgent: Sequence[Fault] = ()
) -> tuple[list[Verdict], list[Fault]]:
    """The verdicts, and the faults for which there was no time. For those that are urgent there always is."""
    until = None if seconds is None else time.monotonic() + seconds
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    verdicts: list[Verdict] = []
    printing = threading.Lock()

    def try_one(fault: Fault) -> None:
        copy = copies.get()
        try:
            left = None if until is None or fault in urgent else until - time.monotonic()
            verdict = copy.try_fault(fault, left) if left is None or left > _LEAST else None
        finally:
            copies.put(copy)
        if verdict is None:
            return
        with printing:
            verdicts.append(verdict)
            print(f"{'caught  ' if verdict.is_caught else 'SURVIVED'} {fault}", flush=True)
            if verdict.reason:
                print(f"         {verdict.reason}", flush=True)

    with tempfile.TemporaryDirectory(prefix="toolrun-mutate-") as directory:
        for number in range(jobs):
            root = Path(directory) / str(number)
            root.mkdir()
            copies.put(Copy(root))
        with ThreadPoolExecutor(jobs) as threads:
            list(threads.map(try_one, faults))
    tried = {it.fault for it in verdicts}
    return verdicts, [it for it in faults if it not in tried]


def check_without_fault(faults: Sequence[Fault]) -> None:
    """The tests must pass as things are: otherwise a failure says nothing."""
    with tempfile.TemporaryDirectory(prefix="toolrun-mutate-") as directory:
        code, output = Copy(Path(directory)).run_tests(test for fault in faults for test in tests_of(fault).values())
    if code != 0:
        raise SystemExit(f"the tests fail without a fault, so there is nothing to learn:\n{output}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="script/mutate",
        description="Applies deliberate faults (tests/mutations/*.toml) to a copy of the sources, one at a time, and "
        "demands that the tests of their scenarios, or those that they name, fail. Exits with 1 if a fault survives.",
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help="a scenario such as S3.12.7, a list such as journal, or the number of a fault; default: all",
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="",
        metavar="REV",
        help="only faults whose file, list or test differs from REV; default: where this branch left the main one, "
        "or twenty commits ago",
    )
    parser.add_argument(
        "--seconds", type=float, help="the time for all faults: what is not done by then counts as not tried"
    )
    parser.add_argument(
        "--at-least",
        type=int,
        default=0,
        metavar="N",
        help="so many faults of the sources that the newest commit changes are tried whatever the time is",
    )
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="faults at the same time")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a fault first")
    parser.add_argument("--list", action="store_true", help="print the faults, and try none")
    options = parser.parse_args()
    faults, changed = choose(load_faults(), options.scenario), set[str]()
    if options.changed is not None and (revision := options.changed or default_revision()):
        changed = changed_files(revision)
        faults = concerned(faults, changed)
    if options.list:
        print("\n".join(map(str, faults)))
        return 0
    newest = changed_files("HEAD~1") if options.changed is not None else set[str]()
    if options.seconds is not None:  # another part of them for each commit
        faults = most_urgent_first(faults, changed, newest, git("rev-parse", "HEAD"))
    urgent = [it for it in faults if it.file in newest][: options.at_least]
    if faults and not options.trust:
        check_without_fault(faults)
    jobs = min(options.jobs, len(faults))
    verdicts, untried = try_all(faults, jobs, options.seconds, urgent) if faults else ([], [])
    print(summary(verdicts, untried, changed))
    return 0 if all(it.is_caught for it in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
