"""JSON values → values of annotated types. Each function here makes a converter, or is one.

A converter gets a value that JSON can hold, and returns it as its type or raises. What it raises says where (`path`)
and why; errors of foreign constructors are taken for the reason as they are.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .type_spec import TypeSpec

    Convert = Callable[[Any], Any]
    RecordField = tuple[str, TypeSpec, bool]

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
_EXAMPLES = {
    "datetime.datetime": "a date-time such as '2024-05-01T12:30:00Z'",
    "datetime.date": "a date such as '2024-05-01'",
    "datetime.time": "a time such as '12:30:00'",
}


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


def array(spec: TypeSpec | None) -> Convert:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _expected("an array", value)
        return value if spec is None else _items(spec, value)

    return convert


def _items(spec: TypeSpec, values: list[Any]) -> list[Any]:
    made: list[Any] = []
    exact, convert_item = spec.exact, spec.convert
    assert convert_item is not None
    try:
        for item in values:
            made.append(item if type(item) is exact else convert_item(item))
    except Exception as error:
        raise misfit(error, len(made)) from error
    return made


def collection(make: Callable[[list[Any]], Any], spec: TypeSpec | None) -> Convert:
    """A set or a tuple, of any length."""
    convert_array = array(spec)
    return lambda value: make(convert_array(value))


def row(specs: list[TypeSpec], least: int, make: Callable[..., Any] | None) -> Convert:
    """A tuple with a type for each place, or a NamedTuple, which may have defaults for the last ones."""

    def convert(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _expected("an array", value)
        if not least <= len(value) <= len(specs):
            count = str(least) if least == len(specs) else f"{least} to {len(specs)}"
            raise MisfitError(f"must have {count} items, not {len(value)}")
        made: list[Any] = []
        for place, item in enumerate(value):
            made += _at(place, specs[place], item)
        return tuple(made) if make is None else make(*made)

    return convert


def _at(place: object, spec: TypeSpec, value: Any) -> list[Any]:
    try:
        return [value if spec.convert is None or type(value) is spec.exact else spec.convert(value)]
    except Exception as error:
        raise misfit(error, place) from error


def mapping(keys: TypeSpec | None, values: TypeSpec | None) -> Convert:
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


def _key(spec: TypeSpec, key: str) -> Any:
    if spec.exact in (int, float):
        return spec.exact(key)
    return key if spec.convert is None else spec.convert(key)


def optional(spec: TypeSpec) -> Convert:
    convert = spec.convert
    assert convert is not None
    return lambda value: None if value is None else convert(value)


def union(specs: list[TypeSpec]) -> Convert:
    """Numbers, booleans and null as what they are, if that is an option; else the first option that fits.

    For an object, records come first, those with the most of its names before others: where all fields of a record are
    optional, any object would fit.
    """
    has_records = any(spec.names for spec in specs)

    def convert(value: Any) -> Any:
        if type(value) in _SCALARS and any(spec.exact is type(value) for spec in specs):
            return value
        options = specs
        if has_records and type(value) is dict:
            options = sorted(specs, key=lambda spec: -len(spec.names.intersection(value)))
        reasons = []
        for spec in options:
            try:
                return value if spec.convert is None else spec.convert(value)
            except Exception as error:  # noqa: BLE001  foreign constructors
                reasons.append(str(misfit(error)).strip())
        raise MisfitError(", or ".join(dict.fromkeys(reasons)))

    return convert


def choice(values: list[Any], options: tuple[Any, ...]) -> Convert:
    """One of the options; in JSON they are the values."""

    def convert(value: Any) -> Any:
        for place, known in enumerate(values):
            # JSON has one number type, and true is not 1.
            if known == value and (type(known) is type(value) or {type(known), type(value)} == {int, float}):
                return options[place]
        raise MisfitError(f"must be one of {', '.join(map(repr, values))}")

    return convert


def member(enumeration: Any, *, by_name: bool) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return enumeration[value] if by_name else enumeration(value)
        except (KeyError, ValueError, TypeError):
            options = ", ".join(repr(it.name if by_name else it.value) for it in enumeration)
            raise MisfitError(f"must be one of {options}") from None

    return convert


def record(fields: list[RecordField], make: Callable[..., Any] | None) -> Convert:
    """A dataclass, made by its constructor; or a TypedDict, which is a dict and keeps what else is in it."""
    plan = [(name, spec.exact, spec.convert) for name, spec, _ in fields]
    required = [name for name, _, is_required in fields if is_required]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _expected("an object", value)
        for name in required:
            if name not in value:
                raise MisfitError(f"lacks '{name}'")
        made: dict[str, Any] = {} if make is not None else dict(value)
        name = ""
        try:
            for name, exact, convert_field in plan:
                if name in value:
                    item = value[name]
                    made[name] = item if type(item) is exact or convert_field is None else convert_field(item)
        except Exception as error:
            raise misfit(error, name) from error
        return made if make is None else make(**made)

    return convert


def from_text(hint: Any, name: str) -> Convert:
    """Dates, times, durations, paths, UUIDs and bytes."""
    if name == "builtins.bytes":
        return lambda value: text(value).encode()
    if name == "datetime.timedelta":
        return lambda value: hint(seconds=value) if type(value) in (int, float) else hint(**_duration(value))
    if name not in _EXAMPLES:
        return lambda value: hint(text(value))

    def convert(value: Any) -> Any:
        given = text(value)
        # Before Python 3.11 it does not know this sign for UTC.
        iso = f"{given[:-1]}+00:00" if given[-1:] in ("Z", "z") else given
        try:
            return hint.fromisoformat(iso)
        except ValueError:
            if name == "datetime.date" and len(given) > 10:  # models like to send midnight
                midnight = _midnight(iso)
                if midnight is not None:
                    return midnight
        raise MisfitError(f"is not {_EXAMPLES[name]}: {given!r}")

    return convert


def _midnight(iso: str) -> Any:
    """The date of a date-time that is midnight; None for any other."""
    import datetime

    try:
        found = datetime.datetime.fromisoformat(iso)
    except ValueError:
        return None
    return found.date() if found.time() == datetime.time() else None


def decimal(hint: Any) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) not in (int, float, str):
            raise _expected("a number or a string", value)
        try:
            made = hint(str(value))
        except ArithmeticError:
            made = hint("nan")
        if not made.is_finite():
            raise MisfitError(f"is not a number: {value!r}")
        return made

    return convert


def _duration(value: Any) -> dict[str, float]:
    if type(value) is not str:
        raise _expected("a number or a string", value)
    import re

    units = ("weeks", "days", "hours", "minutes", "seconds")
    amounts = [f"(?:(?P<{unit}>[0-9]+(?:[.,][0-9]+)?){unit[0].upper()})?" for unit in units]
    iso = f"(?P<sign>[+-]?)P(?=.){amounts[0]}{amounts[1]}(?:T(?=.){''.join(amounts[2:])})?"
    days = "(?:(?P<days>[0-9]+) ?D(?:AYS?)?,? ?)?"
    clock = rf"(?P<sign>[+-]?){days}(?P<hours>[0-9]+):(?P<minutes>[0-9]{{2}}):(?P<seconds>[0-9]{{2}}(?:\.[0-9]+)?)"
    found = re.fullmatch(iso, value.upper()) or re.fullmatch(clock, value.upper())
    if found is None:
        raise MisfitError(f"is not a duration such as 'PT90S' or 'P1DT2H': {value!r}")
    sign = -1 if found["sign"] == "-" else 1
    parts = found.groupdict()
    return {unit: sign * float(parts[unit].replace(",", ".")) for unit in units if parts.get(unit)}
