"""What the contract tests of clients work with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.clients import KINDS, Side, open_side


@pytest.fixture(params=KINDS)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    """Each provider, streamed and not."""
    with open_side(request.param) as opened:
        yield opened


@pytest.fixture(params=[kind for kind in KINDS if "streamed" in kind])
def streamed_side(request: pytest.FixtureRequest) -> Iterator[Side]:
    """Each provider, streamed."""
    with open_side(request.param) as opened:
        yield opened
