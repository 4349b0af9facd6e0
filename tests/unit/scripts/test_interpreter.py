"""Which `requires-python` the running interpreter surely meets. What uv says of the same: tests/contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from toolrun.scripts.interpreter import base_interpreter, is_met

VERSION = (3, 11, 7)


@pytest.mark.parametrize(
    "specifier", ["", " ", ">=3.8", ">=3.11,<4", " >= 3.8 , != 3.9.* ", "~=3.10", "~=3.11.0", "==3.*", "!=3.10", ">3"]
)
def test_a_specifier_that_the_version_meets(specifier: str) -> None:
    assert is_met(specifier, VERSION)


@pytest.mark.parametrize(
    "specifier", [">=3.12", "<3.11", "==3.11", "!=3.11", "!=3.11.*", "~=3.11.8", "<=3.11", ">=3.8,<3.11.7"]
)
def test_a_specifier_that_it_does_not_meet(specifier: str) -> None:
    assert not is_met(specifier, VERSION)


@pytest.mark.parametrize(
    "specifier", ["3.11", "three", ">=3.11.0rc1", "===3.11.7", "~=3", ">=3.*", ",", ">=3.8,", ">=3.8 <4", "/bin/ls"]
)
def test_what_is_not_understood_is_left_to_uv(specifier: str) -> None:
    assert not is_met(specifier, VERSION)


CLAUSES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["~=", "==", "!=", "<=", ">=", "<", ">", "===", ""]),
    st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, [3, *parts[1:]]))),
    st.sampled_from(["", "", "", ".*", "rc1"]),
)


@given(st.lists(CLAUSES, max_size=3), st.tuples(st.just(3), st.integers(0, 12), st.integers(0, 12)))
def test_what_is_met_is_met_by_the_rules_of_python_packaging(clauses: list[str], version: tuple[int, ...]) -> None:
    specifier = ",".join(clauses)
    if is_met(specifier, version):
        try:
            rules = SpecifierSet(specifier)
        except InvalidSpecifier:
            pytest.fail(f"{specifier!r} is no specifier")
        assert rules.contains(".".join(map(str, version)))


def test_the_base_interpreter_is_a_program() -> None:
    assert base_interpreter().is_file()
