"""The files of the page over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from toolrun.server.static_files import StaticFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "console"
    (made / "pages").mkdir(parents=True)
    (made / "index.html").write_text("<!doctype html><title>page</title>")
    (made / "pages/calls.js").write_text("export const page = 1;")
    (made / "notes.py").write_text("secret = 1")
    (made / ".hidden.js").write_text("secret")
    (made / "pages/.cache").mkdir()
    (made / "pages/.cache/old.js").write_text("secret")
    (tmp_path / "outside.js").write_text("secret")
    return made


@pytest_asyncio.fixture
async def browser(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=StaticFiles(folder))
    async with httpx2.AsyncClient(transport=transport, base_url="http://toolrun") as client:
        yield client


def test_only_known_types_that_nobody_hid_are_served(folder: Path) -> None:
    assert StaticFiles(folder).paths == {"/", "/console/index.html", "/console/pages/calls.js"}


@pytest.mark.parametrize(
    ("path", "type"),
    [("/", "text/html; charset=utf-8"), ("/console/pages/calls.js", "text/javascript; charset=utf-8")],
)
async def test_a_file_has_its_type_and_may_load_nothing_from_elsewhere(
    path: str, type: str, browser: httpx2.AsyncClient
) -> None:
    answer = await browser.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, type)
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"


async def test_a_file_that_the_browser_has_is_not_sent_again_until_it_changes(
    folder: Path, browser: httpx2.AsyncClient
) -> None:
    first = await browser.get("/")
    known = {"if-none-match": f'"other", W/{first.headers["etag"]}'}
    again = await browser.get("/", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    (folder / "index.html").write_text("<!doctype html><title>another</title>")
    changed = await browser.get("/", headers=known)
    assert (changed.status_code, changed.text) == (200, "<!doctype html><title>another</title>")
    assert changed.headers["etag"] != first.headers["etag"]


async def test_head_tells_what_get_would(browser: httpx2.AsyncClient) -> None:
    got, asked = await browser.get("/"), await browser.head("/")
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers == got.headers


async def test_a_file_is_only_read(browser: httpx2.AsyncClient) -> None:
    answer = await browser.post("/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json() == {"error": "use GET here"}
