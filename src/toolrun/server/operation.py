"""One operation of the API: what it takes, what it gives, and who answers. The OpenAPI document is made of these.

What a request says is checked here against the same schemas that the document shows, so that neither can be wrong
about the other.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from toolrun.journal.moment import parse_moment
from toolrun.json import JSON
from toolrun.server.request_error import RequestError
from toolrun.text import show, suggestion

if TYPE_CHECKING:
    from toolrun.schema import ArgumentSchema

_MAX_FIELDS: Final = 50
_MAX_TEXT: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MICROSECONDS: Final = re.compile(r"[0-9]{13,17}")
"""A time as answers have it."""
_TIMES: Final[tuple[JSON, ...]] = (
    {"pattern": "^[0-9]{1,4}(s|m|min|h|d|w)$", "description": "So long ago."},
    {
        "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$",
        "description": "Today, in the time zone of the server.",
    },
    {"format": "date"},
    {"format": "date-time"},
    {"pattern": f"^{_MICROSECONDS.pattern}$", "description": "As answers have it."},
    {"maxLength": 0, "description": "No limit, like no parameter."},
)
_PART: Final = re.compile(r"\{(\w+)\}")
_SMALL_BODY: Final = 1_000_000
"""Bytes of a request that has no arguments of tools in it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the query string."""

    name: str
    words: str
    """What it is for."""
    kind: str = "text"
    """`text`, `number`, `time`, or the choices with `|` between them."""
    default: Any = None
    least: int = 0
    most: int = 1000

    @property
    def schema(self) -> dict[str, JSON]:
        if self.kind == "number":
            return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}
        if "|" in self.kind:
            return {"type": "string", "enum": list(self.kind.split("|"))}
        if self.kind == "time":
            return {"type": "string", "anyOf": [*_TIMES]}
        return {"type": "string", "maxLength": _MAX_TEXT}

    def read(self, text: str) -> Any:
        """Its value. Raises RequestError."""
        if self.kind == "number":
            if not _NUMBER.fullmatch(text) or not self.least <= int(text) <= self.most:
                raise RequestError(
                    400, f"{self.name} must be a number from {self.least} to {self.most}; got {show(text)}"
                )
            return int(text)
        if "|" in self.kind and text not in self.kind.split("|"):
            raise RequestError(400, f"{self.name} must be one of {', '.join(self.kind.split('|'))}; got {show(text)}")
        if len(text) > _MAX_TEXT:
            raise RequestError(400, f"{self.name} may have at most {_MAX_TEXT:,} characters")
        if self.kind == "time":
            if _MICROSECONDS.fullmatch(text):
                return int(text)
            try:
                return parse_moment(text)
            except ValueError as error:
                raise RequestError(400, f"{self.name}: {error}") from None
        return text


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What a client asks, checked."""

    parts: Mapping[str, str]
    """Those of the path that vary."""
    query: Mapping[str, Any]
    """Each parameter of the operation: what was given, or its default."""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[ApiRequest], Awaitable[Any]]
"""Returns the JSON of the answer, an `ApiAnswer` or an `EventStream`. Raises RequestError."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    """Parts that vary are in braces."""
    handler: Handler
    summary: str
    answer: Any
    """The type of the answer, which pydantic knows to describe; a str is the media type of another answer."""
    body: Any = None
    """The type of the request, if it has one."""
    query: tuple[Parameter, ...] = ()
    failures: Mapping[int, str] = field(default_factory=dict)
    """Statuses besides those of every operation, and when they occur."""
    events: Mapping[str, str] = field(default_factory=dict)
    """With `Accept: text/event-stream`: the events, and what is in them."""
    max_body: int = _SMALL_BODY
    is_public: bool = False
    """Whether it needs no token."""

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(_PART.sub(r"(?P<\1>[^/]+)", self.path))

    def read_query(self, text: bytes) -> dict[str, Any]:
        """The parameters. Raises RequestError."""
        found = {it.name: it.default for it in self.query}
        if not text:
            return found
        known = {it.name: it for it in self.query}
        try:
            given = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
        except ValueError:
            raise RequestError(400, "the query string cannot be read") from None
        for index, (name, value) in enumerate(given):
            if name not in known:
                hint = suggestion(name, known) if known else "this path takes none"
                raise RequestError(400, f"unknown parameter {show(name)}; {hint}")
            if name in dict(given[:index]):
                raise RequestError(400, f"{name} is given twice")
            if value:
                found[name] = known[name].read(value)
        return found

    def check_body(self, body: Any) -> None:
        """Raises RequestError for a request that is not as the document says."""
        if not isinstance(body, dict):
            raise RequestError(400, f"send a JSON object; got {show(body)}")
        schema = _compiled(self.body)
        if schema.is_valid(body):
            return
        checked = schema.check(body, strict=True)
        if checked.problems:
            raise RequestError(400, "; ".join(it.message for it in checked.problems))
        repairs = "; ".join(
            f"{it.path or 'the body'}: send {show(it.after)}, not {show(it.before)}" for it in checked.repairs
        )
        raise RequestError(400, repairs or "the body is not valid")


@cache
def _compiled(type: Any) -> ArgumentSchema:
    from toolrun.schema import ArgumentSchema
    from toolrun.server.type_schema import schema_of_body

    return ArgumentSchema(schema_of_body(type))
