"""The files of the page: a table from path to file, made at the start, so that no path can lead anywhere else.

A file that changes is read again, so that whoever works on the page need not start the server again. The page may load
nothing that is not in the table: its Content-Security-Policy says so to the browser.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.types import Receive, Scope, Send

from toolrun.json import dumps

FOLDER: Final = Path(__file__).with_name("console")
_START: Final = "index.html"
_PREFIX: Final = "/console/"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
"""A file of another type is not served."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


class _File:
    """One file, as it was when it was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._type = _TYPES[path.suffix].encode()
        self._seen: tuple[int, int] | None = None
        self._body = self._tag = b""

    def read(self) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Its content, and the headers that go with it."""
        status = self._path.stat()
        seen = (status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._body = self._path.read_bytes()
            self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'.encode()
            self._seen = seen
        return self._body, [*_HEADERS, (b"content-type", self._type), (b"etag", self._tag)]


class StaticFiles:
    """An ASGI application for `paths`."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: dict[str, _File] = {}
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.suffix in _TYPES and path.is_file() and not any(part.startswith(".") for part in name.split("/")):
                self._files[_PREFIX + name] = _File(path)
        if (start := self._files.get(_PREFIX + _START)) is not None:
            self._files["/"] = start
        self.paths = frozenset(self._files)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, headers = self._files[scope["path"]].read()
        status = 200
        if scope["method"] not in ("GET", "HEAD"):
            body, status = dumps({"error": "use GET here"}), 405
            headers = [(b"content-type", b"application/json"), (b"allow", b"GET")]
        elif dict(headers)[b"etag"] in _tags(scope):
            body, status = b"", 304
        if status != 304:
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _tags(scope: Scope) -> list[bytes]:
    """The versions that the browser has."""
    given = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
    return [tag.strip().removeprefix(b"W/") for tag in given.split(b",")]
