"""Names of the tools of several servers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.mcp.tool_names import PROVIDERS, name_tools, provider_names, settings_names
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


def test_a_prefix_belongs_to_its_server_whether_it_lists_tools_or_not() -> None:
    """Otherwise a second server could take over the tools of the first, before it is connected or for good."""
    for first in ([], ["x"], ["x", "y"]):
        table = name_tools({"a": first, "b": ["a__x", "y"]})
        assert table["b__a__x"] == ("b", "a__x")
        assert table.get("a__x") is None
    table = name_tools({"a": ["x"], "b": ["x", "a__x"]})
    assert table == {"a__x": ("a", "x"), "b__x": ("b", "x"), "b__a__x": ("b", "a__x")}


def test_a_name_with_its_own_prefix_is_not_disturbed_by_others() -> None:
    assert name_tools({"a": ["a__x"], "b": ["a__x"]}) == {"a__x": ("a", "a__x"), "b__a__x": ("b", "a__x")}


def test_of_servers_whose_names_begin_alike_each_keeps_its_prefix() -> None:
    table = name_tools({"a": ["b__c", "d"], "a__b": ["c", "d"]})
    assert table["a__b__d"] == ("a__b", "d")
    assert table["a__d"] == ("a", "d")
    assert table["c"] == ("a__b", "c")
    [name] = [name for name, origin in table.items() if origin == ("a", "b__c")]
    assert name == "b__c"
    table = name_tools({"a": ["b__c"], "a__b": ["c"]}, ["b__c", "c"])
    assert table["a__b__c"] == ("a__b", "c")
    [name] = [name for name, origin in table.items() if origin == ("a", "b__c")]
    assert not name.startswith("a__b__")


@pytest.mark.parametrize(
    ("server", "tool", "names"),
    [
        ("a", "x", ("a__x", "x")),
        ("b", "a__x", ("b__a__x",)),
        ("a", "x.y", ("a__x.y", "a__x_y", "x.y", "x_y")),
        ("a", "a__x", ("a__a__x", "a__x")),
        ("a__b", "c", ("a__b__c", "c")),
        ("a", "b__c", (f"{PROVIDERS.marked('a')}__b__c",)),
        ("my.server", "x", ("my.server__x", "my_server__x", "x")),
    ],
)
def test_settings_are_those_of_a_server_and_its_own_name(server: str, tool: str, names: tuple[str, ...]) -> None:
    assert settings_names(server, tool, ["a", "b", "a__b", "my.server"]) == names


def test_an_established_name_stays_with_its_owner_and_only_the_newcomer_gets_the_prefix() -> None:
    owners = {"search": ("a", "search")}
    table = name_tools({"a": ["search"], "b": ["search"], "c": ["search"]}, owners=owners)
    assert table == {"search": ("a", "search"), "b__search": ("b", "search"), "c__search": ("c", "search")}


def test_an_established_name_waits_for_its_owner() -> None:
    owners = {"search": ("a", "search")}
    assert name_tools({"a": [], "b": ["search"]}, owners=owners) == {"b__search": ("b", "search")}
    assert name_tools({"b": ["search"]}, owners=owners) == {"search": ("b", "search")}  # which is no longer configured


def test_a_name_of_the_project_and_a_prefix_go_before_an_established_name() -> None:
    assert name_tools({"a": ["search"]}, ["search"], {"search": ("a", "search")}) == {"a__search": ("a", "search")}
    owners = {"b__x": ("a", "b__x")}
    assert name_tools({"a": ["b__x"], "b": ["x"]}, ["x"], owners) == {"a__b__x": ("a", "b__x"), "b__x": ("b", "x")}


def test_a_name_that_was_made_to_fit_can_be_established() -> None:
    owners = {"x_y": ("a", "x.y")}
    assert name_tools({"a": ["x.y"], "b": ["x_y"]}, owners=owners) == {"x_y": ("a", "x.y"), "b__x_y": ("b", "x_y")}


@given(TOOLS, st.lists(NAME, max_size=5), st.dictionaries(NAME, st.tuples(NAME, NAME), max_size=3))
def test_names_are_valid_unique_free_and_complete_whoever_owns_some(
    tools: dict[str, list[str]], taken: list[str], owners: dict[str, tuple[str, str]]
) -> None:
    table = name_tools(tools, taken, owners)
    assert sorted(table.values()) == sorted({(server, tool) for server, names in tools.items() for tool in names})
    assert all(PROVIDERS.accepts(name) and name not in taken for name in table)
