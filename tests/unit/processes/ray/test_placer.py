"""Which nodes a replica may be placed on, before Ray is asked for one of them."""

from __future__ import annotations

from collections import Counter

import pytest

from toolrun.processes.ray.placer import choose_nodes

A, B, C = "a", "b", "c"


@pytest.mark.parametrize(
    ("nodes", "avoided", "counts", "preferred", "usable"),
    [
        ([A, B, C], set(), {}, [A, B, C], [A, B, C]),
        ([A, B, C], set(), {A: 1}, [B, C], [A, B, C]),
        ([A, B, C], set(), {A: 2, B: 1, C: 1}, [B, C], [A, B, C]),
        ([A, B, C], {B}, {A: 1}, [C], [A, C]),  # the one without replicas is avoided
        ([A, B], {B}, {A: 5}, [A], [A]),
        ([A, B], {A, B}, {A: 1}, [B], [A, B]),  # there is no other
        ([A], set(), {B: 3}, [A], [A]),  # those of a node that is gone do not count
        ([], {A}, {A: 1}, [], []),
    ],
)
def test_the_nodes_with_the_fewest_replicas_are_asked_for_first_and_never_one_that_is_avoided_if_there_is_another(
    nodes: list[str], avoided: set[str], counts: dict[str, int], preferred: list[str], usable: list[str]
) -> None:
    assert choose_nodes(nodes, avoided, Counter(counts)) == (preferred, usable)
