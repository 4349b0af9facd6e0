"""Units: names, dimensions and conversion factors. Knows pint; knows nothing of expressions and their values.

Pint is imported when the first unit is looked up, because that takes half a second. It sees single names that our own
grammar has let through, never text of the user: its expression parser is not reached. A unit remembers how it was
written, so that `3 inch to cm` answers in `cm` and not in `centimeter`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from typing import TYPE_CHECKING, Any

from toolrun.builtins.math.number import CalculationError, Number, multiply, normalise, power
from toolrun.text import close_names

if TYPE_CHECKING:
    import pint

MAX_UNIT_POWER = 100
_OFFSET_UNITS = frozenset({"degree_Celsius", "degree_Fahrenheit"})
_NOT_UNITS = frozenset({"dB", "db"})
"""Pint would read a prefix into them (a tenth of a byte), which is not what is meant."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One unit name and its power, the `s^-2` of `m/s^2`."""

    symbol: str
    """As the user wrote it."""
    name: str
    """As pint calls it."""
    power: Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        """In the syntax of math_eval itself: `kg*m/s^2`."""
        above = [_show(factor.symbol, factor.power) for factor in self.factors if factor.power > 0]
        below = [_show(factor.symbol, -factor.power) for factor in self.factors if factor.power < 0]
        return "/".join(["*".join(above) or "1", *below])

    @property
    def has_offset(self) -> bool:
        """Whether zero of this unit is not nothing: 0 degC is 273.15 K, so that sums and products are ambiguous."""
        return any(factor.name in _OFFSET_UNITS for factor in self.factors)


def _show(symbol: str, power: Fraction) -> str:
    if power == 1:
        return symbol
    return f"{symbol}^{power}" if power.denominator == 1 else f"{symbol}^({power})"


RADIAN = Unit((Factor("rad", "radian", Fraction(1)),))
DIMENSIONLESS = Unit(())


def find_unit(symbol: str) -> Unit | None:
    """The unit of that name, with or without a prefix or a plural s."""
    if symbol in _NOT_UNITS:
        return None
    candidates = _registry().parse_unit_name(symbol)
    if not candidates:
        return None
    prefix, name, _ = candidates[0]
    return Unit((Factor(symbol, prefix + name, Fraction(1)),))


def similar_units(symbol: str) -> list[str]:
    known = [str(name) for name in _registry()]
    if symbol.lower() != symbol and find_unit(symbol.lower()):
        return [symbol.lower()]
    return close_names(symbol, known)


def has_dimension(unit: Unit) -> bool:
    return bool(_dimension(unit))


def is_angle(unit: Unit) -> bool:
    return bool(_dimension(unit) == _dimension(RADIAN))


def convert(magnitude: Number, source: Unit, target: Unit) -> Number:
    import pint

    try:
        converted: Number = _registry().convert(magnitude, _container(source), _container(target))
    except pint.PintError:
        advice = "Both sides of a sum, a comparison or a conversion must measure the same thing."
        if {"F", "C"} & {factor.symbol for factor in source.factors + target.factors}:
            advice += " C is coulomb and F is farad: write degC and degF for temperatures."
        elif _dimension(source) == _dimension(target):
            advice = "degC and degF stand alone: write K within a compound unit."
        problem = f"Cannot convert {describe(source)} to {describe(target)}"
        raise CalculationError(problem, advice) from None
    return normalise(converted)


def describe(unit: Unit) -> str:
    return f"'{unit}'" if unit.factors else "a plain number"


def multiply_units(a: Unit, b: Unit) -> tuple[Unit, Number]:
    """The product and the factor that comes of bringing like units together: km times m is 0.001 km^2."""
    factors = list(a.factors)
    scale: Number = 1
    for factor in b.factors:
        index = next((i for i, known in enumerate(factors) if _is_alike(known, factor)), None)
        if index is None:
            factors.append(factor)
            continue
        known = factors[index]
        if known.name != factor.name:
            scale = multiply(scale, power(convert(1, _single(factor), _single(known)), normalise(factor.power)))
        factors[index] = Factor(known.symbol, known.name, known.power + factor.power)
    return _checked(factors), scale


def raise_unit(unit: Unit, power: Fraction) -> Unit:
    return _checked([Factor(factor.symbol, factor.name, factor.power * power) for factor in unit.factors])


def _checked(factors: list[Factor]) -> Unit:
    if any(max(abs(factor.power.numerator), factor.power.denominator) > MAX_UNIT_POWER for factor in factors):
        raise CalculationError(f"A power of a unit is beyond ±{MAX_UNIT_POWER}", "Check the exponent.")
    return Unit(tuple(factor for factor in factors if factor.power))


def _is_alike(a: Factor, b: Factor) -> bool:
    return a.name == b.name or bool(_dimension(_single(a)) == _dimension(_single(b)))


def _single(factor: Factor) -> Unit:
    return Unit((Factor(factor.symbol, factor.name, Fraction(1)),))


def _dimension(unit: Unit) -> Any:  # a pint container, compared and tested for emptiness here only
    return _registry().get_dimensionality(_container(unit))


def _container(unit: Unit) -> Any:  # pint's own type is generic over the registry's numbers
    registry = _registry()
    return registry.UnitsContainer({factor.name: factor.power for factor in unit.factors})


@functools.cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    definitions = resources.files("toolrun.builtins.math").joinpath("units.txt").read_text(encoding="utf-8")
    return pint.UnitRegistry(definitions.splitlines(), non_int_type=Fraction, cache_folder=None)
