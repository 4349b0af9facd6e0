"""The OpenAPI document of the API, made of its operations: what is checked and what is written down is the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from toolrun.json import JSON, Schema
from toolrun.server.operation import Operation
from toolrun.server.type_schema import schema_of_answer, schema_of_body
from toolrun.version import __version__

_REFERENCES: Final = "#/components/schemas/{model}"
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What is wrong, and what to do."}},
    "required": ["error"],
}
_EVERY: Final = {
    400: "The request cannot be read, or does not match this document.",
    401: "The token is missing or wrong.",
    403: "A browser sent it from a page of another origin.",
    421: "The Host header does not name this server.",
    431: "The head of the request is too large.",
    503: "The server is stopping, or what the request needs cannot be used.",
}
_WITH_BODY: Final = {
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
}
_ABOUT: Final = (
    "The tools of a project, their calls, and what became of them. Send the token as `Authorization: Bearer TOKEN`. "
    "Times are microseconds since 1970."
)


def document(operations: Iterable[Operation]) -> Schema:
    """OpenAPI 3.1."""
    parts = _SharedSchemas()
    paths: dict[str, Any] = {}
    for it in operations:
        paths.setdefault(it.path, {})[it.method.lower()] = _operation(it, parts)
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolrun", "version": __version__, "description": _ABOUT},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR, **parts.schemas},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _SharedSchemas:
    """The schemas that operations share, by name."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def add(self, found: Schema) -> Schema:
        """A schema with its parts put among the others; one that has a name is referred to."""
        self.schemas |= cast("Schema", found.pop("$defs", {}))
        if (title := found.get("title")) is None or "properties" not in found:
            return found
        self.schemas[str(title)] = found
        return {"$ref": _REFERENCES.format(model=title)}


def _operation(it: Operation, parts: _SharedSchemas) -> Schema:
    failures = {**_EVERY, **(_WITH_BODY if it.body is not None or it.method == "POST" else {}), **it.failures}
    answers: dict[str, Any] = {"200": {"description": "As asked.", "content": _content(it, parts)}}
    for status, words in sorted(failures.items()):
        error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        answers[str(status)] = {"description": words, "content": error}
    found: dict[str, Any] = {
        "operationId": _id(it),
        "summary": it.summary,
        "parameters": [*_path_parameters(it), *_query_parameters(it)],
        "responses": answers,
    }
    if it.body is not None:
        body = parts.add(schema_of_body(it.body, _REFERENCES))
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if it.is_public:
        found["security"] = []
    if it.events:
        lines = [f"- `{name}`: {words}" for name, words in it.events.items()]
        found["description"] = "\n".join(["Events:", "", *lines])
    return found


def _content(it: Operation, parts: _SharedSchemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if not isinstance(it.answer, str):
        content["application/json"] = {"schema": parts.add(schema_of_answer(it.answer, _REFERENCES))}
    elif not it.events:
        content[it.answer] = {"schema": {"type": "string"}}
    if it.events:
        content[
            "text/event-stream"
        ] = {}  # OpenAPI 3.1 has no words for the events of a stream: the description has them
    return content


def _path_parameters(it: Operation) -> list[JSON]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in it.pattern.groupindex
    ]


def _query_parameters(it: Operation) -> list[JSON]:
    return [{"name": each.name, "in": "query", "description": each.words, "schema": each.schema} for each in it.query]


def _id(it: Operation) -> str:
    words = [part.strip("{}") for part in it.path.split("/") if part]
    return "_".join([it.method.lower(), *words]).replace(".", "_")
