"""Elementary functions and number theory, on plain numbers. Knows nothing of units, matrices or syntax."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from fractions import Fraction

from toolrun.builtins.math import number
from toolrun.builtins.math.number import MAX_INTEGER_BITS, CalculationError, Number, Real

MAX_PRIME = 2**64
_FLOAT_ROUNDING = 2.0**-53
_MAX_SNAPPED = 1e6
"""Beyond, the rounding of the argument covers more than what is recognisably a multiple of pi."""
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Miller-Rabin with the first twelve primes is a proof below 3.18e23 (https://oeis.org/A014233)."""


def _real_or_complex(
    on_reals: Callable[[Real], Number], beyond: Callable[[complex], Number], is_inside: Callable[[Real], bool]
) -> Callable[[Number], Number]:
    """The real function where it is defined, the complex one elsewhere."""

    def call(value: Number) -> Number:
        if number.is_real(value) and is_inside(value):
            return on_reals(value)
        return beyond(complex(value))

    return call


def _everywhere(value: Real) -> bool:
    return True


def _is_positive(value: Real) -> bool:
    return value > 0


def _is_in_unit_interval(value: Real) -> bool:
    return -1 <= value <= 1


exp = _real_or_complex(math.exp, cmath.exp, _everywhere)
expm1 = _real_or_complex(math.expm1, lambda x: cmath.exp(x) - 1, _everywhere)
ln = _real_or_complex(math.log, cmath.log, _is_positive)
log10 = _real_or_complex(math.log10, cmath.log10, _is_positive)
log2 = _real_or_complex(math.log2, lambda x: cmath.log(x, 2), _is_positive)
log1p = _real_or_complex(math.log1p, lambda x: cmath.log(1 + x), lambda x: x > -1)
sinh = _real_or_complex(math.sinh, cmath.sinh, _everywhere)
cosh = _real_or_complex(math.cosh, cmath.cosh, _everywhere)
tanh = _real_or_complex(math.tanh, cmath.tanh, _everywhere)
asin = _real_or_complex(math.asin, cmath.asin, _is_in_unit_interval)
acos = _real_or_complex(math.acos, cmath.acos, _is_in_unit_interval)
atan = _real_or_complex(math.atan, cmath.atan, _everywhere)
asinh = _real_or_complex(math.asinh, cmath.asinh, _everywhere)
acosh = _real_or_complex(math.acosh, cmath.acosh, lambda x: x >= 1)
atanh = _real_or_complex(math.atanh, cmath.atanh, lambda x: -1 < x < 1)


def sin(value: Number) -> Number:
    return cmath.sin(value) if isinstance(value, complex) else _snap(math.sin(value), value)


def cos(value: Number) -> Number:
    return cmath.cos(value) if isinstance(value, complex) else _snap(math.cos(value), value)


def _snap(result: float, argument: Real) -> float:
    """Zero where the argument's own rounding allows it: sin(pi) is 0, although the float nearest to pi is not pi."""
    size = abs(float(argument))
    return 0.0 if 1 < size < _MAX_SNAPPED and abs(result) <= size * _FLOAT_ROUNDING else result


def tan(value: Number) -> Number:
    return cmath.tan(value) if isinstance(value, complex) else number.divide(sin(value), cos(value))


def cot(value: Number) -> Number:
    return number.divide(cos(value), sin(value))


def log(value: Number, base: Number) -> Number:
    quotient = number.divide(ln(value), ln(base))
    if number.is_exact(value) and number.is_exact(base) and isinstance(quotient, float):
        nearest = round(quotient)
        if abs(quotient - nearest) < 1e-9 and number.power(base, nearest) == value:
            return nearest  # log(1000, 10) is 3, where the quotient of floats is a little less
    return quotient


def root(value: Number, degree: int) -> Number:
    """The real root: of negative numbers too if the degree is odd."""
    if degree == 0:
        raise CalculationError("A root of degree 0 does not exist", "For instance: nthRoot(8, 3).")
    if number.real(value, "A real root") < 0:
        if degree % 2 == 0:
            raise CalculationError(
                "An even root of a negative number is not a real number", "Use x^(1/n) for the complex root."
            )
        return number.negate(root(number.negate(value), degree))
    result = number.power(value, Fraction(1, degree))
    if isinstance(result, float) and 1 <= result < 2**53 and number.power(round(result), degree) == value:
        return round(result)
    return result


def whole(value: Number, operation: Callable[[Real], int]) -> Number:
    """Rounding in one direction. What is whole but for the rounding of floats stays: floor(log(1000, 10)) is 3."""
    x = number.real(value, "Rounding")
    nearest = number.round_to(x)
    return nearest if isinstance(x, float) and number.is_close(x, nearest) else number.normalise(operation(x))


def sign(value: Number) -> Number:
    if isinstance(value, complex):
        return value / abs(value)
    return (value > 0) - (value < 0)


def gamma(value: Number) -> Number:
    return math.gamma(number.real(value, "gamma"))


def factorial(value: Number) -> Number:
    n = _natural("factorial", value)
    if n > MAX_INTEGER_BITS or math.lgamma(n + 1) / math.log(2) > MAX_INTEGER_BITS + 1:
        raise number.too_large()
    return math.factorial(n)


def combinations(value: Number, chosen: Number) -> Number:
    n, k = _natural("combinations", value), _natural("combinations", chosen)
    if k > n:
        return 0
    k = min(k, n - k)
    if k and k * (math.log2(n) - math.log2(k)) > MAX_INTEGER_BITS:  # C(n, k) >= (n / k)^k
        raise number.too_large()
    return number.normalise(math.comb(n, k))


def permutations(value: Number, chosen: Number) -> Number:
    n, k = _natural("permutations", value), _natural("permutations", chosen)
    if k > n:
        return 0
    if k and k * (math.log2(n) - math.log2(math.e)) > MAX_INTEGER_BITS:  # P(n, k) >= (n / e)^k
        raise number.too_large()
    return number.normalise(math.perm(n, k))


def _natural(name: str, value: Number) -> int:
    n = number.integer(value, name)
    if n < 0:
        raise CalculationError(f"{name} needs whole numbers from 0", "Check the sign.")
    return n


def is_prime(value: Number) -> bool:
    n = number.integer(value, "isPrime")
    if n > MAX_PRIME:
        raise CalculationError("isPrime takes numbers up to 2^64", "Use a smaller number.")
    if n < 2 or n in _WITNESSES:
        return n >= 2
    if any(n % prime == 0 for prime in _WITNESSES):
        return False
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    return all(_passes(n, witness, twos) for witness in _WITNESSES)


def _passes(n: int, witness: int, twos: int) -> bool:
    x = pow(witness, (n - 1) >> twos, n)
    if x in (1, n - 1):
        return True
    for _ in range(twos - 1):
        x = x * x % n
        if x == n - 1:
            return True
    return False
