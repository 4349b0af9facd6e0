"""Names of parameters: which are the same, which only look like one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolrun.schema.names import lookalikes, match_names

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines may be busy


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


def test_many_names_are_compared_by_their_words_alone() -> None:
    known = [f"parameter_{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst"] + ["prefix"]
    unknown = [f"zzz{number}" for number in range(60)]
    assert lookalikes([*unknown, "name_prefix", "prefxi"], known) == {"name_prefix": "prefix"}


NAMES = st.text(st.sampled_from("aAbB_-"), min_size=1, max_size=5)


@PATIENT
@given(st.lists(NAMES, unique=True), st.sets(NAMES))
def test_no_two_names_become_one(sent: list[str], known: set[str]) -> None:
    names = match_names(sent, known)
    after = [names.get(name, name) for name in sent]
    assert len(set(after)) == len(after)
    assert all(old not in known and new in known and new not in sent for old, new in names.items())
