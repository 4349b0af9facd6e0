"""JSON values → values of annotated types. Each function here makes a converter, or is one.

A converter gets a value that JSON can hold, and returns it as its type or raises. What it raises says where (`path`)
and why; errors of foreign constructors are taken for the reason as they are.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .hint import Kind

    Convert = Callable[[Any], Any]
    Field = tuple[str, Kind, bool]

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}
_SCALARS = (int, float, bool, type(None))


class MisfitError(ValueError):
    """A value that is not of its type: the way to it from the argument, and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[object] = []

    def __str__(self) -> str:
        return "".join(f"[{part!r}]" for part in self.path) + f" {self.args[0]}"


def misfit(error: BaseException, *path: object) -> MisfitError:
    """The error of a converter, as seen from the container that holds the value."""
    if isinstance(error, MisfitError):
        error.path[:0] = path
        return error
    made = MisfitError(f"cannot be used: {_reason(error)}")
    made.path[:0] = path
    return made


def _reason(error: BaseException) -> str:
    errors = getattr(error, "errors", None)  # pydantic's
    if callable(errors):
        places = ("".join(f"[{part!r}]" for part in item["loc"]) + f" {item['msg']}" for item in errors()[:5])
        return "; ".join(place.strip() for place in places)
    return str(error).strip() or type(error).__name__


def _expected(what: str, value: object) -> MisfitError:
    return MisfitError(f"must be {what}, not {_NAMES.get(type(value), type(value).__name__)}")


def text(value: Any) -> str:
    if type(value) is str:
        return value
    raise _expected("a string", value)


def integer(value: Any) -> int:
    """JSON has one number type: 3.0 is an integer."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise _expected("an integer", value)


def number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise _expected("a number", value)


def boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise _expected("a boolean", value)


def null(value: Any) -> None:
    if value is not None:
        raise _expected("null", value)


def array(kind: Kind | None) -> Convert:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _expected("an array", value)
        return value if kind is None else _items(kind, value)

    return convert


def _items(kind: Kind, values: list[Any]) -> list[Any]:
    made: list[Any] = []
    exact, convert_item = kind.exact, kind.convert
    assert convert_item is not None
    try:
        for item in values:
            made.append(item if type(item) is exact else convert_item(item))
    except Exception as error:
        raise misfit(error, len(made)) from error
    return made


def collection(make: Callable[[list[Any]], Any], kind: Kind | None) -> Convert:
    """A set or a tuple, of any length."""
    convert_array = array(kind)
    return lambda value: make(convert_array(value))


def row(kinds: list[Kind]) -> Convert:
    """A tuple with a type for each place."""

    def convert(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _expected("an array", value)
        if len(value) != len(kinds):
            raise MisfitError(f"must have {len(kinds)} items, not {len(value)}")
        made: list[Any] = []
        for place, kind in enumerate(kinds):
            made += _at(place, kind, value[place])
        return tuple(made)

    return convert


def _at(place: object, kind: Kind, value: Any) -> list[Any]:
    try:
        return [value if kind.convert is None or type(value) is kind.exact else kind.convert(value)]
    except Exception as error:
        raise misfit(error, place) from error


def mapping(keys: Kind | None, values: Kind | None) -> Convert:
    """Keys are text in JSON, so those of another type are made from it."""

    def convert(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise _expected("an object", value)
        if keys is None and values is None:
            return value
        made: dict[Any, Any] = {}
        for key, item in value.items():
            try:
                made_key = key if keys is None else _key(keys, key)
                made[made_key] = item if values is None or values.convert is None else values.convert(item)
            except Exception as error:
                raise misfit(error, key) from error
        return made

    return convert


def _key(kind: Kind, key: str) -> Any:
    if kind.exact in (int, float):
        return kind.exact(key)
    return key if kind.convert is None else kind.convert(key)


def optional(kind: Kind) -> Convert:
    convert = kind.convert
    assert convert is not None
    return lambda value: None if value is None else convert(value)


def union(kinds: list[Kind]) -> Convert:
    """Numbers, booleans and null as what they are, if that is an option; else the first option that fits."""

    def convert(value: Any) -> Any:
        if type(value) in _SCALARS and any(kind.exact is type(value) for kind in kinds):
            return value
        reasons = []
        for kind in kinds:
            try:
                return value if kind.convert is None else kind.convert(value)
            except Exception as error:  # noqa: BLE001  foreign constructors
                reasons.append(str(misfit(error)).strip())
        raise MisfitError(", or ".join(dict.fromkeys(reasons)))

    return convert


def choice(options: tuple[Any, ...]) -> Convert:
    def convert(value: Any) -> Any:
        given = int(value) if type(value) is float and value.is_integer() else value
        for option in options:
            if option == given and type(option) is type(given):
                return option
        raise MisfitError(f"must be one of {', '.join(map(repr, options))}")

    return convert


def member(enumeration: Any, *, by_name: bool) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return enumeration[value] if by_name else enumeration(value)
        except (KeyError, ValueError, TypeError):
            options = ", ".join(repr(it.name if by_name else it.value) for it in enumeration)
            raise MisfitError(f"must be one of {options}") from None

    return convert


def record(fields: list[Field], make: Callable[..., Any] | None) -> Convert:
    """A dataclass, made by its constructor; or a TypedDict, which is a dict and keeps what else is in it."""

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _expected("an object", value)
        made: dict[str, Any] = {} if make is not None else dict(value)
        for name, kind, is_required in fields:
            if name in value:
                (made[name],) = _at(name, kind, value[name])
            elif is_required:
                raise MisfitError(f"lacks '{name}'")
        return made if make is None else make(**made)

    return convert


def from_text(hint: Any, name: str) -> Convert:
    """Dates, times, paths, UUIDs and bytes."""

    def convert(value: Any) -> Any:
        given = text(value)
        if name == "builtins.bytes":
            return given.encode()
        if not hasattr(hint, "fromisoformat"):
            return hint(given)
        # Before Python 3.11 it does not know this sign for UTC.
        return hint.fromisoformat(f"{given[:-1]}+00:00" if given[-1:] in ("Z", "z") else given)

    return convert


def from_number_or_text(hint: Any) -> Convert:
    """A Decimal, or a timedelta: seconds, or ISO 8601."""

    def convert(value: Any) -> Any:
        if type(value) not in (int, float, str):
            raise _expected("a number or a string", value)
        if hint.__name__ == "timedelta":
            return hint(**_duration(value)) if type(value) is str else hint(seconds=value)
        try:
            return hint(str(value))
        except ArithmeticError:
            raise MisfitError(f"is not a number: {value!r}") from None

    return convert


def _duration(given: str) -> dict[str, float]:
    import re

    units = ("weeks", "days", "hours", "minutes", "seconds")
    amounts = [f"(?:(?P<{unit}>[0-9]+(?:[.,][0-9]+)?){unit[0].upper()})?" for unit in units]
    found = re.fullmatch(f"(?P<sign>[+-]?)P{amounts[0]}{amounts[1]}(?:T{''.join(amounts[2:])})?", given.upper())
    if found is None:
        raise MisfitError(f"is not a duration such as 'PT90S' or 'P1DT2H': {given!r}")
    sign = -1 if found["sign"] == "-" else 1
    return {unit: sign * float(found[unit].replace(",", ".")) for unit in units if found[unit]}


def adapted(adapter: Any) -> Convert:
    """By pydantic. As JSON, not as objects: only there a strict model takes text for a date, and a list for a set."""

    def convert(value: Any) -> Any:
        from pydantic_core import to_json

        return adapter.validate_json(to_json(value))

    return convert
