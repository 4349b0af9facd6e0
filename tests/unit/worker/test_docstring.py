"""Docstrings in the three usual styles."""

from __future__ import annotations

import pytest

from toolrun.worker.docstring import read_docstring

GOOGLE = """Book a table.

    At any restaurant: it
    is called first.

    Args:
        place (str, optional): Where it is: a name
            or an address

        guests: How many
        *rest: More
        **options:
            Whatever else

    Returns:
        guests: not this one
    """
NUMPY = """Book a table.

    At any restaurant: it
    is called first.

    Parameters
    ----------
    place : str, optional
        Where it is: a name
        or an address
    guests
        How many
    *rest : int
        More
    **options
        Whatever else

    Returns
    -------
    guests
        not this one
    """
SPHINX = """Book a table.

    At any restaurant: it
    is called first.

    :param str place: Where it is: a name
        or an address
    :param guests: How many
    :type guests: int
    :param *rest: More
    :param **options: Whatever else
    :returns: not this one
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_description_and_the_parameters_are_read_in_every_style(docstring: str) -> None:
    description, parameters = read_docstring(docstring)
    assert description == "Book a table.\n\nAt any restaurant: it\nis called first."
    assert parameters == {
        "place": "Where it is: a name or an address",
        "guests": "How many",
        "rest": "More",
        "options": "Whatever else",
    }


@pytest.mark.parametrize(
    ("docstring", "description"),
    [
        (None, ""),
        ("", ""),
        ("   ", ""),
        ("  One line: that is all.  ", "One line: that is all."),
        ("\n    Indented.\n\n      Code: kept\n    ", "Indented.\n\n  Code: kept"),
        ("Say what.\n\nArgs: none of them is needed.\n", "Say what.\n\nArgs: none of them is needed."),
        ("Search.\n\nRaises:\n    ValueError: if it fails\n\nExample:\n    search()", "Search."),
        ("Search.\n\nArgs:\n", "Search."),
    ],
)
def test_a_docstring_without_parameters(docstring: str | None, description: str) -> None:
    assert read_docstring(docstring) == (description, {})


def test_every_section_with_parameters_counts_and_case_does_not() -> None:
    docstring = """Do it.

    ARGS:
        a: first

    Note:
        b: not a parameter

    Keyword Arguments:
        c (dict[str, int]): third
    """
    assert read_docstring(docstring) == ("Do it.", {"a": "first", "c": "third"})


def test_other_parameters_of_the_numpy_style_are_parameters() -> None:
    docstring = """Do it.

    Parameters
    ----------
    a : int
        first

    Other Parameters
    ----------------
    b : int
        rarely used

    Raises
    ------
    ValueError
        if it fails
    """
    assert read_docstring(docstring) == ("Do it.", {"a": "first", "b": "rarely used"})
