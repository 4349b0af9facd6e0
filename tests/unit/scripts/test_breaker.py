"""The breaker, with time as an argument."""

from __future__ import annotations

from toolrun.scripts.breaker import COOL_DOWN, Breaker


def test_four_deaths_are_bad_luck_and_the_fifth_in_a_minute_opens_it() -> None:
    breaker = Breaker()
    for second in range(4):
        breaker.died(second)
        assert breaker.open_for(second) == 0
    breaker.died(4)
    assert breaker.open_for(4) == COOL_DOWN
    assert breaker.open_for(4 + COOL_DOWN) == 0


def test_deaths_that_are_far_apart_do_not_add_up() -> None:
    breaker = Breaker()
    for minute in range(20):
        breaker.died(minute * 60.0)
    assert breaker.open_for(19 * 60.0) == 0


def test_a_death_of_the_probe_opens_it_again_and_a_success_forgets_everything() -> None:
    breaker = Breaker()
    for second in range(5):
        breaker.died(second)
    breaker.died(40)
    assert breaker.open_for(40) == COOL_DOWN
    breaker.worked()
    assert (breaker.open_for(41), breaker.wait(41)) == (0, 0)


def test_the_wait_before_a_start_grows_with_the_deaths_and_has_an_end() -> None:
    breaker = Breaker()
    waits = []
    for second in range(5):
        waits.append(breaker.wait(second))
        breaker.died(second)
    assert waits[:2] == [0, 0]
    assert waits == sorted(waits)
    assert breaker.wait(5) <= 5
