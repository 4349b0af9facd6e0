"""A calculator for what people type: `12% of 50`, `3 inch to cm`, `det([1,2;3,4])`. The handler behind `math_eval`.

    parser      text to tree, by the grammar in grammar.lark
    evaluator   tree to value: operators, variables, the amount of work allowed
    functions   the functions and constants that exist
    matrix      vectors and matrices
    scalar      quantities: numbers with units
    units       unit names, dimensions and factors (pint, by units.txt)
    elementary  logarithms, angles, roots, primes
    number      exact numbers and their limits

Here are the two edges: text that is too long does not get in, and nothing gets out but JSON or a `ToolError`. No part
of this evaluates Python, reads attributes or resolves a name outside its own tables.
"""

from __future__ import annotations

from fractions import Fraction

from toolrun.builtins.math.evaluator import evaluate
from toolrun.builtins.math.matrix import Matrix, Value
from toolrun.builtins.math.number import CalculationError, Number
from toolrun.builtins.math.parser import parse
from toolrun.builtins.math.scalar import Quantity, Scalar
from toolrun.errors import ToolError
from toolrun.json import INT64, JSON

MAX_LENGTH = 2000
SIGNIFICANT_DIGITS = 14
_SHOWN = 60
_EXACT_FLOAT = 2**53


def math_eval(expression: str) -> JSON:
    """The value of the last statement: a number, a boolean, a quantity, a matrix, or text for a complex number."""
    if len(expression) > MAX_LENGTH:
        raise ToolError(
            f"The expression is too long: {len(expression)} characters, and at most {MAX_LENGTH} are evaluated. "
            "Split it into several calls."
        )
    if not expression.strip():
        raise ToolError("The expression is empty. Give something to calculate, for instance: 2 + 2.")
    try:
        return _encode(evaluate(parse(expression)))
    except CalculationError as error:
        raise ToolError(_render(error, expression)) from None
    except RecursionError:
        raise ToolError("The expression is nested too deeply. Name a part of it: x = 1 + 2; x * 3.") from None


def _render(error: CalculationError, expression: str) -> str:
    """What, where, and what to do."""
    if error.position is None:
        return f"{error.problem}. {error.advice}".strip()
    where = f"character {error.position + 1}"
    start = max(0, min(error.position - _SHOWN // 2, len(expression) - _SHOWN))
    window = expression[start : start + _SHOWN]
    shown = "".join(character if character.isprintable() else " " for character in window).strip()
    where += f" of '{shown}'" if len(expression) <= _SHOWN else f", near '{shown}'"
    return f"{error.problem} (at {where}). {error.advice}".strip()


def _encode(value: Value) -> JSON:
    if not isinstance(value, Matrix):
        return _encode_scalar(value)
    rows: list[JSON] = [[_encode_scalar(item) for item in row] for row in value.rows()]
    return rows if len(value.shape) == 2 else rows[0]


def _encode_scalar(value: Scalar) -> JSON:
    if isinstance(value, Quantity):
        return {"value": _encode_number(value.magnitude), "unit": str(value.unit)}
    return _encode_number(value)


def _encode_number(value: Number) -> bool | int | float | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        # JSON readers keep 64 bits at best: what is larger stays exact as text.
        return value if -INT64 <= value < INT64 else str(value)
    if isinstance(value, complex):
        return _encode_complex(value)
    return _rounded(value)


def _rounded(value: Fraction | float) -> int | float:
    """14 significant digits, or all of them if a decimal is exact."""
    result = float(value)
    if not (isinstance(value, Fraction) and Fraction(repr(result)) == value):
        result = float(f"{result:.{SIGNIFICANT_DIGITS}g}")
    return int(result) if result.is_integer() and abs(result) < _EXACT_FLOAT else result


def _encode_complex(value: complex) -> int | float | str:
    """As people write it, `-3 + 2i`. A part that is nothing but rounding beside the other is left out."""
    smallest = abs(value) * 10.0**-SIGNIFICANT_DIGITS
    real = _rounded(value.real) if abs(value.real) > smallest else 0
    imaginary = _rounded(value.imag) if abs(value.imag) > smallest else 0
    if not imaginary:
        return real
    size = "" if abs(imaginary) == 1 else str(abs(imaginary))
    if not real:
        return f"{'-' if imaginary < 0 else ''}{size}i"
    return f"{real} {'-' if imaginary < 0 else '+'} {size}i"
