"""Crash trials by the hundred: hosts and workers are killed at random moments, and the outside world is the judge.

    script/crashes                          every kind of trial; takes some minutes
    script/crashes --trials 300 --kinds thread,coroutine --promises keyed,once --processes 2 --seed 7

Each trial has a seed of its own, which is printed if the trial finds something: `--seed` with `--trials 1` repeats its
plan. The moments of the kills are random in time, so the same plan may hit other steps of a call.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from crashes.trial import REPEATABLE, Hosts, Process, Trial, Verdict

IN_PROCESS = ("thread", "coroutine", "nested")
ELSEWHERE = ("isolated", "script", "server", "remote")
PROMISES = ("keyed", "verify", "idempotent", "once", "undeclared")
CALLS = 40


@dataclass(frozen=True)
class Plan:
    """One trial."""

    kind: str
    promise: str
    processes: int
    victim: str
    """Who is killed: the host, or the worker or server that acts; or the answer, which is lost."""
    seed: int


@dataclass
class Score:
    """What came of the trials of one sort."""

    trials: int = 0
    kills: int = 0
    effects: int = 0
    lost: int = 0
    repeated: int = 0
    named: int = 0
    wrong: list[str] = field(default_factory=list)


def run_trial(hosts: Hosts, plan: Plan, directory: Path, cache: Path, score: Score) -> None:
    """Callers are killed, then callers are not, and that is judged; what is in doubt is settled, and judged again."""
    random_ = random.Random(plan.seed)
    trial = Trial(hosts, directory, plan.kind, plan.promise, CALLS, cache)
    at_once = random_.choice([1, 1, 3, 8])
    if plan.victim == "answer":
        for name in random_.sample(trial.names, 6):
            trial.outside.doom(name, "after", "lose answer")
    rounds = 4 if plan.kind in IN_PROCESS else 2
    kills = 0
    for _ in range(rounds):
        callers = [trial.start(random_.getrandbits(32), at_once) for _ in range(plan.processes)]
        kills += _disturb(trial, plan, callers, random_)
        for caller in callers[1:]:  # the others are not killed, and go on with the calls of the dead
            caller.end()
        callers[0].end()
    trial.wait_until_nobody_acts()
    before = _finish(trial, plan, random_, at_once)
    is_good = before.is_right if plan.promise in REPEATABLE else before.is_honest
    trial.settle()
    after = _finish(trial, plan, random_, at_once)
    score.trials += 1
    score.kills += kills
    score.effects += trial.outside.effects().total()
    score.lost += len(before.lost)
    score.repeated += len(before.repeated)
    score.named += len(before.named)
    if not is_good or not after.is_right:
        score.wrong.append(f"{plan}: {before if not is_good else after}")


def _disturb(trial: Trial, plan: Plan, callers: list[Process], random_: random.Random) -> int:
    """Kill the victim at a random moment of its life. Returns how many were killed."""
    if plan.victim == "answer":
        return 0
    kills = 0
    span = 0.15 if plan.kind in IN_PROCESS else 0.4
    victim = callers[0]
    if random_.random() < 0.8:  # else it may be killed while it opens its journal
        victim.wait_until_it_calls()
    if plan.victim == "host":
        if not victim.wait(random_.uniform(0.0, span)):
            victim.kill()
            kills += 1
        return kills
    for _ in range(3):
        if victim.wait(random_.uniform(0.05, span / 2)):
            return kills
        for actor in trial.outside.actors()[-1:]:
            with suppress(ProcessLookupError):
                os.kill(actor, signal.SIGKILL)
                kills += 1
    return kills


def _finish(trial: Trial, plan: Plan, random_: random.Random, at_once: int) -> Verdict:
    """Callers that nobody kills make all calls again."""
    callers = [trial.start(random_.getrandbits(32), at_once) for _ in range(plan.processes)]
    reports = [caller.end() for caller in callers]
    verdicts = [trial.judge(report) for report in reports]
    return next((it for it in verdicts if not it.is_right), verdicts[0])


def plans(arguments: argparse.Namespace) -> list[Plan]:
    random_ = random.Random(arguments.seed)
    found: list[Plan] = []
    choices = [
        (kind, promise, processes, victim)
        for kind in arguments.kinds.split(",")
        for promise in arguments.promises.split(",")
        for processes in map(int, arguments.processes.split(","))
        for victim in arguments.victims.split(",")
        if (victim != "actor" or kind in ELSEWHERE) and (victim != "answer" or kind != "server")
    ]
    while len(found) < arguments.trials:
        for choice in choices:
            first = not found
            found.append(Plan(*choice, seed=arguments.seed if first else random_.getrandbits(32)))
    return found[: arguments.trials]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", default=",".join(IN_PROCESS))
    parser.add_argument("--promises", default=",".join(PROMISES))
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--victims", default="host,actor,answer")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    scores: dict[tuple[str, str, str, int], Score] = {}
    cache = Path(tempfile.mkdtemp(prefix="crashes-cache-"))
    with Hosts() as hosts:
        for number, plan in enumerate(plans(arguments), 1):
            directory = Path(tempfile.mkdtemp(prefix="crashes-"))
            score = scores.setdefault((plan.kind, plan.promise, plan.victim, plan.processes), Score())
            run_trial(hosts, plan, directory, cache, score)
            if score.wrong and str(plan) in score.wrong[-1]:
                print(f"WRONG, see {directory}: {score.wrong[-1]}", flush=True)
            else:
                shutil.rmtree(directory)
            hosts.stop_serving()
            if number % 50 == 0:
                print(f"{number} trials", flush=True)
    shutil.rmtree(cache, ignore_errors=True)
    return _print(scores)


def _print(scores: dict[tuple[str, str, str, int], Score]) -> int:
    total: Counter[str] = Counter()
    head = (
        "tool in",
        "effects",
        "victim",
        "processes",
        "trials",
        "kills",
        "calls",
        "repeated",
        "lost",
        "named",
        "wrong",
    )
    print(("{:<10}{:<12}{:<8}" + "{:>10}" * 8).format(*head))
    for key, it in scores.items():
        numbers = (it.trials, it.kills, it.trials * CALLS, it.repeated, it.lost, it.named, len(it.wrong))
        total.update(dict(zip(head[4:], numbers, strict=True)))
        print(("{:<10}{:<12}{:<8}" + "{:>10}" * 8).format(*key, *numbers))
    print(("{:<40}" + "{:>10}" * 7).format("all", *total.values()))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
