"""Ids of calls, as people see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.journal.call_record import make_id, read_id, show_id


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_an_id_is_read_as_it_is_shown(process: int, number: int) -> None:
    shown = show_id(make_id(process, number))
    assert shown == f"{process}-{number}"
    assert read_id(shown) == make_id(process, number)


@pytest.mark.parametrize(
    "text", ["", "17", "-", "17-", "-4", "a-b", "17-4-2", "1 7-4", "٣-٤", f"{2**31}-1", f"1-{2**32}"]
)
def test_anything_else_is_no_id(text: str) -> None:
    assert read_id(text) is None
