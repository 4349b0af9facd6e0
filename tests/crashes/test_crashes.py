"""Every call happens once, or `toolrun effects` names it: whoever is killed, at whichever step of a call.

The short form of `script/crashes`: here a kill hits an exact step, there any moment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from crashes.trial import REPEATABLE, SETTLE_AFTER, Trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and pidfd")

MakeTrial = Callable[[str, str, int], Trial]


def call_until_nobody_dies(trial: Trial) -> list[dict[str, Any]]:
    """The program is started again and again, as whoever watches over it does, and makes all its calls each time."""
    reports = []
    for seed in range(10):
        report = trial.start(seed).end()
        reports.append(report)
        if report[-1:] == [{"end": True}] and not trial.outside.unmet():
            trial.wait_until_nobody_acts()
            return trial.start(seed).end()  # what a lost worker or answer left behind is repeated, too
    raise AssertionError(f"the program never came to its end: {trial.outside.unmet()} fates are unmet, {reports}")


def check(trial: Trial) -> None:
    """What every trial has to show, with or without somebody who can say what happened."""
    report = call_until_nobody_dies(trial)
    trial.wait_until_nobody_acts()
    verdict = trial.judge(report)
    if trial.promise in REPEATABLE:
        assert verdict.is_right, verdict
        return
    assert verdict.is_honest, verdict
    assert verdict.lost, verdict  # some effect had no chance to happen
    assert len(verdict.named) < len(trial.names), verdict  # the others are not doubted
    trial.settle()
    verdict = trial.judge(trial.start().end())
    assert verdict.is_right, verdict


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        ("thread", "keyed"),
        ("thread", "verify"),
        ("thread", "idempotent"),
        ("thread", "undeclared"),
        ("coroutine", "keyed"),
        ("coroutine", "verify"),
        ("coroutine", "once"),
        ("nested", "keyed"),
        ("nested", "verify"),
    ],
)
def test_a_host_that_is_killed_or_gets_no_answer_repeats_and_loses_nothing_unnamed(
    make_trial: MakeTrial, kind: str, promise: str
) -> None:
    trial = make_trial(kind, promise, 5)
    trial.outside.doom("000", "before", "kill host")
    trial.outside.doom("001", "after", "kill host")
    trial.outside.doom("002", "before", "lose answer")
    trial.outside.doom("003", "after", "lose answer")
    check(trial)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        ("isolated", "keyed"),
        ("isolated", "verify"),
        ("script", "verify"),
        ("script", "undeclared"),
        ("server", "verify"),
        ("server", "once"),
        ("remote", "keyed"),
        ("remote", "verify"),
        ("remote", "once"),
        ("remote", "undeclared"),
    ],
)
def test_a_worker_or_server_that_is_killed_repeats_and_loses_nothing_unnamed(
    make_trial: MakeTrial, kind: str, promise: str
) -> None:
    trial = make_trial(kind, promise, 5)
    trial.outside.doom("000", "before", "kill me")
    trial.outside.doom("001", "after", "kill me")
    trial.outside.doom("002", "before", "kill host")
    trial.outside.doom("003", "after", "kill host")
    check(trial)


@pytest.mark.parametrize("point", ["before", "after"])
def test_toolrun_effects_names_the_call_of_a_dead_host_although_nobody_has_started_again(
    make_trial: MakeTrial, point: str
) -> None:
    trial = make_trial("thread", "once", 2)
    trial.outside.doom("000", point, "kill host")
    trial.start(calls=["001", "000"], seed=1).end()
    assert [name for name, _ in trial.doubts()] == ["000"]
    trial.settle()
    assert not trial.doubts()
    verdict = trial.judge(trial.start().end())
    assert verdict.is_right, verdict


@pytest.mark.parametrize("promise", ["verify", "once"])
def test_a_server_that_survives_a_dead_host_is_given_time_to_act(make_trial: MakeTrial, promise: str) -> None:
    trial = make_trial("remote", promise, 1)
    configuration = trial.directory / "toolrun.toml"
    text = configuration.read_text().replace(f"settle_after = {SETTLE_AFTER}", "settle_after = 3600")
    configuration.write_text(text)
    trial.outside.doom("000", "before", "kill host, wait")
    trial.start().end()
    answer, _ = trial.start().end()  # whoever believes now that nothing happened makes it happen twice
    assert (answer["kind"], trial.outside.effects()["000"]) == ("in_doubt", 0)
    (trial.directory / "go on").touch()
    trial.wait_for_effects(1)
    if promise == "once":
        trial.settle()
    verdict = trial.judge(trial.start().end())
    assert verdict.is_right, verdict


@pytest.mark.parametrize("kind", ["isolated", "script", "server"])
def test_what_died_with_its_host_cannot_act_any_more_so_a_person_may_say_at_once_that_nothing_happened(
    make_trial: MakeTrial, kind: str
) -> None:
    trial = make_trial(kind, "once", 1)
    trial.outside.doom("000", "before", "kill both")
    trial.start().end()
    trial.settle()
    assert not trial.doubts()
    verdict = trial.judge(trial.start().end())
    assert verdict.is_right, verdict


@pytest.mark.parametrize("promise", ["keyed", "verify", "once"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_host_that_is_stopped_is_not_taken_for_dead_by_another_with_the_same_calls(
    make_trial: MakeTrial, promise: str, is_killed: bool
) -> None:
    trial = make_trial("thread", promise, 4)
    trial.outside.doom("000", "before", "stop host")
    stopped = trial.start(calls=["000"])
    stopped.wait_until_stopped()
    other = trial.start(at_once=4)
    other.wait_for_answers(3)  # all but the one that the stopped host has begun
    assert trial.outside.effects()["000"] == 0
    os.kill(stopped.pid, signal.SIGKILL if is_killed else signal.SIGCONT)
    stopped.end()
    verdict = trial.judge(other.end())
    if is_killed and promise == "once":
        assert verdict.is_honest
        assert verdict.lost == verdict.named == {"000"}
        trial.settle()
        verdict = trial.judge(trial.start().end())
    assert verdict.is_right, verdict


@pytest.mark.parametrize("promise", ["keyed", "verify", "once", "undeclared"])
def test_a_call_that_acts_after_its_deadline_is_not_made_twice_by_who_repeats_it_meanwhile(
    make_trial: MakeTrial, promise: str
) -> None:
    trial = make_trial("thread", promise, 1)
    trial.outside.doom("000", "before", "wait")
    caller = trial.start(timeout=0.5, repeats=1000)
    if promise == "keyed":
        caller.wait_for_answers(1)  # the second attempt is let through: its destination knows the key
    else:
        caller.wait_for_answers(3)
        assert trial.outside.effects()["000"] == 0  # nobody was believed that it will not happen any more
    (trial.directory / "go on").touch()
    verdict = trial.judge(caller.end())
    assert verdict.is_right, verdict
