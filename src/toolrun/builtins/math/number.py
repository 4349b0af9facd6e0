"""Numbers that stay exact as long as they can. Knows arithmetic and its limits; knows no units, matrices or syntax.

Whole numbers are `int` and decimals are `Fraction`, so that 0.1 + 0.2 is 0.3 and not nearly 0.3. What has no exact
form (roots, logarithms, pi) is `float`, and `complex` where the real line ends. Every operation here is cheap before it
starts: sizes are estimated first, and a result that cannot be represented is an error, never an infinity or a NaN.
"""

from __future__ import annotations

import cmath
import math
from fractions import Fraction
from typing import TypeAlias, TypeGuard

from toolrun.text import cut

Number: TypeAlias = int | Fraction | float | complex
Real: TypeAlias = int | Fraction | float

MAX_INTEGER_BITS = 2048
"""About 616 digits."""
MAX_FRACTION_BITS = 512
"""A fraction whose numerator or denominator is larger goes on as `float`."""
MAX_COMPLEX_EXPONENT = 10**6
RELATIVE_TOLERANCE = Fraction(1, 10**12)
ABSOLUTE_TOLERANCE = Fraction(1, 10**15)
TOO_LARGE = "The result is too large: decimals are limited to about 1.8e308"
TOO_LARGE_ADVICE = "Use smaller numbers, or compute with logarithms."
_EXACT_FLOAT = 2**53


class CalculationError(Exception):
    """Why an expression has no value: the problem, what to do about it, and where in the text if that is known."""

    def __init__(self, problem: str, advice: str = "", position: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.position = position


def is_real(value: Number) -> TypeGuard[Real]:
    return not isinstance(value, complex)


def is_exact(value: Number) -> TypeGuard[int | Fraction]:
    return isinstance(value, int | Fraction)


def normalise(value: Number) -> Number:
    """The value in its simplest exact form. CalculationError: it is too large or not finite."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise too_large()
        return value
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return normalise(value.numerator)
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_FRACTION_BITS:
            return float(value)
        return value
    if not cmath.isfinite(value):
        raise _not_finite(value)
    if isinstance(value, complex) and value.imag == 0:
        return value.real
    return value


def too_large() -> CalculationError:
    problem = f"The result is too large: whole numbers are limited to {MAX_INTEGER_BITS} bits (about 616 digits)"
    return CalculationError(problem, TOO_LARGE_ADVICE)


def _not_finite(value: complex) -> CalculationError:
    if cmath.isinf(value):
        return CalculationError(TOO_LARGE, TOO_LARGE_ADVICE)
    return CalculationError("The result is not a number", "Check that the operation is defined for these values.")


def literal(text: str) -> Number:
    """The number that a literal of the grammar stands for: 12, .5, 1e3, 0x1F, 0b101, 0o17."""
    if text[:2].lower() in ("0x", "0b", "0o"):
        return normalise(int(text, 0)) if len(text) <= MAX_INTEGER_BITS + 2 else _refuse_literal(text)
    if text.isdigit():
        # The length is checked first: int() refuses more than 4300 digits with a different error.
        return normalise(int(text)) if len(text) <= MAX_INTEGER_BITS else _refuse_literal(text)
    approximate = float(text)
    if approximate == 0:
        mantissa = text.lower().partition("e")[0]
        return 0 if not mantissa.strip("0.") else _refuse_literal(text)
    if math.isinf(approximate):
        return _refuse_literal(text)
    if abs(approximate) >= _EXACT_FLOAT or len(text) > 60:
        return approximate
    return normalise(Fraction(text))


def _refuse_literal(text: str) -> Number:
    raise CalculationError(f"The number {cut(text, 30)} cannot be represented", "Use numbers between 1e-307 and 1e308.")


def real(value: Number, what: str) -> Real:
    if is_real(value):
        return value
    raise CalculationError(f"{what} needs real numbers, not a complex one", "Use abs(), re() or im() first.")


def integer(value: Number, what: str) -> int:
    """The value as a whole number; a float that is whole will do."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise CalculationError(f"{what} needs whole numbers", "Round first, for instance with round() or floor().")


def add(a: Number, b: Number) -> Number:
    return normalise(a + b)


def subtract(a: Number, b: Number) -> Number:
    return normalise(a - b)


def multiply(a: Number, b: Number) -> Number:
    return normalise(a * b)


def negate(a: Number) -> Number:
    return normalise(-a)


def absolute(a: Number) -> Real:
    if isinstance(a, complex):
        return abs(a)
    return a if a >= 0 else -a


def divide(a: Number, b: Number) -> Number:
    if b == 0:
        raise ZeroDivisionError
    if is_exact(a) and is_exact(b):
        return normalise(Fraction(a) / Fraction(b))
    return normalise(a / b)


def modulo(a: Number, b: Number) -> Number:
    """The remainder with the sign of the divisor, as in mathjs and Python."""
    a, b = real(a, "Modulo"), real(b, "Modulo")
    if b == 0:
        raise ZeroDivisionError
    return normalise(a % b)


def power(base: Number, exponent: Number) -> Number:
    if isinstance(exponent, float) and exponent.is_integer():
        exponent = int(exponent)
    if isinstance(exponent, int):
        return _whole_power(base, int(exponent))
    if exponent == Fraction(1, 2):
        return square_root(base)
    if is_real(base) and is_real(exponent):
        if base == 0 and exponent < 0:
            raise ZeroDivisionError
        if base >= 0:
            return normalise(float(base) ** float(exponent))
    return normalise(complex(base) ** exponent)


def _whole_power(base: Number, exponent: int) -> Number:
    if exponent < 0 and base == 0:
        raise ZeroDivisionError
    if isinstance(base, complex):
        return _complex_power(base, exponent)
    if not is_exact(base):
        return normalise(base**exponent)
    base = Fraction(base)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) in (0, 1) or bits * abs(exponent) <= 2 * MAX_FRACTION_BITS:
        # Fraction reads the parity of a huge exponent correctly for 0, 1 and -1, and at once.
        return normalise(base ** (exponent if abs(base) != 1 else exponent % 2))
    if base.denominator == 1 and exponent > 0:
        if (bits - 1) * exponent > MAX_INTEGER_BITS:
            raise too_large()
        return normalise(base.numerator**exponent)
    return normalise(float(base) ** exponent)


