"""Vectors and matrices, and how operations spread over them. Knows nothing of syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolrun.builtins.math import number, scalar
from toolrun.builtins.math.number import CalculationError, Number
from toolrun.builtins.math.scalar import Scalar

MAX_ELEMENTS = 400
MAX_MATRIX_POWER = 1024


@dataclass(frozen=True, slots=True)
class Matrix:
    """Elements row by row. The shape has one number for a vector and two (rows, columns) for a matrix."""

    shape: tuple[int, ...]
    items: tuple[Scalar, ...]

    def rows(self) -> list[tuple[Scalar, ...]]:
        """The rows of a matrix; a vector is one row."""
        width = self.shape[-1]
        return [self.items[start : start + width] for start in range(0, len(self.items), width)]

    def __str__(self) -> str:
        return "x".join(map(str, self.shape)) + (" matrix" if len(self.shape) == 2 else "-element vector")


Value: TypeAlias = Scalar | Matrix


def build(rows: Sequence[Sequence[Value]], *, is_nested: bool) -> Matrix:
    """From a literal: `[1, 2; 3, 4]` has rows, `[[1, 2], [3, 4]]` is one row of vectors."""
    if not is_nested and len(rows) == 1 and any(isinstance(item, Matrix) for item in rows[0]):
        parts = rows[0]
        if not all(isinstance(part, Matrix) and len(part.shape) == 1 for part in parts):
            raise CalculationError(
                "A matrix is a list of rows, and each row a list of numbers", "Write [[1, 2], [3, 4]] or [1, 2; 3, 4]."
            )
        return build([part.items for part in parts if isinstance(part, Matrix)], is_nested=True)
    if any(isinstance(item, Matrix) for row in rows for item in row):
        raise CalculationError("Matrices have at most two dimensions", "Write [[1, 2], [3, 4]] or [1, 2; 3, 4].")
    items = tuple(item for row in rows for item in row if not isinstance(item, Matrix))
    check_size(len(items))
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise CalculationError("The rows of a matrix must be equally long", "Fill the short rows, for instance with 0.")
    return Matrix((len(rows), width) if is_nested or len(rows) > 1 else (width,), items)


def check_size(elements: int) -> None:
    if elements > MAX_ELEMENTS:
        raise CalculationError(f"A matrix has at most {MAX_ELEMENTS} elements", "Use a smaller matrix.")


def spread(operation: Callable[[Scalar], Scalar], value: Value) -> Value:
    """Element by element."""
    if isinstance(value, Matrix):
        return Matrix(value.shape, tuple(map(operation, value.items)))
    return operation(value)


def combine(operation: Callable[[Scalar, Scalar], Scalar], a: Value, b: Value) -> Value:
    """Element by element, a scalar with every element."""
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        if a.shape != b.shape:
            raise _mismatch(a, b)
        return Matrix(a.shape, tuple(map(operation, a.items, b.items)))
    if isinstance(a, Matrix):
        return Matrix(a.shape, tuple(operation(item, b) for item in a.items if not isinstance(b, Matrix)))
    if isinstance(b, Matrix):
        return Matrix(b.shape, tuple(operation(a, item) for item in b.items))
    return operation(a, b)


def _mismatch(a: Matrix, b: Matrix) -> CalculationError:
    return CalculationError(f"The sizes do not match: {a} and {b}", "Check the matrices, or transpose one with '.")


def multiply(a: Value, b: Value) -> Value:
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        return _product(a, b)
    return combine(scalar.multiply, a, b)


def _product(a: Matrix, b: Matrix) -> Value:
    """A vector is a row on the left and a column on the right, as in mathjs: two of them make the dot product."""
    columns = _transposed(b).rows() if len(b.shape) == 2 else [b.items]
    if a.shape[-1] != b.shape[0]:
        raise _mismatch(a, b)
    check_size(len(a.rows()) * len(columns))
    items = tuple(_dot(row, column) for row in a.rows() for column in columns)
    shape = a.shape[:-1] + b.shape[1:]
    return Matrix(shape, items) if shape else items[0]


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return total([scalar.multiply(x, y) for x, y in zip(a, b, strict=True)])


def total(items: Sequence[Scalar]) -> Scalar:
    result = items[0]
    for item in items[1:]:
        result = scalar.add(result, item)
    return result


def divide(a: Value, b: Value) -> Value:
    if isinstance(b, Matrix):
        return multiply(a, inverse(b))
    return combine(scalar.divide, a, b)


def power(a: Value, b: Value) -> Value:
    if isinstance(b, Matrix):
        raise CalculationError("An exponent cannot be a matrix", "Use .^ for powers element by element.")
    if not isinstance(a, Matrix):
        return scalar.power(a, b)
    exponent = scalar.integer(b, "A power of a matrix")
    size = _square(a)
    if abs(exponent) > MAX_MATRIX_POWER:
        raise CalculationError(f"A matrix can be raised to at most {MAX_MATRIX_POWER}", "Use a smaller exponent.")
    base: Value = a if exponent >= 0 else inverse(a)
    result: Value = identity(size)
    for bit in bin(abs(exponent))[2:]:
        result = multiply(result, result)
        if bit == "1":
            result = multiply(result, base)
    return result


def transpose(value: Value) -> Value:
    """A vector and a scalar are their own transpose."""
    if isinstance(value, Matrix) and len(value.shape) == 2:
        return _transposed(value)
    return value


def _transposed(matrix: Matrix) -> Matrix:
    rows, columns = matrix.shape
    return Matrix((columns, rows), tuple(item for column in zip(*matrix.rows(), strict=True) for item in column))


def identity(size: int) -> Matrix:
    return fill((size, size), lambda row, column: int(row == column))


def fill(shape: tuple[int, ...], element: Callable[[int, int], int]) -> Matrix:
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    if rows < 1 or columns < 1:
        raise CalculationError("The size of a matrix is at least 1", "Use positive whole numbers.")
    check_size(rows * columns)
    return Matrix(shape, tuple(element(row, column) for row in range(rows) for column in range(columns)))


def determinant(value: Value) -> Number:
    _, result = _eliminate(value, "det")
    return result


def inverse(value: Value) -> Value:
    if not isinstance(value, Matrix):
        return scalar.divide(1, value)
    rows, result = _eliminate(value, "inv")
    if result == 0:
        raise CalculationError("The matrix has no inverse: its determinant is 0", "Check the matrix.")
    size = len(rows)
    return Matrix(value.shape, tuple(item for row in rows for item in row[size:]))


def _eliminate(value: Value, what: str) -> tuple[list[list[Number]], Number]:
    """Gauss-Jordan on the matrix beside the identity: the reduced rows and the determinant."""
    if not isinstance(value, Matrix):
        raise CalculationError(f"{what} needs a square matrix", "For instance: [1, 2; 3, 4].")
    size = _square(value)
    rows: list[list[Number]] = [
        [scalar.plain(item, what) for item in row] + [int(index == column) for column in range(size)]
        for index, row in enumerate(value.rows())
    ]
    result: Number = 1
    for column in range(size):
        pivot = max(range(column, size), key=lambda index: number.absolute(rows[index][column]))
        if rows[pivot][column] == 0:
            return rows, 0
        if pivot != column:
            rows[pivot], rows[column] = rows[column], rows[pivot]
            result = number.negate(result)
        head = rows[column][column]
        result = number.multiply(result, head)
        rows[column] = [number.divide(item, head) for item in rows[column]]
        for index in range(size):
            factor = rows[index][column]
            if index != column and factor != 0:
                rows[index] = [
                    number.subtract(item, number.multiply(factor, lead))
                    for item, lead in zip(rows[index], rows[column], strict=True)
                ]
    return rows, result


def _square(matrix: Matrix) -> int:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise CalculationError(f"This needs a square matrix, not a {matrix}", "Check its rows and columns.")
    return matrix.shape[0]


def cross(a: Matrix, b: Matrix) -> Matrix:
    if a.shape != (3,) or b.shape != (3,):
        raise CalculationError("cross needs two vectors of three elements", "For instance: cross([1,0,0], [0,1,0]).")
    (a1, a2, a3), (b1, b2, b3) = a.items, b.items
    times, minus = scalar.multiply, scalar.subtract
    return Matrix(
        (3,),
        (
            minus(times(a2, b3), times(a3, b2)),
            minus(times(a3, b1), times(a1, b3)),
            minus(times(a1, b2), times(a2, b1)),
        ),
    )


def trace(value: Value) -> Value:
    if not isinstance(value, Matrix):
        raise CalculationError("trace needs a square matrix", "For instance: [1, 2; 3, 4].")
    return total(value.items[:: _square(value) + 1])
