"""JSON lines, strict in both directions, for values of any type.

Uses the C functions behind `json` directly: importing that package takes two thirds of the time that Python needs to
start. Where they are missing or behave differently, `json` does the work. After `use_orjson`, orjson writes, if the
environment has it; it never reads, because it silently turns integers beyond 64 bits into floats.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _one_step(value: object) -> object:
    from . import normalise

    return normalise.step_in_result(value)


class _Reading:
    """The options of the scanner, as `json.JSONDecoder` has them."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}  # noqa: RUF012  only the scanner in Python uses it


def _functions() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[object, int], Any]]:
    """The function that reads a value from a text, and the one that writes a value in pieces."""
    try:
        import _json

        # No markers: a cycle ends in RecursionError, and then `normalise.walk` cuts it.
        scan: Any = _json.make_scanner(_Reading)  # type: ignore[arg-type]  # any object with these attributes will do
        writing = (None, _one_step, _json.encode_basestring, None, ":", ",", False, False, False)
        write: Any = _json.make_encoder(*writing)
        if scan('{"a":[1]}', 0) == ({"a": [1]}, 9) and "".join(write({"a": [1]}, 0)) == '{"a":[1]}':
            return scan, write
    except Exception:  # noqa: BLE001  private functions, which a later Python may change
        pass
    import json

    encoder = json.JSONEncoder(
        default=_one_step, ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
    )
    decoder: Any = json.JSONDecoder(parse_constant=_refuse_constant)
    return decoder.scan_once, lambda value, _: encoder.iterencode(value)


_scan, _write = _functions()


def decode(line: bytes) -> Any:
    """The value of a line. Raises ValueError or RecursionError for what is not JSON."""
    text = line.decode().strip()
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, SystemError):  # SystemError: the scanner's own error class is in `json`, not imported yet
        pass
    import json

    return json.loads(text, parse_constant=_refuse_constant)  # raises an error that says what is wrong


def encode(value: object, *, collects: bool = False) -> bytes:
    """Any value as JSON. An object that has no form in JSON is written as its text, NaN as null.

    `collects`: an iterator is written as what it yields. Raises what it raises, and EndlessStreamError.
    """
    try:
        return _encode(value)
    except Exception:  # noqa: BLE001  NaN, cycles, lone surrogates, iterators, foreign objects' own methods
        from . import normalise

        return _standard(normalise.walk(value, collects=collects))


def _standard(value: object) -> bytes:
    return "".join(_write(value, 0)).encode()


_encode = _standard


def use_orjson() -> None:
    """Write with orjson if the script's environment has it."""
    global _encode
    try:
        import orjson
    except ImportError:
        return
    # Its own reading of dataclasses lacks fields of a base with slots, and has attributes that are not fields.
    # That of numpy writes a missing time as 1970.
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS

    def encode_faster(value: object) -> bytes:
        try:
            return orjson.dumps(value, default=_one_step, option=options)
        except TypeError:  # such as an integer beyond 64 bits
            return _standard(value)

    _encode = encode_faster
