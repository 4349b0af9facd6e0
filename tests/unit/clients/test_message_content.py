"""Content that a provider is not shown as it came."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from toolrun.clients.message_content import Audience, cleaned_words
from toolrun.clients.provider import _BY_PACKAGE
from toolrun.clients.wording import Wording

FETCHING = ["langchain_google_genai", "langchain_google_vertexai"]


@pytest.mark.parametrize("package", FETCHING)
@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/a.png"}},
        {"type": "image", "url": "http://169.254.169.254/a.png"},
        {"type": "video", "url": "http://169.254.169.254/a.mp4", "mime_type": "video/mp4"},
        {"type": "file", "source_type": "url", "url": "http://169.254.169.254/", "mime_type": "text/plain"},
    ],
)
def test_no_package_gets_an_address_that_it_would_fetch_from_this_machine(package: str, block: dict[str, Any]) -> None:
    shown = Audience(_BY_PACKAGE[package], Wording.load())
    content = cleaned_words(HumanMessage([block]), shown).content
    assert isinstance(content, list)
    [sent] = content
    assert isinstance(sent, dict)
    assert sent["type"] == "text"
    assert "cannot be shown" in sent["text"]
