"""BFCL's multi-turn tasks with crashes: is the world, in the end, as if every call had happened once?

    script/bfcl                                        all 200 tasks, with verify and without
    script/bfcl --tasks 20 --promises undeclared --kinds isolated --seed 7

The gold calls of a task are made in their order, with keys, while some of them are struck: the host or its worker is
killed before or after the call happens, or the answer is lost. The program is started again until it comes to its end.
One call twice changes the end of 128 of these tasks, one call less that of 195.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from crashes.bfcl_client import ask
from crashes.trial import HERE, Hosts, TrialError

STRIKES = {
    "thread": ["kill peer", "hang up"],
    "isolated": ["kill peer", "kill parent", "hang up"],
}
MAX_STRIKES = 3

_TOOLS = """
import sys
from typing import Any

from toolrun import Done, NotDone, ToolContext, tool

sys.path.insert(0, {tests!r})
from crashes.bfcl_client import ask

_world, _task = {world!r}, {task}


def _verify(key: str, arguments: dict[str, Any]) -> Done | NotDone:
    known = ask(_world, ask="has acted", task=_task, key=key)
    return Done(known["result"]) if known["acted"] else NotDone()

"""
_IN_THREAD = '''
@tool(verify={verify})
def {name}(toolrun_context: ToolContext, **arguments: Any) -> Any:
    """{name} of BFCL."""
    key = toolrun_context.idempotency_key
    return ask(_world, ask="call", task=_task, key=key, name="{name}", arguments=arguments)

'''
_ISOLATED = '''
@tool(isolated=True, verify={verify})
def {name}(**arguments: Any) -> Any:
    """{name} of BFCL."""
    from toolrun_sdk import idempotency_key

    return ask(_world, ask="call", task=_task, key=idempotency_key(), name="{name}", arguments=arguments)

'''


class Outcome(NamedTuple):
    """What came of a task."""

    is_good: bool
    """As promised: right with verify; without, nothing happened twice, and what may not have happened is named."""
    is_right: bool
    """The world is as if every call had happened once."""
    strikes: int
    named: int


class Task:
    """One task, in a project of its own."""

    def __init__(self, hosts: Hosts, world: str, number: int, kind: str, promise: str, directory: Path) -> None:
        self.number = number
        self._hosts = hosts
        self._world = world
        self._promise = promise
        self._directory = directory
        self._kind = kind
        self._repeats = 20 if promise == "verify" else 0
        """A step that failed is made again before the next one, if that can help."""
        names = ask(world, ask="tools", task=number)
        self._write_project(names)

    def _write_project(self, names: list[str]) -> None:
        form = _ISOLATED if self._kind == "isolated" else _IN_THREAD
        verify = "_verify" if self._promise == "verify" else "None"
        text = _TOOLS.format(tests=str(HERE.parent), world=self._world, task=self.number)
        text += "".join(form.format(name=name, verify=verify) for name in names)
        (self._directory / "tools").mkdir()
        (self._directory / "tools" / "world.py").write_text(text)
        effects = "once" if self._promise == "verify" else self._promise
        lines = ['[journal]\nanswers = "all"\n']  # some answers are access tokens, which are not kept otherwise
        lines += [f'[tool.{name}]\neffects = "{effects}"\n' for name in names]
        (self._directory / "toolrun.toml").write_text("".join(lines))

    def run(self, random_: random.Random) -> Outcome:
        gold = ask(self._world, ask="load", task=self.number, strikes=[])
        calls = [{"tool": name, "arguments": it, "key": str(i)} for i, (name, it) in enumerate(gold)]
        chosen = random_.sample(range(len(calls)), min(MAX_STRIKES, len(calls)))
        strikes = [(index, *random_.choice(self._ways())) for index in chosen]
        ask(self._world, ask="load", task=self.number, strikes=strikes)
        report = self._call_until_nobody_dies(calls)
        named: list[Any] = json.loads(self._hosts.toolrun(self._directory, "effects", "--json"))
        found = ask(self._world, ask="judge", task=self.number)
        if found["unmet"]:
            raise TrialError(f"{found['unmet']} strikes were not met in {self._directory}")
        answers = list({it["key"]: it["result"] for it in report[:-1]}.values())
        is_right = bool(found["is_right"]) and answers == found["results"] and found["calls"] == len(calls)
        is_honest = found["calls"] <= len(calls) and 0 < len(named) <= len(strikes)
        is_good = is_right and not named if self._promise == "verify" else is_right or is_honest
        return Outcome(is_good, bool(found["is_right"]), len(strikes), len(named))

    def _ways(self) -> list[tuple[str, str]]:
        return [(point, action) for point in ("before", "after") for action in STRIKES[self._kind]]

    def _call_until_nobody_dies(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        configuration = str(self._directory / "toolrun.toml")
        request = {"configuration": configuration, "calls": calls, "seed": None, "at_once": 1, "repeats": self._repeats}
        before: list[dict[str, Any]] = []
        for _ in range(MAX_STRIKES + 3):
            report = self._hosts.start(self._directory, request).end()
            has_ended = report[-1:] == [{"end": True}]
            answers = [it for it in report if it.get("kind") is None]
            if has_ended and answers == before:
                return report
            before = answers if has_ended else []
        raise TrialError(f"the program never came to its end in {self._directory}")


def run_tasks(hosts: Hosts, world: str, arguments: argparse.Namespace, kind: str, promise: str) -> bool:
    """Run all tasks with one kind of tool and one promise. Returns whether all went as promised."""
    count = min(arguments.first + arguments.tasks, ask(world, ask="tasks"))
    outcomes: list[Outcome] = []
    for number in range(arguments.first, count):
        directory = Path(tempfile.mkdtemp(prefix="bfcl-"))
        outcome = Task(hosts, world, number, kind, promise, directory).run(random.Random(arguments.seed + number))
        outcomes.append(outcome)
        if outcome.is_good:
            shutil.rmtree(directory)
        else:
            print(f"WRONG: task {number}, see {directory}: {outcome}", flush=True)
    right, good = sum(it.is_right for it in outcomes), sum(it.is_good for it in outcomes)
    unnamed = sum(not it.is_right and not it.named for it in outcomes)
    strikes, named = sum(it.strikes for it in outcomes), sum(it.named for it in outcomes)
    print(
        f"{kind}, {promise}: {strikes} strikes; final state right in {right} of {len(outcomes)} tasks; {named} calls "
        f"named in doubt; wrong without a name: {unnamed}; as promised: {good} of {len(outcomes)}",
        flush=True,
    )
    return bool(good == len(outcomes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has bfcl-eval")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first task")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", default="thread,isolated")
    parser.add_argument("--promises", default="verify,once")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="bfcl-world-"))
    path = str(directory / "socket")
    command = [arguments.python, str(HERE / "bfcl_world.py"), path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as world, Hosts() as hosts:
        try:
            assert world.stdout is not None
            if world.stdout.readline() != b"ready\n":
                raise TrialError("the worlds of BFCL did not start")
            pairs = [(kind, it) for kind in arguments.kinds.split(",") for it in arguments.promises.split(",")]
            results = [run_tasks(hosts, path, arguments, kind, promise) for kind, promise in pairs]
        finally:
            world.kill()
    shutil.rmtree(directory)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
