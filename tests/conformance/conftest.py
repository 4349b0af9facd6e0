"""The suite, or the reason why there is none: skipped on a developer's machine, failed in CI."""

from __future__ import annotations

import os

import pytest

from conformance import suite


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    try:
        suite.install()
        suite.node()
    except suite.MissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the conformance suite is missing: {error}")
        pytest.skip(f"the conformance suite is missing: {error}")
