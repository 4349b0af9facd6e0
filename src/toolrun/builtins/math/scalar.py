"""Quantities, and arithmetic on numbers and quantities alike. Knows nothing of matrices or syntax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from toolrun.builtins.math import number, units
from toolrun.builtins.math.number import CalculationError, Number
from toolrun.builtins.math.units import Unit


@dataclass(frozen=True, slots=True)
class Quantity:
    magnitude: Number
    unit: Unit


Scalar: TypeAlias = Number | Quantity


def plain(value: Scalar, what: str) -> Number:
    """The value as a number without a unit."""
    if not isinstance(value, Quantity):
        return value
    if units.has_dimension(value.unit):
        advice = f"Divide by the unit first, for instance: x / (1 {value.unit})."
        raise CalculationError(f"{what} needs a plain number, not one in {value.unit}", advice)
    return units.convert(value.magnitude, value.unit, units.DIMENSIONLESS)


def integer(value: Scalar, what: str) -> int:
    return number.integer(plain(value, what), what)


def radians(value: Scalar, what: str) -> Number:
    """An angle as a number: plain numbers are radians already."""
    if isinstance(value, Quantity) and units.is_angle(value.unit):
        return units.convert(value.magnitude, value.unit, units.RADIAN)
    return plain(value, what)


def on_magnitude(operation: Callable[[Number], Number], value: Scalar) -> Scalar:
    """For what keeps the unit: the absolute value, rounding, the sign change."""
    if isinstance(value, Quantity):
        return Quantity(operation(value.magnitude), value.unit)
    return operation(value)


def add(a: Scalar, b: Scalar) -> Scalar:
    return _same_unit(number.add, a, b)


def subtract(a: Scalar, b: Scalar) -> Scalar:
    return _same_unit(number.subtract, a, b)


def modulo(a: Scalar, b: Scalar) -> Scalar:
    return _same_unit(number.modulo, a, b)


def _same_unit(operation: Callable[[Number, Number], Number], a: Scalar, b: Scalar) -> Scalar:
    for value in (a, b):
        if isinstance(value, Quantity) and value.unit.has_offset:
            raise _ambiguous(value.unit)
    left, right, unit = aligned(a, b)
    result = operation(left, right)
    return Quantity(result, unit) if unit.factors else result


def aligned(a: Scalar, b: Scalar) -> tuple[Number, Number, Unit]:
    """Both in the unit of the first."""
    if not isinstance(a, Quantity) and not isinstance(b, Quantity):
        return a, b, units.DIMENSIONLESS
    left, right = _quantity(a), _quantity(b)
    return left.magnitude, units.convert(right.magnitude, right.unit, left.unit), left.unit


def _ambiguous(unit: Unit) -> CalculationError:
    return CalculationError(
        f"Arithmetic with {unit} is ambiguous, because its zero is not the absolute zero",
        "Convert to K first, for instance: (20 degC to K) + 5 K.",
    )


def multiply(a: Scalar, b: Scalar) -> Scalar:
    if not isinstance(a, Quantity):
        if not isinstance(b, Quantity):
            return number.multiply(a, b)
        if b.unit.has_offset and b.magnitude == 1:
            return Quantity(a, b.unit)  # "20 degC" is written like a product, but is a quantity
    return _product(number.multiply, _quantity(a), _quantity(b), Fraction(1))


def divide(a: Scalar, b: Scalar) -> Scalar:
    if not isinstance(a, Quantity) and not isinstance(b, Quantity):
        return number.divide(a, b)
    return _product(number.divide, _quantity(a), _quantity(b), Fraction(-1))


def _product(operation: Callable[[Number, Number], Number], a: Quantity, b: Quantity, exponent: Fraction) -> Scalar:
    for unit in (a.unit, b.unit):
        if unit.has_offset:
            raise _ambiguous(unit)
    unit, scale = units.multiply_units(a.unit, units.raise_unit(b.unit, exponent))
    return _reduced(number.multiply(operation(a.magnitude, b.magnitude), scale), unit)


def _quantity(value: Scalar) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(value, units.DIMENSIONLESS)


def power(base: Scalar, exponent: Scalar) -> Scalar:
    exponent = plain(exponent, "An exponent")
    if not isinstance(base, Quantity):
        return number.power(base, exponent)
    if not number.is_real(exponent):
        raise CalculationError("A quantity cannot be raised to a complex power", "Use a real exponent.")
    # A root written as a float (1/3 computed inexactly) is still a third.
    exact = Fraction(exponent).limit_denominator(units.MAX_UNIT_POWER)
    if not number.is_close(exact, exponent):
        raise CalculationError(f"Cannot raise {base.unit} to this power", "Use a whole number or a simple fraction.")
    if base.unit.has_offset:
        raise _ambiguous(base.unit)
    return _reduced(number.power(base.magnitude, exponent), units.raise_unit(base.unit, exact))


def _reduced(magnitude: Number, unit: Unit) -> Scalar:
    """A plain number where the units cancel: 1 h / 1 min is 60."""
    if not unit.factors:
        return magnitude
    if units.has_dimension(unit):
        return Quantity(magnitude, unit)
    return units.convert(magnitude, unit, units.DIMENSIONLESS)


def convert(value: Scalar, target: Scalar) -> Scalar:
    """`value to target`, where the target is a bare unit. A plain number can become an angle: it is in radians."""
    if not isinstance(target, Quantity):
        raise CalculationError("A conversion needs a unit on its right side", "For instance: 3 inch to cm.")
    if target.magnitude != 1:
        raise CalculationError("The target of a conversion is a unit without a number", f"Write: to {target.unit}.")
    if not isinstance(value, Quantity):
        if units.is_angle(target.unit):
            value = Quantity(value, units.RADIAN)
        elif not units.has_dimension(target.unit):
            value = Quantity(value, units.DIMENSIONLESS)
        else:
            problem = f"Cannot convert a plain number to '{target.unit}': it has no unit"
            raise CalculationError(problem, "Give the number a unit, for instance: 3 inch to cm.")
    return Quantity(units.convert(value.magnitude, value.unit, target.unit), target.unit)


def is_equal(a: Scalar, b: Scalar) -> bool:
    left, right, _ = aligned(a, b)
    return number.is_close(left, right)


def compare(a: Scalar, b: Scalar) -> int:
    left, right, _ = aligned(a, b)
    return number.compare(left, right)


def is_true(value: Scalar) -> bool:
    return bool(value.magnitude if isinstance(value, Quantity) else value)


def square_root(value: Scalar) -> Scalar:
    return power(value, Fraction(1, 2))
