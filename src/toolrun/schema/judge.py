"""Checks large arguments in a process of its own, which can be killed. What runs there is `judge`.

The check of arguments is one call into C, whose time depends on a stranger's schema and a model's arguments. In this
process it would hold every thread, so what may take long is sent to a worker as JSON text, in pieces.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, cast

from toolrun.json import JSON, JSONDecodeError, Schema, dumps, loads, loads_slowly
from toolrun.schema import repair as repairing
from toolrun.schema.arguments import ArgumentSchema, Checked, Rename, as_plain
from toolrun.schema.explain import Problem
from toolrun.schema.origin import Origin
from toolrun.schema.repair import Repair
from toolrun.schema.value import MAX_TEXT

_PIECE: Final = 500_000
_MAX_RETURNED: Final = 500_000
"""Characters of repaired arguments that come back: reading more would hold this process."""
_MAX_WORK: Final = 5_000_000
"""Steps of a repair there."""
_TOO_LARGE: Final = Problem("", f"the arguments are larger than {MAX_TEXT:,} characters of JSON: send less")


def read(arguments: object) -> object:
    """Arguments that may be JSON text of any size, as a value. In a thread. Raises ValueError."""
    if not isinstance(arguments, str | bytes | bytearray):
        return arguments
    if len(arguments) > MAX_TEXT:
        raise ValueError(_TOO_LARGE.message)
    try:
        return loads_slowly(bytes(arguments) if isinstance(arguments, bytearray) else arguments)
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the arguments are not valid JSON: {error}") from None


def write(arguments: object) -> list[str] | Problem:
    """The arguments as pieces of JSON text, or why they cannot be sent. In a thread."""
    if not _can_fit(arguments):
        return _TOO_LARGE
    if isinstance(arguments, dict):
        arguments = as_plain(arguments)
        if isinstance(arguments, Problem):
            return arguments
    pieces, chunks, size, total = [], list[str](), 0, 0
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
    try:
        for chunk in encoder.iterencode(arguments):
            chunks.append(chunk)
            size += len(chunk)
            if size > _PIECE:
                total += size
                if total > MAX_TEXT:
                    return _TOO_LARGE
                pieces.append("".join(chunks))
                chunks, size = [], 0
    except (TypeError, ValueError, RecursionError) as error:
        return Problem("", f"the arguments cannot be checked: {error}")
    return [*pieces, "".join(chunks)]


def _can_fit(arguments: object) -> bool:
    """Whether there are not more values than the text could hold, each with a comma."""
    values, seen = 0, set[int]()
    stack = [arguments]
    while stack:
        item = stack.pop()
        if isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            values += len(item)
            if values * 2 >= MAX_TEXT:
                return False
            stack += item.values() if isinstance(item, dict) else item
    return True


def judge(schema: str, origin: str, tool_names: list[str], pieces: list[str], strict: bool) -> dict[str, Any]:
    """In a worker: what `ArgumentSchema.check` says of the arguments."""
    repairing.MAX_WORK = _MAX_WORK
    given: JSON = loads("".join(pieces))
    compiled = ArgumentSchema(cast(Schema, loads(schema)), Origin(origin))
    checked = compiled.check(given, strict=strict, tool_names=tool_names)
    problems, arguments = checked.problems, None
    if checked.arguments is not given and not problems:
        arguments = dumps(checked.arguments).decode()
        if len(arguments) > _MAX_RETURNED:
            message = (
                "the arguments are not as the schema wants them, and too large to be repaired: send them as it says"
            )
            problems, arguments = (Problem("", message),), None
    return {
        "arguments": arguments,
        "repairs": [[it.path, it.before, it.after, it.reason] for it in checked.repairs[:1000]] if arguments else [],
        "dropped": checked.dropped[:1000],
        "problems": [[it.path, it.message] for it in problems],
        "renamed": dict(checked.renamed),
    }


def verdict(answer: dict[str, Any], given: dict[str, JSON]) -> Checked:
    """What `judge` answered, in this process."""
    return Checked(
        given if answer["arguments"] is None else loads(answer["arguments"]),
        tuple(Repair(*it) for it in answer["repairs"]),
        tuple(answer["dropped"]),
        tuple(Problem(*it) for it in answer["problems"]),
        answer["renamed"],
    )


def renamed(arguments: object, rename: Rename | None) -> tuple[object, dict[str, str]]:
    """The arguments under the names that the schema has for them."""
    if rename is None or not isinstance(arguments, dict):
        return arguments, {}
    return rename(arguments)


def with_names(checked: Checked, names: dict[str, str]) -> Checked:
    return replace(checked, renamed={**names, **checked.renamed}) if names else checked
