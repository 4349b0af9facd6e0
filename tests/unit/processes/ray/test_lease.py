"""The lease: what the replica and the gateway know of each other. The test is the clock and the network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolrun.processes.ray.lease import BEAT, FENCE, Lease, Watch


def test_a_lease_that_nobody_acknowledges_is_over_after_its_time() -> None:
    lease = Lease(3.0, 100.0)
    lease.beat(100.0)
    assert not lease.is_over(102.9)
    assert lease.is_over(103.0)


def test_an_acknowledgement_counts_from_the_moment_in_which_its_beat_was_sent() -> None:
    lease = Lease(3.0, 100.0)
    number = lease.beat(101.0)
    lease.acknowledge(number)  # however late it comes
    assert not lease.is_over(103.9)
    assert lease.is_over(104.0)


def test_an_acknowledgement_that_comes_twice_or_after_a_later_one_extends_nothing() -> None:
    lease = Lease(3.0, 0.0)
    first, second = lease.beat(0.5), lease.beat(1.0)
    lease.acknowledge(second)
    lease.acknowledge(first)
    lease.acknowledge(second)
    assert lease.is_over(4.0)


def test_a_number_that_was_never_sent_extends_nothing() -> None:
    lease = Lease(3.0, 0.0)
    lease.beat(1.0)
    lease.acknowledge(99)
    assert lease.is_over(3.0)


def test_silence_is_noticed_before_the_lease_is_over() -> None:
    watch = Watch(3.0, 0.0)
    watch.heard(10.0)
    assert not watch.is_silent(10.0 + 2 * BEAT)
    assert watch.is_silent(10.0 + 3 * BEAT)
    assert not watch.is_over(13.0)
    assert watch.is_over(13.0 + FENCE)


@given(
    st.floats(1.0, 20.0),
    st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 10.0)), min_size=1, max_size=30),
)
def test_the_gateway_never_takes_a_worker_for_ended_while_its_lease_holds(
    duration: float, delays: list[tuple[float, float]]
) -> None:
    """Whatever the delays in both directions, and whichever messages are lost (a delay of more than 9)."""
    lease, watch = Lease(duration, 0.0), Watch(duration, 0.0)
    send, arrive, come_back = range(3)
    events: list[tuple[float, int, int]] = []
    for index, (there, back) in enumerate(delays):
        sent = index * BEAT
        events.append((sent, send, index))
        if there < 9:
            events.append((sent + there, arrive, index))
            if back < 9:
                events.append((sent + there + back, come_back, index))
    numbers: dict[int, int] = {}
    for moment, kind, index in sorted(events):
        if watch.is_over(moment):
            assert lease.is_over(moment)
            break
        if kind == send:
            numbers[index] = lease.beat(moment)
        elif kind == arrive:
            watch.heard(moment)
        else:
            lease.acknowledge(numbers[index])
