"""math_eval: every documented example, the meaning of each construct, the limits, and a fuzz of both edges."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolrun.builtins.math.functions import CONSTANTS, FUNCTIONS
from toolrun.builtins.math.math_eval import MAX_LENGTH, math_eval
from toolrun.builtins.math.units import find_unit
from toolrun.errors import ToolError

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "math.md"


def documented_examples() -> list[tuple[str, str]]:
    blocks = re.findall(r"```math\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [(expression, value) for expression, _, value in (line.partition("  =>  ") for line in lines)]


def error_of(expression: str) -> str:
    with pytest.raises(ToolError) as caught:
        math_eval(expression)
    return str(caught.value)


def quantity(value: object, unit: str) -> dict[str, object]:
    return {"value": value, "unit": unit}


class TestGuide:
    def test_has_examples(self) -> None:
        assert len(documented_examples()) > 100

    @pytest.mark.parametrize(("expression", "value"), documented_examples())
    def test_example_holds(self, expression: str, value: str) -> None:
        if value.startswith("error: "):
            assert value.removeprefix("error: ") in error_of(expression)
        else:
            result = math_eval(expression)
            assert result == json.loads(value)
            assert isinstance(result, bool) == isinstance(json.loads(value), bool)

    def test_names_every_function_and_constant(self) -> None:
        named = set(re.findall(r"\b[A-Za-z]\w*", " ".join(re.findall(r"`([^`\n]+)`", GUIDE.read_text("utf-8")))))
        assert FUNCTIONS.keys() | CONSTANTS.keys() <= named

    def test_every_unit_in_its_table_exists(self) -> None:
        table = GUIDE.read_text("utf-8").partition("| measure |")[2].partition("\n\n")[0]
        names = {name for code in re.findall(r"`([^`\n]+)`", table) for name in code.split("/")}
        assert len(names) > 100
        assert [name for name in names if find_unit(name) is None] == []


class TestNumbers:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("0.1 + 0.2 - 0.3", 0),
            ("4.35 * 100", 435),
            ("1.1 * 1.1", 1.21),
            ("64^(1/3)", 4),
            ("0^0", 1),
            ("(-1)^(10^300 + 1)", -1),
            ("2^0.5", 1.4142135623731),
            ("10^30 / 10^20", 10_000_000_000),
            ("true + 1", 2),
            ("5.5 % 1", 0.5),
            ("-(-3)", 3),
            ("1 - -2", 3),
            ("3!!", 720),
            ("-5!", -120),
            ("5!!=3", True),
            ("2e", 5.4365636569181),
            ("2.*3", 6),
            ("2. + 3", 5),
            ("5 × 3 ÷ 2 − 1", 6.5),
            ("2π", 6.2831853071796),
            ("0e999999999", 0),
            ("exp(-1000)", 0),
        ],
    )
    def test_value(self, expression: str, value: object) -> None:
        assert math_eval(expression) == value

    def test_a_whole_result_is_an_int(self) -> None:
        assert [type(math_eval(text)) for text in ("4 / 2", "sqrt(16)", "exp(0)", "0.5 * 4", "i^2")] == [int] * 5

    def test_integers_are_exact_up_to_64_bits_and_text_beyond(self) -> None:
        assert math_eval("2^63 - 1") == 2**63 - 1
        assert math_eval("-2^63") == -(2**63)
        assert math_eval("2^63") == str(2**63)
        assert math_eval("300!") == str(math.factorial(300))

    def test_comparison_of_floats_has_a_tolerance_and_of_exact_numbers_none(self) -> None:
        assert math_eval("sin(1)^2 + cos(1)^2 == 1") is True
        assert math_eval("sqrt(2)^2 <= 2") is True
        assert math_eval("1 == 1.00000000000001") is False
        assert math_eval("10^600 > sqrt(2)") is True

    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("-i", "-i"),
            ("2 - i", "2 - i"),
            ("1.5 + 0.5i", "1.5 + 0.5i"),
            ("(1 + i)^-2", "-0.5i"),
            ("(1 + i)^20", -1024),
            ("log(-1)", "3.1415926535898i"),
            ("[1, i; 2, 3]'", [[1, 2], ["-i", 3]]),
            ("transpose([1, i; 2, 3])", [[1, 2], ["i", 3]]),
        ],
    )
    def test_complex(self, expression: str, value: object) -> None:
        assert math_eval(expression) == value


class TestSyntax:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("6/2(1+2)", 9),
            ("1/2/4 (8)", 1),
            ("1/2pi", 1.5707963267949),
            ("2^1/2 (4)", 0.25),
            ("(3)4", 12),
            ("pi(2)", 6.2831853071796),
            ("a = 2; a(3)", 6),
            ("m = 3; 5 m", 15),
            ("i = 5; i + 1", 6),
            ("mod(7, 3) + 7 mod 3", 2),
            ("1 ? 2 : 0 ? 3 : 4", 2),
            ("0 ? 2 : 0 ? 3 : 4", 4),
            ("1 or 1/0", True),
            ("0 and 1/0", False),
            ("1 +\n2", 3),
            ("(1\n+ 2)", 3),
            ("x = 3\n\ny = 4\nsqrt(x^2 + y^2)\n", 5),
            ("; x = 1;; x;", 1),
            ("2 # two\n+ 0", 0),
            ("[1,\n2]", [1, 2]),
            ("[1, 2] == [1, 3]", [True, False]),
            ("(50 + 50)%", 1),
            ("100 - 10% + 5", 95),
            ("100 + 10% * 2", 100.2),
            ("-10%", -0.1),
            ("10% * 10%", 0.01),
            ("12 % (5)", 2),
            ("[10, 20] + 10%", [11, 22]),
        ],
    )
    def test_value(self, expression: str, value: object) -> None:
        assert math_eval(expression) == value

    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("3 in", quantity(3, "in")),
            ("3 in in cm", quantity(7.62, "cm")),
            ("2 ft in in", quantity(24, "in")),
            ("(1 + 2) in to cm", quantity(7.62, "cm")),
            ("5 m^2 in cm^2", quantity(50000, "cm^2")),
            ("5 m² to cm²", quantity(50000, "cm^2")),
            ("1/2 kg", quantity(0.5, "kg")),
            ("-40 °C to °F", quantity(-40, "degF")),
            ("x = 20; x degC to K", quantity(293.15, "K")),
            ("5 kg + 10%", quantity(5.5, "kg")),
            ("10% of 5 kg", quantity(0.5, "kg")),
            ("5 kg m/s^2 to N", quantity(5, "N")),
            ("1 Hz to 1/min", quantity(60, "1/min")),
            ("m^(1/2)", quantity(1, "m^(1/2)")),
            ("5 L / 1 m^2", quantity(5, "L/m^2")),
            ("1/4 to percent", quantity(25, "percent")),
            ("max(1 m, 150 cm)", quantity(150, "cm")),
            ("std(1 m, 2 m, 3 m)", quantity(1, "m")),
            ("[1 m, 2 m] to cm", [quantity(100, "cm"), quantity(200, "cm")]),
            ("10^30 m", quantity(str(10**30), "m")),
            ("1 h / 1 min", 60),
            ("tan(45 deg)", 1),
        ],
    )
    def test_units(self, expression: str, value: object) -> None:
        assert math_eval(expression) == value

    def test_the_unit_of_a_result_can_be_typed_again(self) -> None:
        result = math_eval("6 kg * m^2 / s^3 / 2 A")
        assert isinstance(result, dict)
        assert math_eval(f"{result['value']} {result['unit']} to V") == quantity(3, "V")


class TestErrors:
    @pytest.mark.parametrize(
        ("expression", "place"),
        [
            ("1 + 1/0", "character 6"),
            ("2 + foo", "character 5"),
            ("1 + (2 * 3", "character 11"),
            ("2 3", "character 3"),
        ],
    )
    def test_say_where(self, expression: str, place: str) -> None:
        assert f"{place} of '{expression}'" in error_of(expression)

    def test_show_the_neighbourhood_in_a_long_expression(self) -> None:
        message = error_of("1 + " * 50 + "1 / 0 + " + "1 + " * 50 + "1")
        assert "character 203, near" in message
        assert "1 / 0" in message
        assert len(message) < 200

    @pytest.mark.parametrize(
        ("expression", "advice"),
        [
            ("", "empty"),
            (" \n", "empty"),
            ("# nothing", "nothing to calculate"),
            ("1 && 2", "Write 'and'"),
            ("1 || 2", "Write 'or'"),
            ("1 +", "ends too early"),
            ("[1, 2", "closing ']' is missing"),
            ("sin + 1", "Give it arguments in brackets: sin(…)"),
            ("avergae(1, 2)", "Did you mean average"),
            ("5 KG", "Did you mean kg"),
            ("kg(3)", "kg * (…)"),
            ("20 C to F", "write degC and degF"),
            ("3 to cm", "Give the number a unit"),
            ("3 cm to 2 m", "Write: to m."),
            ("sin(5 m)", "needs a plain number"),
            ("sqrt(1, 2)", "takes 1 argument, not 2"),
            ("round(1, 2, 3)", "takes 1 to 2 arguments, not 3"),
            ("max()", "takes at least 1 argument, not 0"),
            ("sum = 3", "Choose another name"),
            ("3 = 3", "Use == to compare"),
            ("3 of 5", "12% of 50"),
            ("[1, 2; 3]", "equally long"),
            ("[[1, 2], 3]", "list of rows"),
            ("[[[1]]]", "list of rows"),
            ("[1, 2] + [1, 2, 3]", "sizes do not match"),
            ("inv([1, 2; 2, 4])", "no inverse"),
            ("[1, 2] ? 1 : 2", "neither true nor false"),
            ("0.5!", "whole numbers"),
            ("2i > 1", "real numbers"),
            ("5.5 & 1", "whole numbers"),
            ("10 dB", "Unknown name 'dB'"),
            ("1_000", "1000, not 1_000"),
            ("tan(pi/2)", "Division by zero"),
            ("0^-1", "Division by zero"),
            ("5 % 0", "Division by zero"),
            ("1 << -1", "negative"),
        ],
    )
    def test_say_what_to_do(self, expression: str, advice: str) -> None:
        assert advice in error_of(expression)

    @pytest.mark.parametrize(
        "expression",
        [
            "__import__('os').system('true')",
            "().__class__",
            "x.__class__",
            "open",
            "eval(1)",
            "exec",
            "lambda x: x",
            "[x for x in 1]",
            "f'{1}'",
            "import os",
            "globals()",
            "`id`",
            "\ud800",
            "\0",
            "１ + １",
        ],
    )
    def test_nothing_of_python_gets_in(self, expression: str) -> None:
        error_of(expression).encode()  # the message itself can always be sent


class TestLimits:
    @pytest.mark.parametrize(
        "expression",
        [
            "1e9!",
            "9^9^9",
            "2^(10^8)",
            "1 << 10^9",
            "10^400 * 10^400",
            "1e308 * 10",
            "1.5^(10^300)",
            "cosh(10^300)",
            "10^600 + 0.5",
            "combinations(10^600, 10^599)",
            "combinations(4000, 2000)",
            "permutations(10^9, 10^8)",
            "9" * 1999,
            "0x" + "f" * 1900,
        ],
    )
    def test_large_results_are_refused(self, expression: str) -> None:
        assert "too large" in error_of(expression)

    @pytest.mark.parametrize(
        ("expression", "limit"),
        [
            ("1" * (MAX_LENGTH + 1), "too long"),
            ("(" * 900 + "1" + ")" * 900, "50 brackets"),
            ("[" * 900, "50 brackets"),
            ("-" * 1990 + "5", "100 operations"),
            ("2^" * 900 + "2", "100 operations"),
            ("not " * 400 + "1", "100 operations"),
            ("1?" * 400 + "1" + ":1" * 400, "100 operations"),
            ("=".join(f"a{n}" for n in range(300)) + "=1", "100 operations"),
            ("5" + "%" * 1500, "100 operations"),
            ("0" + "!" * 1900, "100 signs"),
            ("identity(10^6)", "400 elements"),
            ("zeros(10^9, 10^9)", "400 elements"),
            ("[" + ",".join("1" * 900) + "]", "400 elements"),
            ("x = ones(20, 20); " + "*".join("x" * 900), "too much work"),
            ("x = ones(20, 20) + identity(20); " + "inv(x);" * 200, "too much work"),
            ("(ones(10, 10))^5000", "at most 1024"),
            ("(1 m)^(10^9)", "power of a unit"),
            ("i^(10^300)", "exponent of a complex number"),
            ("isPrime(2^65)", "up to 2^64"),
            ("1e999999999", "cannot be represented"),
            ("1e-999999999", "cannot be represented"),
        ],
    )
    def test_is_kept(self, expression: str, limit: str) -> None:
        assert limit in error_of(expression)

    def test_long_flat_expressions_are_evaluated(self) -> None:
        assert math_eval("+".join("1" * 1000)) == 1000
        assert math_eval("(1)" * 600) == 1
        assert math_eval("max(" + ",".join("1" * 900) + ")") == 1

    def test_brackets_up_to_the_limit_are_evaluated(self) -> None:
        assert math_eval("(" * 50 + "1" + ")" * 50) == 1


class TestLoading:
    def run(self, expression: str) -> str:
        script = (
            "import sys; from toolrun.builtins.math.math_eval import math_eval; "
            "from toolrun.builtins.math import parser; assert not parser._parser.cache_info().currsize; "
            f"math_eval({expression!r}); print('pint' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def test_pint_is_imported_for_a_unit_and_the_parser_built_for_an_expression(self) -> None:
        assert self.run("2 pi + sqrt(4)") == "False"
        assert self.run("2 m") == "True"

    def test_threads_share_the_parser(self) -> None:
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(math_eval, [f"x = {n}; x (2) km to m" for n in range(200)], timeout=60))
        assert results == [quantity(2000 * n, "m") for n in range(200)]


def words(text: str) -> list[str]:
    return re.findall(r"\S+", text)


FRAGMENTS = [
    "\n",
    *words("1 2 7 .5 0.1 1e3 1e308 0x1F 0b101 10^300 x y i e pi true foo m kg s in cm deg degC degF percent GB"),
    *words("sin sqrt log max sum det inv size round factorial identity ( ) ( ) [ ] , ; + - * / ^ ** .* ./ .^ % ! ' ²"),
    *words('& | ~ << >> ^| == != < >= = ? : to in of mod and or xor not # $ . " _ °'),
]


def fuzzed(expression: str) -> None:
    try:
        result = math_eval(expression)
    except ToolError as error:
        result = str(error)
    assert result != ""
    assert json.loads(json.dumps(result, allow_nan=False, ensure_ascii=False).encode()) == result


@given(st.text(max_size=60))
@example("\ud800")
def test_arbitrary_text_gives_json_or_a_tool_error(text: str) -> None:
    fuzzed(text)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25), st.sampled_from(["", " "]))
def test_arbitrary_tokens_give_json_or_a_tool_error(tokens: list[str], glue: str) -> None:
    fuzzed(glue.join(tokens))


def expressions() -> st.SearchStrategy[str]:
    """Well-formed ones, of every kind of value."""
    leaves = st.sampled_from(
        words("0 1 2 3 0.5 1e9 10^200 i pi true [1,2] [1,2;3,4] [1,i] 2m 3cm 5kg 20degC 45deg 0.1s m 10%")
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.sampled_from(words("+ - * / ^ .* ./ .^ % mod to in & | ^| << >> == != < >= and or xor"))
        return st.one_of(
            st.builds("({} {} {})".format, inner, binary, inner),
            st.builds("{}({})".format, st.sampled_from(sorted(FUNCTIONS)), inner),
            st.builds("{}({}, {})".format, st.sampled_from(sorted(FUNCTIONS)), inner, inner),
            st.builds("({}){}".format, inner, st.sampled_from(["!", "'", "%", "²"])),
            st.builds("(-{})".format, inner),
            st.builds("({} ? {} : {})".format, inner, inner, inner),
            st.builds("[{}, {}]".format, inner, inner),
        )

    return st.recursive(leaves, extend, max_leaves=8)


@given(expressions())
def test_well_formed_expressions_give_json_or_a_tool_error(expression: str) -> None:
    fuzzed(expression)


def arithmetic() -> st.SearchStrategy[str]:
    """What Python and math_eval write alike."""
    leaves = st.one_of(st.integers(0, 1000).map(str), st.decimals(0, 100, places=3).map(str))

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{} {} {}".format, inner, st.sampled_from("+-*/"), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
            st.builds("{} ** {}".format, st.integers(0, 9).map(str), st.integers(0, 5).map(str)),
            st.builds("-{}".format, inner),
            st.builds("({})".format, inner),
        )

    return st.recursive(leaves, extend, max_leaves=10)


@given(arithmetic())
def test_arithmetic_agrees_with_python(expression: str) -> None:
    exact = re.sub(r"[0-9.]+", lambda literal: f"Fraction('{literal[0]}')", expression)
    try:
        expected = Fraction(eval(exact, {"Fraction": Fraction}))  # the text comes from the strategy above
    except ZeroDivisionError:
        assert "Division by zero" in error_of(expression)
        return
    result = math_eval(expression)
    assert isinstance(result, int | float | str)
    assert float(Fraction(result)) == pytest.approx(float(expected), rel=1e-12)
