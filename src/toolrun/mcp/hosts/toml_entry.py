"""A server of another program's file as text for toolrun.toml. Pure.

What looks like a secret is not copied: toolrun.toml is made to be shared, and the other file is often not. In its place
stands a variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from toolrun.config.model import ServerSettings
from toolrun.hidden_characters import has_hidden
from toolrun.json import JSON
from toolrun.mcp.hosts.host_files import variable_name
from toolrun.redaction import is_sensitive

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCHEME: Final = re.compile(r"((?:Bearer|Basic|Token)\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_FLAG: Final = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)(?:=(?P<value>.+))?", re.DOTALL)
_PARAMETER: Final = re.compile(r"(?P<name>[^?&=#]+)=(?P<value>[^&#]*)")
_KNOWN_SECRET: Final = re.compile(
    r"(?:sk|pk|rk)[-_][\w-]{16,}|gh[a-z]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}"
    r"|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|hf_\w{16,}|eyJ[\w-]{10,}\.[\w.-]+"
)
"""What the keys of well-known services look like."""


def without_secrets(name: str, settings: ServerSettings) -> tuple[ServerSettings, dict[str, str]]:
    """The settings with a variable for every secret, and {variable: where its value stands}."""
    hider = _Hider(name)
    env = {key: hider.value(f"env.{key}", key, str(text), variable=key) for key, text in settings.env.items()}
    headers = {key: hider.value(f"headers.{key}", key, str(text)) for key, text in settings.headers.items()}
    hidden = replace(settings, env=env, headers=headers, args=hider.args(settings.args), url=hider.url(settings.url))
    return hidden, hider.found


class _Hider:
    def __init__(self, server: str) -> None:
        self._server = server
        self.found: dict[str, str] = {}

    def value(self, where: str, key: str, text: str, variable: str = "") -> str:
        """The text, or a variable for it. A word that only says how it is meant (`Bearer`) stays."""
        if not text or "${" in text or not (is_sensitive(key) or _KNOWN_SECRET.search(text)):
            return text
        scheme, _ = _SCHEME.fullmatch(text).groups()  # type: ignore[union-attr]  # it matches every text
        variable = variable_name(variable or f"{self._server}_{key}")
        while self.found.get(variable, where) != where:
            variable += "_2"
        self.found[variable] = where
        return f"{scheme or ''}${{{variable}}}"

    def args(self, args: tuple[str, ...]) -> tuple[str, ...]:
        """`--api-key=…`, `--api-key …`, and what is known to be a key wherever it stands."""
        hidden: list[str] = []
        before = ""
        for index, text in enumerate(args):
            flag = _FLAG.fullmatch(text)
            where = f"args[{index}]"
            if flag is not None and flag["value"]:
                name = flag["name"]
                hidden.append(text[: flag.start("value")] + self.value(where, name, flag["value"]))
            elif flag is not None:
                hidden.append(text)
            else:
                hidden.append(self.value(where, before or "argument", text))
            before = flag["name"] if flag is not None and not flag["value"] else ""
        return tuple(hidden)

    def url(self, url: str) -> str:
        """The password and the parameters of an address."""
        parts = urlsplit(url)
        if parts.password:
            secret = self.value("url", "password", parts.password)
            url = url.replace(f":{parts.password}@", f":{secret}@", 1)
        head, mark, query = url.partition("?")
        return head + mark + _PARAMETER.sub(self._parameter, query)

    def _parameter(self, match: re.Match[str]) -> str:
        return f"{match['name']}={self.value('url', match['name'], match['value'])}"


def server_table(name: str, settings: ServerSettings, root: Path) -> str:
    """The `[servers.NAME]` of toolrun.toml. `root` is its directory: a server that starts there needs no `cwd`."""
    cwd = "" if settings.cwd and Path(settings.cwd) == root else settings.cwd
    values: dict[str, JSON] = {
        "command": settings.command,
        "args": list(settings.args),
        "env": dict(settings.env),
        "cwd": cwd,
        "url": settings.url,
        "transport": settings.transport,
        "headers": dict(settings.headers),
    }
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value]
    if not settings.enabled:
        lines.append("enabled = false")
    return "\n".join([f"[servers.{_key(name)}]", *lines, ""])


def _toml(value: JSON) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # A string of TOML is one of JSON, but for one character. What is hidden shall be seen in the file.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(_escape(it) if has_hidden(f"a{it}a") else it for it in text) if has_hidden(text) else text


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml(key)
