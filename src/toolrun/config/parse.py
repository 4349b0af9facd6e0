"""Reads and parses files that people write by hand, and explains their mistakes.

Knows JSON, TOML and YAML; knows nothing of what a file means. A mistake is a `ConfigError` whose message says where in
the file, but not which file: the caller has the path. The JSON and YAML parsers are imported on first use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from toolrun.errors import ConfigError
from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.regular_file import UnsuitableFileError, read_regular_file
from toolrun.text import show

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

T = TypeVar("T")

MAX_BYTES = 1_000_000
"""No file of this kind is larger. A wrong path (a log, a database) should not be loaded whole."""

MAX_DEPTH = 100
"""No file needs more levels, and no walk over fewer reaches Python's recursion limit."""

_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_YAML_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark."""
    try:
        data = read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError("there is no such file; check the path") from None
    except IsADirectoryError:
        raise ConfigError("is a directory; name a file in it") from None
    except UnsuitableFileError as error:
        raise ConfigError(str(error.strerror).replace("it is ", "is ", 1)) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (at byte {error.start}); save it as UTF-8") from None


def parse_toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # TOMLDecodeError, or Python's own limit on the digits of an integer
        found = _TOML_PLACE.search(str(error))
        if found is None:
            raise ConfigError(str(error)) from None
        line, column = found.groups()
        place = f"line {line}, column {column}" if line else _place(text, len(text.rstrip()))
        raise ConfigError(f"{place}: {_TOML_PLACE.sub('', str(error))}") from None
    return _bounded(value)


def parse_json(text: str) -> object:
    try:
        value: object = loads(text)
    except JSONDecodeError as error:
        raise ConfigError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    return _bounded(value)


def parse_yaml(text: str) -> object:
    """One YAML document without aliases and tags.

    A few lines of nested aliases stand for gigabytes once they are walked or copied ("billion laughs"), and an alias
    to its own parent never ends; an explicit tag on a wrong value makes PyYAML raise whatever it stumbles over.
    """
    import yaml

    try:
        value = yaml.load(text, Loader=_yaml_loader())
    except RecursionError:
        raise _too_deep() from None
    except yaml.reader.ReaderError as error:
        place = _place(text, error.position)
        raise ConfigError(f"{place}: character U+{error.character:04X} is not allowed in YAML") from None
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(place + what) from None
    except ValueError as error:  # a number that YAML allows and Python's int() does not
        raise ConfigError(str(error)) from None
    return _bounded(value)


def _yaml_loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        # A date stays text: JSON has no type for it, and 2024-13-45 is no reason to fail.
        yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own declaration
            first: [(tag, pattern) for tag, pattern in resolvers if tag != _YAML_TIMESTAMP]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
            problem, mark = "", event.start_mark
            if isinstance(event, yaml.AliasEvent):
                problem = f"the alias *{event.anchor} is not supported; write the value out"
            elif getattr(event, "tag", None) is not None:
                problem = f"the tag {event.tag} is not supported; leave it out"
            if problem:
                raise yaml.composer.ComposerError(None, None, problem, mark)
            return super().compose_node(parent, index)

    return Loader


def plain(value: object, where: str = "") -> JSON:
    """The parsed value as JSON, with dates as ISO text. Raises ConfigError, with the place, if JSON cannot hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ConfigError(f"{where or 'it'} is {value}, which JSON cannot hold")
    if type(value).__module__ == "datetime":
        return str(value.isoformat())  # type: ignore[attr-defined]  # TOML has dates and times, and no other such
    if isinstance(value, list):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{where or 'it'} has the key {show(key)}, which is not a string; put it in quotes")
        return {key: plain(item, f"{where}.{key}" if where else key) for key, item in value.items()}
    raise ConfigError(f"{where or 'it'} has a value of type {type(value).__name__}, which JSON cannot hold")


def _bounded(value: T) -> T:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return value
    raise _too_deep()


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ConfigError:
    return ConfigError(f"is nested more than {MAX_DEPTH} levels deep")


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"
