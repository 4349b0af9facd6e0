"""The suite, or the reason why there is none: skipped on a developer's machine, failed in CI."""

from __future__ import annotations

import pytest

from conformance import suite
from support.packages import MissingError, give_up


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    try:
        suite.install()
    except MissingError as error:
        give_up(error, "the conformance suite")
