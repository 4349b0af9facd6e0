"""The answer to a call with a key, as it is kept to be given again to whoever repeats the key. Pure.

It is kept as it was, not redacted and not cut: a model would take `***` for data. What may not be kept as it was is
not kept at all, and who repeats the key is told so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, cast

from toolrun.execution.finalise import Finalised
from toolrun.json import JSON, dumps, loads
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, is_small, normalise_result

_MAX_BYTES: Final = 256 * 1024


class Answers(StrEnum):
    """Which answers are kept."""

    PLAIN = "plain"
    """Those in which nothing would be hidden."""
    ALL = "all"
    """Also those with something under a name such as `password`; none with a secret of the project."""
    NONE = "none"


def write_answer(result: ToolResult) -> str | None:
    """None if it is too long."""
    kept: dict[str, JSON] = {"result": result.result, "content": list(result.content), "meta": result.meta}
    if result.edited is not None:
        kept["edited"] = result.edited
    if result.rendered is not None and not is_small(kept):
        return None
    text = dumps(kept)
    return text.decode() if len(text) <= _MAX_BYTES else None


def finalised_result(tool: str, value: object) -> ToolResult | None:
    """What a call returned that nobody waits for any more; None if it would take long to find out."""
    if type(value) is Finalised:
        return ToolResult(tool, value.data, content=value.blocks)
    if not is_small(value):
        return None
    data, blocks = normalise_result(value)
    return ToolResult(tool, data, content=blocks)


def may_keep(answer: str, answers: Answers, redactor: Redactor) -> bool:
    """Whether an answer may be on disk as it is."""
    if answers is Answers.NONE or redactor.has_secret(answer):
        return False
    if answers is Answers.ALL or not redactor.may_hide(answer):
        return True
    value: JSON = loads(answer)
    return bool(redactor.value(value) == value)


def read_answer(text: str) -> tuple[Finalised, JSON]:
    """The answer as the executor takes it from a body, and the arguments of the call if a person has edited them."""
    kept = loads(text)
    data, blocks = cast(JSON, kept["result"]), tuple(kept["content"])
    return Finalised(data, blocks, None, kept["meta"]), kept.get("edited")
