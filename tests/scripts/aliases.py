"""Functions whose hints are names of types, some of which contain themselves, and docstrings of every style."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Dict, List, NewType, Optional, TypeVar, Union

__all__ = []


def _tool(function):
    """Offer the function, under its own name."""
    __all__.append(function.__name__)
    return function


def _shown(*values):
    return [[type(value).__name__, repr(value)] for value in values]


Json = Union[str, int, None, List["Json"], Dict[str, "Json"]]
Days = Union[date, List["Days"]]
Number = Annotated[Union[int, float], "A number"]
Name = NewType("Name", str)
Short = NewType("Short", Name)
Item = TypeVar("Item")
Point = TypeVar("Point", bound="Node")


@dataclass
class Node:
    at: date
    below: List[Node] = field(default_factory=list)
    named: Dict[str, Optional[Node]] = field(default_factory=dict)


@_tool
def aliases(a: Json, b: Days = date(2024, 5, 1), c: Number = 1, d: List[Number] = ()):
    """Take names of types."""
    return _shown(a, b, c, d)


@_tool
def in_quotes(a: "List['Node']", b: Optional["Days"] = None, c: "Union['Node', 'Days', None]" = None):
    """Take names that are text twice."""
    return _shown(a, b, c)


@_tool
def new_types(a: Short, b: List[Name] = (), c: Item = None):
    """Take names that stand for other types."""
    return _shown(a, b, c)


@_tool
def not_unicode(a: str = "\ud800", b: str = "ä", c: list = ("\ud800",)):
    """Take a default that JSON cannot express."""
    return _shown(b)


@_tool
def google(a, b, c, *, d=1):
    """Do it.

    Args:
        a (Callable[[int], (int)], optional): The first: with a colon.
        b, c: The others.
        **more (int): Not named.

    Keyword Args:
        d: The last.
    """
    return _shown(a, b, c, d)


@_tool
def numpy(a, b, c, d=1):
    """Do it.

    Parameters
    ----------
    a : {"x", "y"}, default "x"
        The first.

        Still the first.
    b, c : int
        The others.

    Other Parameters
    ----------------
    d
        The last.
    *args, **kwargs
        Not named.
    """
    return _shown(a, b, c, d)


@_tool
def sphinx(a, b, c, d=1):
    """Do it.

    :arg a: The first,
        over two lines.
    :type a: int
    :parameter int b: The second.
    :argument c: The third.
    :keyword d: The last.
    :raises ValueError: never
    """
    return _shown(a, b, c, d)


if sys.version_info >= (3, 12):  # older versions could not read the file
    exec(
        """
type Either = int | list[Either]
type Rows[T] = list[dict[str, T]]
type Itself[T] = T | list[Itself[T]]
type Same[T] = T

@_tool
def statements[N: int](a: N, b: Either = 1, c: Rows[date] = (), d: Itself[date] = (), e: Same[date] = None):
    \"\"\"Take what `type` statements name.\"\"\"
    return _shown(a, b, c, d, e)
"""
    )
