"""References to environment variables in a configuration."""

from __future__ import annotations

import pytest

from toolrun.config.variables import expand

ENVIRON = {"CITY": "Köln", "EMPTY": "", "TRICKY": "${CITY} \\1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no reference, $5 and {braces}", "no reference, $5 and {braces}"),
        ("${CITY}", "Köln"),
        ("in ${CITY}/${CITY}!", "in Köln/Köln!"),
        ("${EMPTY}", ""),
        ("${CITY:-Rome}", "Köln"),
        ("${UNSET:-Rome}", "Rome"),
        ("${EMPTY:-Rome}", "Rome"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b\nc}", "a:-b\nc"),
        ("$${CITY}", "${CITY}"),
        ("$${CITY} is ${CITY}", "${CITY} is Köln"),
        ("$${", "${"),
        ("${TRICKY}", "${CITY} \\1"),
    ],
)
def test_references_are_replaced_once(text: str, expected: str) -> None:
    assert expand(text, ENVIRON) == (expected, [])


def test_every_variable_that_is_not_set_is_reported_with_what_to_do() -> None:
    text, problems = expand("${ONE} ${CITY} ${TWO}", ENVIRON)
    assert text == "${ONE} Köln ${TWO}"
    assert problems == [
        "needs the variable ONE, which is not set; set it, or write ${ONE:-default}",
        "needs the variable TWO, which is not set; set it, or write ${TWO:-default}",
    ]


@pytest.mark.parametrize("text", ["ab${", "ab${CITY", "ab${}", "ab${1X}", "ab${CITY-x}", "ab${A:-${CITY}}", "ab${a b}"])
def test_a_reference_that_is_none_is_reported_by_its_place_and_not_by_its_text(text: str) -> None:
    _, problems = expand(text, ENVIRON)
    assert problems == [
        "has a '${' at character 3 that starts no variable; write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
    ]
