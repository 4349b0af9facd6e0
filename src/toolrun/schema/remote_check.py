"""Checks large arguments in a process of its own, which can be killed. What runs there is `check_pieces`.

The check of arguments is one call into C, whose time depends on a stranger's schema and a model's arguments. In this
process it would hold every thread, so what may take long is sent to a worker as JSON text, in pieces.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from toolrun.json import JSON, Schema, loads
from toolrun.schema import repair as repairing
from toolrun.schema.arguments import TOO_LARGE, ArgumentSchema, Checked
from toolrun.schema.explain import Problem
from toolrun.schema.origin import Origin
from toolrun.schema.repair_record import Repair
from toolrun.schema.value import MAX_TEXT

_PIECE: Final = 500_000
_MAX_WORK: Final = 5_000_000
"""Steps of a repair there."""
_MAX_TOLD: Final = 1000
"""Repairs, and ignored names, that are told."""


def can_fit(arguments: object) -> bool:
    """Whether there is not more in the arguments than the longest text could hold. In a thread."""
    if isinstance(arguments, str | bytes | bytearray):
        return len(arguments) <= MAX_TEXT
    size, seen = 0, {id(arguments)}
    stack: list[Any] = [arguments] if isinstance(arguments, dict | list | tuple) else []
    while stack:
        held = stack.pop()
        base: Any = next(it for it in (dict, list, tuple) if isinstance(held, it))  # a subclass may do anything
        size += base.__len__(held) * 2  # each with a comma
        if base is dict:
            size += sum(str.__len__(key) for key in dict.keys(held) if isinstance(key, str))
        if size >= MAX_TEXT:
            return False
        for item in dict.values(held) if base is dict else base.__iter__(held):
            if isinstance(item, str):
                size += str.__len__(item)
            elif isinstance(item, dict | list | tuple) and id(item) not in seen:
                seen.add(id(item))
                stack.append(item)
    return size < MAX_TEXT


def write_pieces(arguments: dict[str, JSON]) -> list[str] | Problem:
    """The arguments as pieces of JSON text, or why they cannot be sent. In a thread."""
    pieces, chunks, size, total = [], list[str](), 0, 0
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
    try:
        for chunk in encoder.iterencode(arguments):
            chunks.append(chunk)
            size += len(chunk)
            if size > _PIECE:
                total += size
                if total > MAX_TEXT:
                    return TOO_LARGE
                pieces.append("".join(chunks))
                chunks, size = [], 0
    except (TypeError, ValueError, RecursionError) as error:
        return Problem("", f"the arguments cannot be checked: {error}")
    return [*pieces, "".join(chunks)]


def check_pieces(schema: str, origin: str, pieces: list[str], strict: bool) -> dict[str, Any]:
    """In a worker: what `ArgumentSchema.check_named` says of the arguments."""
    repairing.MAX_WORK = _MAX_WORK
    given: Any = loads("".join(pieces))
    compiled = ArgumentSchema(cast(Schema, loads(schema)), Origin(origin))
    is_valid = given.keys() <= compiled.names and compiled.is_valid(given)
    checked = Checked(given) if is_valid else compiled.check_named(given, strict)
    return {
        "arguments": None if checked.arguments is given or checked.problems else checked.arguments,
        "repairs": [[it.path, it.before, it.after, it.reason] for it in checked.repairs[:_MAX_TOLD]],
        "dropped": checked.dropped[:_MAX_TOLD],
        "problems": [[it.path, it.message] for it in checked.problems],
    }


def read_answer(answer: dict[str, Any], given: dict[str, JSON]) -> Checked:
    """What `check_pieces` answered, in this process."""
    return Checked(
        given if answer["arguments"] is None else answer["arguments"],
        tuple(Repair(*it) for it in answer["repairs"]),
        tuple(answer["dropped"]),
        tuple(Problem(*it) for it in answer["problems"]),
    )
