"""A page of the console in Chromium, which fails the test for whatever a page must not do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Route, ViewportSize

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LIMIT = 60_000
"""Milliseconds that anything may take: the machine may be busy."""
WIDE: ViewportSize = {"width": 1400, "height": 900}
PHONE: ViewportSize = {"width": 400, "height": 800}
_WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@dataclass
class Watched:
    """What a context has done that it must not do."""

    host: str
    elsewhere: list[str] = field(default_factory=list)
    """Requests that are not local."""
    complaints: list[str] = field(default_factory=list)
    """Errors of scripts, of the policy, and of what could not be loaded."""
    expected: list[str] = field(default_factory=list)
    """What a test knows will be complained about."""

    async def watch(self, context: BrowserContext) -> None:
        context.set_default_timeout(LIMIT)
        await context.add_init_script(_WATCH)
        await context.route("**/*", self._route)

    def look_at(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))

    def check(self) -> None:
        assert not self.elsewhere, f"requests that are not local: {self.elsewhere}"
        left = [it for it in self.complaints if not any(known in it for known in self.expected)]
        assert not left, f"the page complains: {left}"

    async def _route(self, route: Route) -> None:
        if urlsplit(route.request.url).netloc == self.host:
            await route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            await route.abort()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")


def require_chromium() -> None:
    """Skip on a user's machine, fail in CI."""
    if CHROMIUM.exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{CHROMIUM} is not installed")
    pytest.skip(f"{CHROMIUM} is not installed")
