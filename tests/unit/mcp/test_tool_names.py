"""Names of the tools of several servers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from toolrun.mcp.tool_names import PROVIDERS, name_tools, provider_names
from toolrun.tools.protocol import check_name

NAME = st.one_of(
    st.sampled_from(["search", "a", "b", "a__search", "b__search", "x.y", "x_y", "x y", "a__x_y", "", "ü"]),
    st.text(max_size=5),
    st.text(alphabet="ab.", min_size=60, max_size=140),
)
TOOLS = st.dictionaries(NAME, st.lists(NAME, max_size=6), max_size=4)


def test_a_name_that_one_server_has_stays() -> None:
    assert name_tools({"a": ["search", "fetch"], "b": ["list"]}) == {
        "search": ("a", "search"),
        "fetch": ("a", "fetch"),
        "list": ("b", "list"),
    }


def test_a_name_that_two_servers_have_is_kept_for_both() -> None:
    assert name_tools({"a": ["search"], "b": ["search", "list"]}) == {
        "a__search": ("a", "search"),
        "b__search": ("b", "search"),
        "list": ("b", "list"),
    }


def test_a_name_that_another_tool_has_is_left_to_that_tool() -> None:
    assert name_tools({"a": ["search"]}, ["search"]) == {"a__search": ("a", "search")}


def test_a_name_that_providers_refuse_gives_way_to_one_that_is_right_as_it_is() -> None:
    assert name_tools({"a": ["x.y"]}) == {"x_y": ("a", "x.y")}
    assert name_tools({"a": ["x.y"], "b": ["x_y"]}) == {"x_y": ("b", "x_y"), "a__x_y": ("a", "x.y")}


def test_long_names_stay_apart() -> None:
    one, other = "n" * 100 + "1", "n" * 100 + "2"
    table = name_tools({"a": [one, other]})
    assert sorted(table.values()) == [("a", one), ("a", other)]
    assert all(name.startswith("n" * 55) for name in table)


@given(TOOLS, st.lists(NAME, max_size=5), st.randoms(use_true_random=False))
def test_names_are_valid_unique_free_complete_and_do_not_depend_on_the_order(
    tools: dict[str, list[str]], taken: list[str], chance: random.Random
) -> None:
    table = name_tools(tools, taken)
    assert sorted(table.values()) == sorted({(server, tool) for server, names in tools.items() for tool in names})
    for name in table:
        assert PROVIDERS.accepts(name)
        check_name(name)
        assert name not in taken
    servers = list(tools)
    chance.shuffle(servers)
    assert name_tools({server: tools[server][::-1] for server in servers}, taken[::-1]) == table


@given(st.lists(NAME, max_size=10), st.randoms(use_true_random=False))
def test_names_for_providers_lead_back(names: list[str], chance: random.Random) -> None:
    table = provider_names(names)
    assert sorted(table.values()) == sorted(set(names))
    assert all(PROVIDERS.accepts(name) for name in table)
    assert all(table[name] == name for name in names if PROVIDERS.accepts(name))
    shuffled = list(names)
    chance.shuffle(shuffled)
    assert provider_names(shuffled) == table