def _complex_power(base: complex, exponent: int) -> Number:
    """By squaring, which keeps whole parts whole; Python goes through logarithms from 100 on."""
    if abs(exponent) > MAX_COMPLEX_EXPONENT:
        problem = f"The exponent of a complex number is limited to {MAX_COMPLEX_EXPONENT}"
        raise CalculationError(problem, "Use a smaller exponent.")
    result = 1 + 0j
    for bit in bin(abs(exponent))[2:]:
        result *= result
        if bit == "1":
            result *= base
    return normalise(result) if exponent >= 0 else divide(1, normalise(result))


def square_root(value: Number) -> Number:
    if is_exact(value):
        value = Fraction(value)
        top, bottom = math.isqrt(abs(value.numerator)), math.isqrt(value.denominator)
        if top * top == abs(value.numerator) and bottom * bottom == value.denominator:
            root = normalise(Fraction(top, bottom))
            return root if value >= 0 else normalise(complex(0, float(real(root, "sqrt"))))
    if is_real(value) and value >= 0:
        return normalise(math.sqrt(value))
    return normalise(cmath.sqrt(complex(value)))


def is_close(a: Number, b: Number) -> bool:
    """Equality as people see it: exact values exactly, others to about twelve digits, as in mathjs."""
    if is_exact(a) and is_exact(b):
        return a == b
    if is_real(a) and is_real(b):
        # As fractions, because a whole number can be too large for a float.
        x, y = Fraction(a), Fraction(b)
        return abs(x - y) <= max(RELATIVE_TOLERANCE * max(abs(x), abs(y)), ABSOLUTE_TOLERANCE)
    return cmath.isclose(a, b, rel_tol=float(RELATIVE_TOLERANCE), abs_tol=float(ABSOLUTE_TOLERANCE))


def compare(a: Number, b: Number) -> int:
    """-1, 0 or 1."""
    a, b = real(a, "Comparing"), real(b, "Comparing")
    if is_close(a, b):
        return 0
    return -1 if a < b else 1


def shift(value: Number, count: int) -> int:
    """Left for a positive count, right for a negative one."""
    bits = integer(value, "A bit shift")
    if count <= 0:
        return bits >> min(-count, MAX_INTEGER_BITS)
    if bits and bits.bit_length() + count > MAX_INTEGER_BITS:
        raise too_large()
    return bits << (count if bits else 0)


def round_to(value: Number, digits: int = 0) -> Number:
    """Rounds the decimal that people see, halves away from zero: 2.675 to 2.68, -2.5 to -3."""
    if isinstance(value, complex):
        return normalise(complex(float(_round_real(value.real, digits)), float(_round_real(value.imag, digits))))
    if isinstance(value, float) and abs(value) >= _EXACT_FLOAT and digits >= 0:
        return value  # whole already, and its digits as an integer would be made up
    return normalise(_round_real(value, digits))


def _round_real(value: Real, digits: int) -> Fraction:
    # A float is taken as it prints (its shortest form), because 2.675 is a little less in binary.
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    scale = Fraction(10) ** digits
    whole = math.floor(abs(exact) * scale + Fraction(1, 2))
    return (whole if exact >= 0 else -whole) / scale
