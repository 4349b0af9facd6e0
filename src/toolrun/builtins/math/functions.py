"""The names that an expression can use: functions and constants, and nothing else. Knows nothing of syntax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, reduce
from types import MappingProxyType
from typing import Final

from toolrun.builtins.math import elementary, matrix, number, scalar
from toolrun.builtins.math.matrix import Matrix, Value
from toolrun.builtins.math.number import CalculationError, Number
from toolrun.builtins.math.scalar import Quantity, Scalar

MAX_ROUNDING_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Function:
    """What a call runs, and how many arguments it takes (`None`: any number)."""

    call: Callable[..., Value]
    least: int = 1
    most: int | None = 1


def _of_number(name: str, operation: Callable[[Number], Number]) -> Function:
    """Of a plain number, or of every element of a matrix."""
    return _of_scalar(lambda value: number.normalise(operation(scalar.plain(value, name))))


def _of_two_numbers(name: str, operation: Callable[[Number, Number], Number]) -> Function:
    def call(a: Scalar, b: Scalar) -> Scalar:
        return number.normalise(operation(scalar.plain(a, name), scalar.plain(b, name)))

    return Function(lambda a, b: matrix.combine(call, a, b), 2, 2)


def _of_integers(name: str, operation: Callable[[int, int], int]) -> Function:
    return _of_two_numbers(name, lambda a, b: operation(number.integer(a, name), number.integer(b, name)))


def _of_angle(name: str, operation: Callable[[Number], Number]) -> Function:
    return _of_scalar(lambda value: number.normalise(operation(scalar.radians(value, name))))


def _of_magnitude(operation: Callable[[Number], Number]) -> Function:
    """Of the number in a quantity; the unit stays."""
    return _of_scalar(lambda value: scalar.on_magnitude(operation, value))


def _of_scalar(operation: Callable[[Scalar], Scalar]) -> Function:
    return Function(lambda value: matrix.spread(operation, value))


def _of_all(operation: Callable[[list[Scalar]], Value]) -> Function:
    """Of any number of arguments and their elements: sum(1, 2) and sum([1, 2]) are the same."""
    return Function(lambda *values: operation(_flatten(values)), 1, None)


def _flatten(values: Sequence[Value]) -> list[Scalar]:
    return [item for value in values for item in (value.items if isinstance(value, Matrix) else (value,))]


def _reciprocal(operation: Callable[[Number], Number]) -> Callable[[Number], Number]:
    return lambda value: number.divide(1, operation(value))


def _of_reciprocal(operation: Callable[[Number], Number]) -> Callable[[Number], Number]:
    return lambda value: operation(number.divide(1, value))


def _log(value: Value, base: Value | None = None) -> Value:
    if base is None:
        return FUNCTIONS["ln"].call(value)
    return _of_two_numbers("log", elementary.log).call(value, base)


def _atan2(a: Scalar, b: Scalar) -> Scalar:
    y, x, _ = scalar.aligned(a, b)
    return math.atan2(number.real(y, "atan2"), number.real(x, "atan2"))


def _round(value: Value, digits: Value = 0) -> Value:
    def call(x: Scalar, n: Scalar) -> Scalar:
        places = scalar.integer(n, "The second argument of round")
        if abs(places) > MAX_ROUNDING_DIGITS:
            raise CalculationError(
                f"round takes at most {MAX_ROUNDING_DIGITS} digits", "For instance: round(2.675, 2)."
            )
        return scalar.on_magnitude(lambda magnitude: number.round_to(magnitude, places), x)

    return matrix.combine(call, value, digits)


def _sign(value: Scalar) -> Scalar:
    return number.normalise(elementary.sign(value.magnitude if isinstance(value, Quantity) else value))


def _nth_root(value: Value, degree: Value = 2) -> Value:
    def call(x: Scalar, n: Scalar) -> Scalar:
        if isinstance(x, Quantity):
            return scalar.power(x, number.divide(1, scalar.plain(n, "nthRoot")))
        return elementary.root(x, scalar.integer(n, "The degree of a root"))

    return matrix.combine(call, value, degree)


def _hypot(items: list[Scalar]) -> Scalar:
    sizes = [scalar.on_magnitude(number.absolute, item) for item in items]
    return scalar.square_root(matrix.total([scalar.power(size, 2) for size in sizes]))


def _sorted(items: list[Scalar]) -> list[Scalar]:
    return sorted(items, key=cmp_to_key(scalar.compare))


def _mean(items: list[Scalar]) -> Scalar:
    return scalar.divide(matrix.total(items), len(items))


def _median(items: list[Scalar]) -> Scalar:
    ordered = _sorted(items)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else _mean(ordered[middle - 1 : middle + 1])


def _variance(items: list[Scalar]) -> Scalar:
    """Of a sample (divided by n - 1), as in mathjs; 0 for a single value."""
    centre = _mean(items)
    squares = matrix.total([scalar.power(scalar.subtract(item, centre), 2) for item in items])
    return scalar.divide(squares, max(len(items) - 1, 1))


def _fold(name: str, operation: Callable[[int, int], int]) -> Function:
    def call(a: Number, b: Number) -> Number:
        return number.normalise(operation(number.integer(a, name), number.integer(b, name)))

    return _of_all(lambda items: reduce(call, (scalar.plain(item, name) for item in items)))


def _permutations(value: Value, chosen: Value | None = None) -> Value:
    return _of_two_numbers("permutations", elementary.permutations).call(value, value if chosen is None else chosen)


def _size(value: Value) -> Value:
    if not isinstance(value, Matrix):
        raise CalculationError("size needs a vector or a matrix", "For instance: size([1, 2; 3, 4]).")
    return Matrix((len(value.shape),), value.shape)


def _vector(name: str, value: Value) -> Matrix:
    if isinstance(value, Matrix) and (len(value.shape) == 1 or 1 in value.shape):
        return Matrix((len(value.items),), value.items)
    raise CalculationError(f"{name} needs vectors", "For instance: [1, 2, 3].")


def _dot(a: Value, b: Value) -> Value:
    return matrix.multiply(_vector("dot", a), _vector("dot", b))


def _cross(a: Value, b: Value) -> Value:
    return matrix.cross(_vector("cross", a), _vector("cross", b))


def _filled(name: str, element: Callable[[int, int], int]) -> Function:
    """zeros(3) is a vector, zeros(2, 3) a matrix; identity(3) is always square."""

    def call(*arguments: Value) -> Value:
        shape = tuple(scalar.integer(item, name) for item in _flatten(arguments))
        if len(shape) > 2:
            raise CalculationError("Matrices have at most two dimensions", f"For instance: {name}(2, 3).")
        return matrix.fill(shape * 2 if name == "identity" and len(shape) == 1 else shape, element)

    return Function(call, 1, 2)


CONSTANTS: Final = MappingProxyType[str, Number](
    {
        "pi": math.pi,
        "tau": math.tau,
        "e": math.e,
        "i": 1j,
        "phi": (1 + math.sqrt(5)) / 2,
        "true": True,
        "false": False,
    }
)

_ANGLES: Final = {
    "sin": elementary.sin,
    "cos": elementary.cos,
    "tan": elementary.tan,
    "cot": elementary.cot,
    "sec": _reciprocal(elementary.cos),
    "csc": _reciprocal(elementary.sin),
}

_NUMBERS: Final = {
    "asin": elementary.asin,
    "acos": elementary.acos,
    "atan": elementary.atan,
    "acot": _of_reciprocal(elementary.atan),
    "asec": _of_reciprocal(elementary.acos),
    "acsc": _of_reciprocal(elementary.asin),
    "sinh": elementary.sinh,
    "cosh": elementary.cosh,
    "tanh": elementary.tanh,
    "coth": _reciprocal(elementary.tanh),
    "sech": _reciprocal(elementary.cosh),
    "csch": _reciprocal(elementary.sinh),
    "asinh": elementary.asinh,
    "acosh": elementary.acosh,
    "atanh": elementary.atanh,
    "exp": elementary.exp,
    "expm1": elementary.expm1,
    "ln": elementary.ln,
    "log10": elementary.log10,
    "log2": elementary.log2,
    "log1p": elementary.log1p,
    "gamma": elementary.gamma,
    "factorial": elementary.factorial,
    "isPrime": elementary.is_prime,
    "arg": lambda x: math.atan2(complex(x).imag, complex(x).real),
    "bitNot": lambda x: ~number.integer(x, "bitNot"),
}

_MAGNITUDES: Final = {
    "abs": lambda x: number.normalise(number.absolute(x)),
    "floor": lambda x: elementary.whole(x, math.floor),
    "ceil": lambda x: elementary.whole(x, math.ceil),
    "fix": lambda x: elementary.whole(x, math.trunc),
    "re": lambda x: number.normalise(x.real),
    "im": lambda x: number.normalise(x.imag),
    "conj": lambda x: number.normalise(x.conjugate()),
}

_ALIASES: Final = {
    "average": "mean",
    "avg": "mean",
    "var": "variance",
    "stdev": "std",
    "trunc": "fix",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "nCr": "combinations",
    "nPr": "permutations",
}

_OTHERS: Final = {
    "round": Function(_round, 1, 2),
    "sign": _of_scalar(_sign),
    "sqrt": _of_scalar(scalar.square_root),
    "cbrt": Function(lambda value: _nth_root(value, 3)),
    "nthRoot": Function(_nth_root, 1, 2),
    "square": _of_scalar(lambda x: scalar.power(x, 2)),
    "cube": _of_scalar(lambda x: scalar.power(x, 3)),
    "pow": Function(matrix.power, 2, 2),
    "mod": Function(lambda a, b: matrix.combine(scalar.modulo, a, b), 2, 2),
    "log": Function(_log, 1, 2),
    "atan2": Function(lambda y, x: matrix.combine(_atan2, y, x), 2, 2),
    "hypot": _of_all(_hypot),
    "min": _of_all(lambda items: _sorted(items)[0]),
    "max": _of_all(lambda items: _sorted(items)[-1]),
    "sum": _of_all(matrix.total),
    "prod": _of_all(lambda items: reduce(scalar.multiply, items)),
    "mean": _of_all(_mean),
    "median": _of_all(_median),
    "variance": _of_all(_variance),
    "std": _of_all(lambda items: scalar.square_root(_variance(items))),
    "gcd": _fold("gcd", math.gcd),
    "lcm": _fold("lcm", math.lcm),
    "combinations": _of_two_numbers("combinations", elementary.combinations),
    "permutations": Function(_permutations, 1, 2),
    "bitAnd": _of_integers("bitAnd", lambda a, b: a & b),
    "bitOr": _of_integers("bitOr", lambda a, b: a | b),
    "bitXor": _of_integers("bitXor", lambda a, b: a ^ b),
    "det": Function(matrix.determinant),
    "inv": Function(matrix.inverse),
    "transpose": Function(matrix.transpose),
    "trace": Function(matrix.trace),
    "size": Function(_size),
    "dot": Function(_dot, 2, 2),
    "cross": Function(_cross, 2, 2),
    "identity": _filled("identity", lambda row, column: int(row == column)),
    "zeros": _filled("zeros", lambda row, column: 0),
    "ones": _filled("ones", lambda row, column: 1),
}


def _table() -> MappingProxyType[str, Function]:
    table = (
        {name: _of_angle(name, operation) for name, operation in _ANGLES.items()}
        | {name: _of_number(name, operation) for name, operation in _NUMBERS.items()}
        | {name: _of_magnitude(operation) for name, operation in _MAGNITUDES.items()}
        | _OTHERS
    )
    return MappingProxyType(table | {alias: table[name] for alias, name in _ALIASES.items()})


FUNCTIONS: Final = _table()
