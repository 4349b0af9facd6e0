"""What becomes of the tools that a server lists, before anybody else sees them: they are compared with what was agreed
to, their hidden characters removed, their texts cut. Done once for each list, in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from toolrun.hidden_characters import has_hidden, reveal
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.mcp.client.channel import Server
from toolrun.mcp.client.session import ListedTool
from toolrun.redaction import HIDDEN, Redactor, is_sensitive
from toolrun.trust.definition_text import clean_schema, clean_text, cut_schema, cut_text
from toolrun.trust.pinned_definition import pin_definition
from toolrun.trust.pins import Pins

logger = get_logger("toolrun.mcp")

_MAX_TITLE: Final = 1_000
_FLAG: Final = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)(?:=(?P<value>.*))?", re.DOTALL)
_SHORTEST_SECRET: Final = 8
"""Characters of a variable's value that is taken for a secret because of its name."""


def review_tools(
    server: Server, listed: Iterable[ListedTool], limit: int, pins: Pins | None, redactor: Redactor
) -> list[ListedTool]:
    """The tools for models; each knows what people have to see of it. `limit` is that of a description."""
    reached = reached_by(server, redactor)
    said = [(it, pin_definition(_definition(it, reached), limit)) for it in listed]
    if pins is not None:
        pins.review(server.name, {it.name: definition for it, definition in said})
    tools = [replace(it, definition=definition.hash) for it, definition in said]
    return [clean for it in tools if (clean := _clean(server.name, it, limit)) is not None]


def reached_by(server: Server, redactor: Redactor) -> dict[str, JSON]:
    """The command or the address of a server, without secrets: they may change, and are not for files."""
    settings = server.settings
    if settings.url:
        parts = urlsplit(settings.url)
        return {"url": parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()}
    secrets = [*settings.env.items(), *settings.headers.items(), *server.environ.items()]
    own = [str(it) for name, it in secrets if is_sensitive(name) and len(str(it)) >= _SHORTEST_SECRET]
    hide, hide_own = redactor.hide_values, Redactor(own).hide_values
    arguments: list[JSON] = [hide_own(hide(it)) for it in _without_flags(settings.args)]
    return {"command": settings.command, "args": arguments}


def _without_flags(args: Iterable[str]) -> Iterable[str]:
    """The arguments without the values of `--api-key …` and `--api-key=…`."""
    before = ""
    for text in args:
        flag = _FLAG.fullmatch(text)
        if flag is None:
            yield HIDDEN if is_sensitive(before) else text
        elif flag["value"] is not None and is_sensitive(flag["name"]):
            yield f"{text[: flag.start('value')]}{HIDDEN}"
        else:
            yield text
        before = flag["name"] if flag is not None and flag["value"] is None else ""


def _definition(listed: ListedTool, reached: Mapping[str, JSON]) -> dict[str, Any]:
    return {
        "server": reached,
        "name": listed.name,
        "title": listed.title,
        "description": listed.description if listed.is_described else None,
        "inputSchema": listed.schema,
        "outputSchema": listed.output_schema,
        "annotations": listed.annotations,
    }


def _clean(server: str, listed: ListedTool, limit: int) -> ListedTool | None:
    """The tool for models; None if it cannot be offered to them."""
    schema, exact = clean_schema(listed.schema, limit)
    output, more = clean_schema(listed.output_schema, limit) if listed.output_schema is not None else (None, [])
    if exact or more:
        logger.warning(
            "MCP server '%s' lists a tool that cannot be used: the schema of '%s' has hidden characters in names or "
            "values that a caller has to repeat: %s",
            server,
            reveal(listed.name),
            ", ".join([*exact, *more][:5]),
        )
        return None
    if has_hidden(listed.name):
        logger.warning(
            "MCP server '%s' lists a tool with hidden characters in its name: %s", server, reveal(listed.name)
        )
    clean = replace(
        listed,
        description=clean_text(listed.description, limit),
        schema=schema,
        title=None if listed.title is None else clean_text(listed.title, min(limit, _MAX_TITLE)),
        output_schema=output,
        annotations=None if listed.annotations is None else clean_schema(listed.annotations, limit)[0],
    )
    if clean == listed:
        return listed
    said = replace(listed, description=cut_text(listed.description, limit), schema=cut_schema(listed.schema, limit))
    is_same = said.description == clean.description and said.schema == clean.schema
    return clean if is_same else replace(clean, as_said=said)
