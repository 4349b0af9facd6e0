"""S3.6: the transcriber of the voice gateway, with LangChain tools."""

from __future__ import annotations

import pytest

from acceptance.kinds import as_langchain
from acceptance.transcribing import prove_use_of_the_executor


@pytest.mark.scenario("S3.6.3")
async def test_s3_6_3_the_transcriber_uses_a_tool_executor() -> None:
    """WHEN BackgroundTranscriber handles a query with tools THEN every call is executed by its ToolExecutor."""
    await prove_use_of_the_executor(as_langchain)
