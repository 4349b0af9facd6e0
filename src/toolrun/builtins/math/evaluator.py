"""From a syntax tree to a value. Knows the operators, the order of evaluation and how much work is allowed.

A tree is walked, nothing is compiled or looked up outside the tables here and in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Final

from lark import Token, Tree

from toolrun.builtins.math import matrix, number, scalar, units
from toolrun.builtins.math.functions import CONSTANTS, FUNCTIONS
from toolrun.builtins.math.matrix import Matrix, Value
from toolrun.builtins.math.number import CalculationError
from toolrun.builtins.math.parser import Node
from toolrun.builtins.math.scalar import Quantity, Scalar
from toolrun.text import close_names

MAX_DEPTH = 100
"""Operations within operations: signs, powers, brackets, conditions."""
MAX_WORK = 50_000
"""In scalar operations, matrices counted by size."""

_HEAVY: Final = MappingProxyType({"det": 4, "inv": 4, "DIVIDE": 4, "POWER": 20, "pow": 20})
"""How many products of matrices the operation costs at worst."""

_TRANSLATIONS: Final = (
    (ZeroDivisionError, "Division by zero", "Check the divisor."),
    (OverflowError, number.TOO_LARGE, number.TOO_LARGE_ADVICE),
    (ArithmeticError, "This cannot be calculated", "Check the arguments."),
    (ValueError, "This is not defined for the given value", "Check the arguments."),
)

Binary = Callable[[Value, Value], Value]


def _spread(operation: Callable[[Scalar, Scalar], Scalar]) -> Binary:
    return lambda a, b: matrix.combine(operation, a, b)


def _on_bits(operation: Callable[[int, int], int]) -> Binary:
    def call(a: Scalar, b: Scalar) -> Scalar:
        return number.normalise(operation(*(scalar.integer(value, "A bit operation") for value in (a, b))))

    return _spread(call)


def _ordered(is_met: Callable[[int], bool]) -> Binary:
    return _spread(lambda a, b: is_met(scalar.compare(a, b)))


def _shift(a: Scalar, b: Scalar, sign: int) -> Scalar:
    what = "A bit shift"
    count = scalar.integer(b, what)
    if count < 0:
        raise CalculationError("The count of a bit shift is negative", "Use the opposite shift.")
    return number.shift(scalar.integer(a, what), sign * count)


OPERATORS: Final[MappingProxyType[str, Binary]] = MappingProxyType(
    {
        "PLUS": _spread(scalar.add),
        "MINUS": _spread(scalar.subtract),
        "TIMES": matrix.multiply,
        "OF": matrix.multiply,
        "JUXTAPOSED": matrix.multiply,
        "DIVIDE": matrix.divide,
        "FRACTION_BAR": matrix.divide,
        "DOT_TIMES": _spread(scalar.multiply),
        "DOT_DIVIDE": _spread(scalar.divide),
        "MODULO": _spread(scalar.modulo),
        "POWER": matrix.power,
        "DOT_POWER": _spread(scalar.power),
        "TO": _spread(scalar.convert),
        "BIT_AND": _on_bits(lambda a, b: a & b),
        "BIT_OR": _on_bits(lambda a, b: a | b),
        "BIT_XOR": _on_bits(lambda a, b: a ^ b),
        "<<": _spread(lambda a, b: _shift(a, b, 1)),
        ">>": _spread(lambda a, b: _shift(a, b, -1)),
        "==": _spread(scalar.is_equal),
        "!=": _spread(lambda a, b: not scalar.is_equal(a, b)),
        "≠": _spread(lambda a, b: not scalar.is_equal(a, b)),
        "<": _ordered(lambda order: order < 0),
        ">": _ordered(lambda order: order > 0),
        "<=": _ordered(lambda order: order <= 0),
        "≤": _ordered(lambda order: order <= 0),
        ">=": _ordered(lambda order: order >= 0),
        "≥": _ordered(lambda order: order >= 0),
    }
)


def _conjugate_transpose(value: Value) -> Value:
    return matrix.transpose(FUNCTIONS["conj"].call(value))


UNARY: Final[MappingProxyType[str, Callable[[Value], Value]]] = MappingProxyType(
    {
        "MINUS": lambda value: matrix.spread(lambda item: scalar.on_magnitude(number.negate, item), value),
        "PLUS": lambda value: matrix.spread(lambda item: scalar.on_magnitude(lambda x: +x, item), value),
        "BIT_NOT": FUNCTIONS["bitNot"].call,
        "FACTORIAL": FUNCTIONS["factorial"].call,
        "TRANSPOSE": _conjugate_transpose,
        "²": FUNCTIONS["square"].call,
        "³": FUNCTIONS["cube"].call,
    }
)


def evaluate(program: Node) -> Value:
    """The value of the last statement."""
    return _Evaluation().run(program)


class _Evaluation:
    """One evaluation: its variables and the work done so far."""

    def __init__(self) -> None:
        self._variables: dict[str, Value] = {}
        self._work = 0
        self._depth = 0
        self._rules: dict[str, Callable[[Node], Value]] = {
            "assignment": self._assignment,
            "choice": self._choice,
            "disjunction": self._disjunction,
            "exclusion": self._exclusion,
            "conjunction": self._conjunction,
            "negation": self._negation,
            "relation": self._relation,
            "sum": self._sum,
            "percentage": self._percentage,
            "unary": self._unary,
            "postfix": self._postfix,
            "number": self._number,
            "name": self._name,
            "call": self._call,
            "group": self._group,
            "matrix": self._matrix,
        }

    def run(self, program: Node) -> Value:
        *_, last = [self._value(statement) for statement in program.children if isinstance(statement, Tree)]
        return last

    def _value(self, node: Node | Token) -> Value:
        assert isinstance(node, Tree)  # the grammar puts tokens and operands in different places
        if self._depth >= MAX_DEPTH:
            advice = "Name a part of the expression: x = 1 + 2; x * 3."
            raise CalculationError(f"More than {MAX_DEPTH} operations within each other", advice, _position(node))
        self._depth += 1
        try:
            return self._rules.get(node.data, self._chain)(node)
        finally:
            self._depth -= 1

    def _apply(self, operation: Callable[..., Value], token: Token, *arguments: Value) -> Value:
        """Run one operation within the work limit; a failure gets the position of the token."""
        elements = max((len(value.items) for value in arguments if isinstance(value, Matrix)), default=0)
        self._work += 1 + int(elements**1.5) * _HEAVY.get(token.type, _HEAVY.get(token, 1))
        try:
            if self._work > MAX_WORK:
                raise CalculationError("The expression takes too much work", "Use smaller matrices or fewer of them.")
            return operation(*arguments)
        except CalculationError as error:
            raise CalculationError(error.problem, error.advice, token.start_pos) from None
        except (ArithmeticError, ValueError) as error:
            problem, advice = next(text for error_class, *text in _TRANSLATIONS if isinstance(error, error_class))
            raise CalculationError(problem, advice, token.start_pos) from None

    def _chain(self, node: Node) -> Value:
        """Operators of one precedence, from left to right."""
        value = self._value(node.children[0])
        for token, operand in _pairs(node):
            value = self._apply(_operator(token), token, value, self._value(operand))
        return value

    def _sum(self, node: Node) -> Value:
        """A percentage is added to and taken from what stands before it: 200 + 10% is 220."""
        value = self._value(node.children[0])
        for token, operand in _pairs(node):
            right = self._value(operand)
            if operand.data == "percentage":
                right = self._apply(matrix.multiply, token, value, right)
            value = self._apply(_operator(token), token, value, right)
        return value

    def _relation(self, node: Node) -> Value:
        """1 < x < 3 holds if both comparisons hold."""
        left = self._value(node.children[0])
        result: Value = True
        for token, operand in _pairs(node):
            right = self._value(operand)
            holds = self._apply(_operator(token), token, left, right)
            result = self._apply(_both, token, result, holds)
            left = right
        return result

    def _disjunction(self, node: Node) -> Value:
        return any(self._truth(child) for child in node.children[::2])

    def _conjunction(self, node: Node) -> Value:
        return all(self._truth(child) for child in node.children[::2])

    def _exclusion(self, node: Node) -> Value:
        return sum(self._truth(child) for child in node.children[::2]) % 2 == 1

    def _negation(self, node: Node) -> Value:
        return not self._truth(node.children[1])

    def _choice(self, node: Node) -> Value:
        condition, yes, no = node.children
        return self._value(yes if self._truth(condition) else no)

    def _truth(self, node: Node | Token) -> bool:
        value = self._value(node)
        if isinstance(value, Matrix):
            raise CalculationError("A matrix is neither true nor false", "Compare its elements.", _position(node))
        return scalar.is_true(value)

    def _percentage(self, node: Node) -> Value:
        operand, sign = node.children
        assert isinstance(sign, Token)
        return self._apply(matrix.divide, sign, self._value(operand), 100)

    def _unary(self, node: Node) -> Value:
        sign, operand = node.children
        assert isinstance(sign, Token)
        return self._apply(UNARY[sign.type], sign, self._value(operand))

    def _postfix(self, node: Node) -> Value:
        if len(node.children) > MAX_DEPTH:
            raise CalculationError(f"More than {MAX_DEPTH} signs after a value", "Remove some.", _position(node))
        value = self._value(node.children[0])
        for sign in node.children[1:]:
            assert isinstance(sign, Token)
            value = self._apply(UNARY[sign if sign.type == "SUPERSCRIPT" else sign.type], sign, value)
        return value

    def _group(self, node: Node) -> Value:
        return self._value(node.children[0])

    def _number(self, node: Node) -> Value:
        token = _token(node)
        return self._apply(lambda: number.literal(str(token)), token)

    def _matrix(self, node: Node) -> Value:
        rows = [row for row in node.children if isinstance(row, Tree)]
        values = [[self._value(item) for item in row.children] for row in rows]
        return self._apply(lambda: matrix.build(values, is_nested=False), _first_token(node))

    def _assignment(self, node: Node) -> Value:
        name = _token(node)
        if name in FUNCTIONS:
            advice = f"Choose another name, for instance {name}_1."
            raise CalculationError(f"'{name}' is a function and cannot be assigned", advice, name.start_pos)
        self._variables[name] = self._value(node.children[1])
        return self._variables[name]

    def _name(self, node: Node) -> Value:
        token = _token(node)
        if token in self._variables:
            return self._variables[token]
        if token in CONSTANTS:
            return CONSTANTS[token]
        unit = units.find_unit(str(token))
        if unit is not None:
            return Quantity(1, unit)
        if token in FUNCTIONS:
            problem, advice = f"'{token}' is a function", f"Give it arguments in brackets: {token}(…)."
        elif token.lower() in ("infinity", "inf", "nan"):
            problem, advice = f"'{token}' is not supported", "Results are finite numbers."
        else:
            problem, advice = f"Unknown name '{token}'", self._suggestion(token)
        raise CalculationError(problem, advice, token.start_pos)

    def _call(self, node: Node) -> Value:
        name = _token(node)
        function = FUNCTIONS.get(name)
        if function is None:
            is_unit = units.find_unit(name) is not None
            problem = f"'{name}' is a unit, not a function" if is_unit else f"Unknown function '{name}'"
            advice = f"To multiply, write {name} * (…)." if is_unit else self._suggestion(name)
            raise CalculationError(problem, advice, name.start_pos)
        count = len(node.children) - 1
        if count < function.least or (function.most is not None and count > function.most):
            takes = f"{function.least}" if function.most == function.least else f"{function.least} to {function.most}"
            takes = takes if function.most is not None else f"at least {function.least}"
            problem = f"{name} takes {takes} argument{'' if takes.endswith('1') else 's'}, not {count}"
            raise CalculationError(problem, "Separate them with commas.", name.start_pos)
        return self._apply(function.call, name, *(self._value(argument) for argument in node.children[1:]))

    def _suggestion(self, name: str) -> str:
        known = [*self._variables, *CONSTANTS, *FUNCTIONS]
        close = close_names(name, known)
        close = (close + [item for item in units.similar_units(name) if item not in close])[:4]
        if close:
            return f"Did you mean {', '.join(close)}?"
        return "Use numbers, units, pi, e, i, functions such as sqrt or log, or assign the name first: x = 3; x^2."


def _both(a: Value, b: Value) -> Value:
    return matrix.combine(lambda x, y: scalar.is_true(x) and scalar.is_true(y), a, b)


def _pairs(node: Node) -> Iterator[tuple[Token, Node]]:
    for token, operand in zip(node.children[1::2], node.children[2::2], strict=True):
        assert isinstance(token, Token)
        assert isinstance(operand, Tree)
        yield token, operand


def _operator(token: Token) -> Binary:
    return OPERATORS[token if token in OPERATORS else token.type]


def _token(node: Node) -> Token:
    token = node.children[0]
    assert isinstance(token, Token)
    return token


def _first_token(node: Node | Token) -> Token:
    while isinstance(node, Tree):
        node = node.children[0]
    return node


def _position(node: Node | Token) -> int | None:
    return _first_token(node).start_pos
