"""Names of parameters: which are the same, which only look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.schema.names import lookalikes, match_names


@pytest.mark.parametrize(
    ("sent", "known", "expected"),
    [
        (["dryRun"], ["dry_run"], {"dryRun": "dry_run"}),
        (["dry_run"], ["dryRun"], {"dry_run": "dryRun"}),
        (["dry-run"], ["dryrun"], {"dry-run": "dryrun"}),
        (["DRY_RUN_"], ["dry_run"], {"DRY_RUN_": "dry_run"}),
        (["dry_run"], ["dry_run"], {}),
        (["dryRun", "dry_run"], ["dry_run"], {}),  # the parameter was sent itself
        (["dryRun", "DryRun"], ["dry_run"], {}),  # one of them, but which?
        (["dryRun"], ["dry_run", "dryrun"], {}),  # two parameters that it may be
        (["dryRun", "dryrun"], ["dry_run", "dryrun"], {"dryRun": "dry_run"}),  # one of them is taken
        (["dry run"], ["dry_run"], {}),
        (["-"], ["_"], {}),
        (["a" * 300], ["A" * 300], {}),
    ],
)
def test_only_case_underscores_and_hyphens_may_differ(
    sent: list[str], known: list[str], expected: dict[str, str]
) -> None:
    assert match_names(sent, known) == expected


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("qury", ["limit", "query"], "query"),
        ("name_prefix", ["prefix"], "prefix"),
        ("rowNamePrefixFilter", ["prefix"], "prefix"),
        ("id", ["user_id"], "user_id"),
        ("dryRun", ["dry_run"], "dry_run"),
        ("colour", ["on"], None),
        ("x", ["x_axis"], None),
    ],
)
def test_a_misspelt_name_or_one_with_a_word_more_or_less_looks_like_a_parameter(
    name: str, known: list[str], meant: str | None
) -> None:
    assert lookalikes([name], known).get(name) == meant


def test_a_name_that_cannot_be_compared_may_look_like_a_parameter() -> None:
    known = [f"parameter_{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst"] + ["prefix"]
    unknown = [f"zzz{number}" for number in range(60)]
    found = lookalikes([*unknown, "name_prefix", "prefxi"], known)
    assert found.keys() == {*unknown, "name_prefix", "prefxi"}
    assert (found["name_prefix"], found["prefxi"]) == ("prefix", None)
    assert lookalikes(["zzz"], known) == {}
    assert lookalikes(["z" * 100_000], known) == {"z" * 100_000: None}
    assert lookalikes(["zzz"], [f"p{n}" for n in range(20_000)]) == {"zzz": None}


@given(
    known=st.lists(st.text("abcdefg", min_size=5, max_size=150), min_size=1, max_size=70, unique=True),
    extras=st.sets(st.text("stuvw", min_size=1, max_size=150), max_size=60),
    data=st.data(),
)
def test_a_misspelt_name_is_never_a_mere_extra_however_many_names_there_are(
    known: list[str], extras: set[str], data: st.DataObject
) -> None:
    meant = data.draw(st.sampled_from(known))
    misspelt = meant[:2] + "x" + meant[3:]
    assert misspelt in lookalikes([*extras, misspelt], known)


NAMES = st.text(st.sampled_from("aAbB_-"), min_size=1, max_size=5)


@given(st.lists(NAMES, unique=True), st.sets(NAMES))
def test_no_two_names_become_one(sent: list[str], known: set[str]) -> None:
    names = match_names(sent, known)
    after = [names.get(name, name) for name in sent]
    assert len(set(after)) == len(after)
    assert all(old not in known and new in known and new not in sent for old, new in names.items())
