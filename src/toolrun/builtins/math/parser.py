"""From text to a syntax tree, and from a syntax error to advice. Knows what tokens mean, not what they are worth.

Lark splits the text and builds the tree by the grammar in `grammar.lark`. In between, `_Disambiguation` replaces each
token whose meaning depends on its neighbours by one that means a single thing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from importlib import resources
from typing import TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lark import PostLex

from toolrun.builtins.math.functions import CONSTANTS, FUNCTIONS
from toolrun.builtins.math.number import CalculationError

Node: TypeAlias = Tree[Token]

MAX_BRACKETS = 50
"""Brackets within brackets."""

_VALUE_ENDS = frozenset({"NUMBER", "NAME", "RPAR", "RSQB", "FACTORIAL", "TRANSPOSE", "SUPERSCRIPT"})
_VALUE_STARTS = frozenset({"NUMBER", "NAME", "FUNCTION", "LPAR", "LSQB", "BIT_NOT"})
_SPELLINGS = {"π": "pi", "τ": "tau", "φ": "phi", "°": "deg", "°C": "degC", "°F": "degF"}
_END = Token("$END", "")


def parse(text: str) -> Node:
    try:
        return _parser().parse(text)
    except UnexpectedCharacters as error:
        raise _explain_character(text, error) from None
    except UnexpectedToken as error:
        raise _explain_token(text, error) from None


@functools.cache
def _parser() -> Lark:
    grammar = resources.files("toolrun.builtins.math").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", postlex=_Disambiguation(), maybe_placeholders=False)


class _Disambiguation(PostLex):
    """Stateless, because one parser serves all threads."""

    always_accept = ("SEMICOLON", "NEWLINE", "PERCENT_SIGN", "IN", "MOD")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        tokens = _separate(list(stream))
        if not tokens:
            raise CalculationError("There is nothing to calculate", "Give an expression, for instance: 2 + 2.")
        _check_brackets(tokens)
        return iter(_mark_fractions(_mark_products(_mark_names(_resolve_words(tokens)))))


def _check_brackets(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.type in ("LPAR", "LSQB")) - (token.type in ("RPAR", "RSQB"))
        if depth > MAX_BRACKETS:
            advice = "Use fewer brackets, or name a part: x = 1 + 2; x * 3."
            raise CalculationError(f"More than {MAX_BRACKETS} brackets within each other", advice, token.start_pos)


def _separate(tokens: list[Token]) -> list[Token]:
    """Semicolons and line ends: rows in a matrix, statements outside, nothing inside brackets or after an operator."""
    result: list[Token] = []
    brackets: list[str] = []
    for token in tokens:
        if token.type in ("LPAR", "LSQB"):
            brackets.append(token.type)
        elif token.type in ("RPAR", "RSQB") and brackets:
            brackets.pop()
        if token.type == "SEMICOLON" and brackets and brackets[-1] == "LSQB":
            result.append(Token.new_borrow_pos("ROW_SEPARATOR", token, token))
        elif token.type == "SEMICOLON" or (token.type == "NEWLINE" and not brackets and _ends_line(result)):
            if result and result[-1].type != "SEPARATOR":
                result.append(Token.new_borrow_pos("SEPARATOR", token, token))
        elif token.type != "NEWLINE":
            result.append(token)
    if result and result[-1].type == "SEPARATOR":
        result.pop()
    return result


def _ends_line(tokens: list[Token]) -> bool:
    return bool(tokens) and (tokens[-1].type in _VALUE_ENDS or tokens[-1].type in ("PERCENT_SIGN", "IN"))


def _resolve_words(tokens: list[Token]) -> list[Token]:
    """`%` and `percent`, `in`, `mod` and `of`: what they are here."""
    result: list[Token] = []
    for index, token in enumerate(tokens):
        before = result[-1] if result else _END
        after = tokens[index + 1] if index + 1 < len(tokens) else _END
        beyond = tokens[index + 2] if index + 2 < len(tokens) else _END
        token_type = token.type
        if token_type == "PERCENT_SIGN":
            token_type = "MODULO" if _is_modulo(before, token, after, beyond) else "PERCENT"
        elif token_type == "NAME" and token == "percent" and before.type in _VALUE_ENDS:
            token_type = "PERCENT"
        elif token_type == "IN":
            token_type = "TO" if _is_conversion(before, after) else "NAME"
        elif token_type == "MOD":
            token_type = "MODULO" if before.type in _VALUE_ENDS or before.type == "PERCENT" else "NAME"
        elif token_type == "OF" and before.type != "PERCENT":
            raise CalculationError("'of' only follows a percentage", "For instance: 12% of 50.", token.start_pos)
        result.append(Token.new_borrow_pos(token_type, _SPELLINGS.get(token, str(token)), token))
    return result


def _is_modulo(before: Token, sign: Token, after: Token, beyond: Token) -> bool:
    """`7 % 3` and `7 % -3` are remainders; `10% - 3`, `10%-3` and `10% * 3` are percentages."""
    if after.type in _VALUE_STARTS:
        return True
    if after.type not in ("PLUS", "MINUS") or beyond.type not in _VALUE_STARTS:
        return False
    is_apart = before.end_pos != sign.start_pos and sign.end_pos != after.start_pos
    return is_apart and after.end_pos == beyond.start_pos


def _is_conversion(before: Token, after: Token) -> bool:
    """`5 m in cm` converts; in `3 in`, `3 in to cm`, `3 in in cm` and `3 cm in in` the other `in` is the inch."""
    if before.type not in _VALUE_ENDS:
        return False
    return after.type in _VALUE_STARTS or (after.type == "IN" and before.type != "NUMBER")


def _mark_names(tokens: list[Token]) -> list[Token]:
    """A name before a bracket is a call, unless it is a constant or assigned somewhere: then it is a factor."""
    assigned = {str(name) for name, sign in itertools.pairwise(tokens) if sign.type == "EQUAL"}
    factors = (assigned | CONSTANTS.keys()) - FUNCTIONS.keys()
    return [
        Token.new_borrow_pos("FUNCTION", name, name)
        if name.type == "NAME" and after.type == "LPAR" and name not in factors
        else name
        for name, after in zip(tokens, [*tokens[1:], _END], strict=True)
    ]


def _mark_products(tokens: list[Token]) -> list[Token]:
    """Two values side by side. A number on the right follows only `)`: in `2 3` and `5 ft 3` something is missing."""
    result: list[Token] = []
    for token in tokens:
        before = result[-1] if result else _END
        is_value = token.type in ("NAME", "FUNCTION", "LPAR") or (token.type == "NUMBER" and before.type == "RPAR")
        if is_value and before.type in _VALUE_ENDS:
            result.append(Token.new_borrow_pos("JUXTAPOSED", "", token))
        result.append(token)
    return result


def _mark_fractions(tokens: list[Token]) -> list[Token]:
    """In `1/2 m` the division comes first, although `10 m / 2 s` multiplies first: rule 2 of mathjs.

    https://github.com/josdejong/mathjs/issues/792#issuecomment-361065370
    """
    result = list(tokens)
    for index, token in enumerate(tokens):
        if token.type != "JUXTAPOSED" or tokens[index - 1].type != "NUMBER":
            continue
        start = index - 1
        while start >= 2 and tokens[start - 1].type == "DIVIDE" and tokens[start - 2].type == "NUMBER":
            start -= 2
        if start > 0 and tokens[start - 1].type in ("DIVIDE", "POWER", "DOT_POWER"):
            continue
        for position in range(start + 1, index - 1, 2):
            result[position] = Token.new_borrow_pos("FRACTION_BAR", tokens[position], tokens[position])
    return result


_CHARACTER_ADVICE = {
    '"': "Text is not supported: use numbers and names only.",
    ".": "Names have no attributes, and a decimal point needs a digit beside it.",
    "_": "Names begin with a letter, and numbers have no separators: 1000, not 1_000.",
    "$": "Leave out currency signs.",
    "€": "Leave out currency signs.",
    "@": "Use * for products of matrices.",
    "{": "Use ( ) for grouping and [ ] for matrices.",
    "}": "Use ( ) for grouping and [ ] for matrices.",
    "√": "Use sqrt(x).",
    "∞": "Infinity is not supported.",
}

_TOKEN_ADVICE = {
    "NUMBER": "Put an operator between two values, for instance + or *, and a comma between elements.",
    "EQUAL": "Use == to compare. Only a name can be assigned, as in x = 3; functions cannot be defined.",
    "COLON": "Ranges are not supported; ':' belongs to condition ? a : b.",
    "COMMA": "Commas separate arguments and elements. Write large numbers without them: 1000, not 1,000.",
    "TRANSPOSE": "' transposes the matrix before it. Text is not supported.",
    "LSQB": "Elements cannot be picked by index. To multiply, write *.",
    "FACTORIAL": "! is the factorial of what stands before it. Use 'not' for negation.",
    "RPAR": "Check that every bracket has its partner and is not empty.",
    "RSQB": "Check that every bracket has its partner and is not empty.",
    "SEPARATOR": "';' and line ends separate statements outside brackets, ';' also rows inside [ ].",
}


def _explain_character(text: str, error: UnexpectedCharacters) -> CalculationError:
    position = error.pos_in_stream or 0
    advice = _CHARACTER_ADVICE.get(text[position], "Remove it.")
    return CalculationError(f"Unexpected character {text[position]!r}", advice, position)


def _explain_token(text: str, error: UnexpectedToken) -> CalculationError:
    token = error.token
    if token.type == "$END":
        position = len(text.rstrip())
        for opening, closing in ("()", "[]"):
            if text.count(opening) > text.count(closing):
                return CalculationError(f"A closing '{closing}' is missing", "Close every bracket.", position)
        return CalculationError("The expression ends too early", "Complete it, or remove the last sign.", position)
    position = token.start_pos or 0
    advice = _TOKEN_ADVICE.get(token.type, "A number, a name or an opening bracket is expected here.")
    if token in ("&", "|") and text[:position].rstrip().endswith(str(token)):
        advice = f"Write '{'and' if token == '&' else 'or'}' for the logical operator."
    return CalculationError(f"Unexpected {str(token)!r}", advice, position)
