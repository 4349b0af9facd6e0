"""Lines of toolrun.toml that grant something, in the sentences of `denial.py`. Pure.

A policy has the section that they belong to. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Policy = dict[str, Any]

BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
"""What a key of TOML may have without quotes."""


def to_allow(line: str, policy: Policy, is_changed: object = False) -> str:
    """`is_changed`: the section has such a line, which this one replaces."""
    where = in_section(policy) if is_changed else to_section(policy)
    return f"To allow it, {'set' if is_changed else 'add'} {line} {where}"


def with_entry(key: str, value: str, policy: Policy) -> str:
    """What to write for a list of paths or variables that gets one more entry."""
    given = policy["given"][key]
    line = line_of(key, [*given, value])
    return f"set {line} {in_section(policy)}" if given else f"add {line} {to_section(policy)}"


def to_section(policy: Policy) -> str:
    return f"to [{_section(policy)}] in toolrun.toml."


def in_section(policy: Policy) -> str:
    return f"in [{_section(policy)}] of toolrun.toml."


def _section(policy: Policy) -> str:
    """`tool.weather.permissions`, with the name in quotes if it needs them."""
    kind, _, rest = policy["section"].partition(".")
    name, _, last = rest.rpartition(".")
    is_bare = BARE.issuperset(name) or name[:1] in "\"'"
    return f"{kind}.{name if is_bare else _quoted(name)}.{last}"


def line_of(key: str, values: Iterable[str]) -> str:
    return f"{key} = [{', '.join(map(_quoted, values))}]"


def _quoted(text: str) -> str:
    """A string of TOML. Raises UnicodeEncodeError for a name of a file that is no text."""
    import json

    text.encode()
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
