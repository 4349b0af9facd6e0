"""What the tests of the command line and the documentation share."""

from __future__ import annotations

import pytest

from support.console import QUICKSTART, toolrun


@pytest.fixture(scope="session", autouse=True)
def environments_made_ahead() -> None:
    """The scripts of the quickstart are ready, so that no test depends on which of them was the first to need one."""
    done = toolrun("sync", cwd=QUICKSTART)
    assert done.returncode == 0, done.stderr
