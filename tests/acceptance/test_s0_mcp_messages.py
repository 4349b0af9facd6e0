"""S0.10: what a server of the older era writes on stdout that is no message."""

from __future__ import annotations

import pytest

from acceptance.project import Project
from acceptance.puppet import add_server, call_after_rubbish, rubbish_is_told


@pytest.mark.scenario("S0.10.1")
async def test_s0_10_1_what_failed_to_parse_is_in_the_message(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """GIVEN data from a server that is not JSON WHEN parsing fails THEN the message indicates the content."""
    add_server(project, era="legacy")
    async with project.open() as runtime:
        await rubbish_is_told(runtime, caplog)


@pytest.mark.scenario("S0.10.2")
async def test_s0_10_2_the_next_message_is_processed(project: Project) -> None:
    """GIVEN a parse error WHEN the next message arrives THEN the client goes on."""
    add_server(project, era="legacy")
    async with project.open() as runtime:
        await call_after_rubbish(runtime)
