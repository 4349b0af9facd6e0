"""Functions that return everything that needs no package. For Python 3.9 and later."""

import collections
import fractions
import types
import uuid
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NamedTuple


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Size(IntEnum):
    L = 3


class Mixed(str, Enum):
    A = "a"


@dataclass
class Point:
    x: Any
    y: Any = 2
    _hidden: int = 0


@dataclass
class Base:
    __slots__ = ("base",)
    base: int


@dataclass
class Derived(Base):
    more: int = 2
    new: bool = field(default=True, init=False)
    hint: InitVar[int] = 0

    def __post_init__(self, hint):
        self.cache = [hint]


class Pair(NamedTuple):
    left: int
    right: Any


class Dumps:
    def to_dict(self):
        return {"inner": Point(1), "nan": float("nan")}


class Modelled:
    def model_dump(self):
        return {"at": date(2024, 5, 1)}


class Matrix:
    def tolist(self):
        return [[1.0, float("inf")]]


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Celsius(float):
    pass


class Name(str):
    pass


class Settings(dict):
    pass


class LateMethods:
    """Objects that claim to have every attribute, as mocks do."""

    def __getattr__(self, name):
        return lambda: "claimed"

    def __str__(self):
        return "late"


def _cycle():
    ring: dict = {"n": 1}
    ring["list"] = [ring, Point(1, ring)]
    return ring


def _web():
    nodes: list = [[] for _ in range(5)]
    for node in nodes:
        node.extend(nodes)
    return nodes


def _deep():
    deep: list = []
    for _ in range(100):
        deep = [deep]
    return deep


VALUES = {
    "scalars": lambda: ["text", 1, 1.5, True, None, -0.0],
    "not numbers": lambda: [float("nan"), float("inf"), -float("inf"), {"a": float("nan")}],
    "big integers": lambda: [2**63, 2**64, -(2**70), 10**4000],
    "huge integers": lambda: [10**5000, -(10**5000)],
    "lone surrogates": lambda: ["a\ud800b", {"\udfff": "\ud83d\ude00"}],
    "bytes": lambda: [b"caf\xc3\xa9", bytearray(b"x"), memoryview(b"y"), b"\xff\x00"],
    "dates": lambda: [datetime(2024, 5, 1, 12, 30, 0, 5), date(2024, 5, 1), time(12, 30), timedelta(minutes=1.5)],
    "zones": lambda: [datetime(2024, 5, 1, tzinfo=timezone.utc), time(1, tzinfo=timezone(timedelta(hours=2)))],
    "decimals": lambda: [Decimal("3"), Decimal("3.10"), Decimal("Infinity"), Decimal("1e30"), fractions.Fraction(1, 3)],
    "identifiers": lambda: [uuid.UUID(int=5), Path("/etc/hosts"), 1 + 2j],
    "enums": lambda: [Colour.RED, Colour.PAIR, Size.L, Mixed.A],
    "dataclass": lambda: [Point(1), Point(Point(2), [Point(3)])],
    "dataclass with slots": lambda: Base(1),
    "dataclass with a base in slots": lambda: Derived(1),
    "named tuples": lambda: Pair(1, Pair(2, (3,))),
    "sets": lambda: [{3, 1, 2}, frozenset({"b", "a"}), set()],
    "containers": lambda: [collections.deque([1]), range(3), {"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()],
    "mappings": lambda: [
        collections.OrderedDict(b=1),
        collections.ChainMap({"a": 1}),
        types.MappingProxyType({"a": 1}),
    ],
    "user types": lambda: [collections.UserString("s"), collections.UserDict(a=1), collections.UserList([1])],
    "subclasses": lambda: [Celsius(1.5), Celsius("nan"), Name("n"), Settings(a=Name("b"))],
    "keys": lambda: {None: 1, True: 2, 3: 4, 1.5: 5, date(2024, 5, 1): 6, Colour.RED: 7, Size.L: 8, Mixed.A: 9},
    "odd keys": lambda: {(1, 2): 1, b"b": 2, uuid.UUID(int=5): 3, float("nan"): 4, Unspeakable(): 5},
    "exceptions": lambda: [ValueError("no"), KeyError("k"), OSError(2, "gone"), Exception()],
    "classes": lambda: [int, Point, Colour],
    "a generator": lambda: (n for n in range(3)),
    "iterators": lambda: [iter([1]), map(str, [1]), zip()],
    "functions": lambda: [len],
    "objects that dump themselves": lambda: [Dumps(), Modelled(), Matrix()],
    "objects that claim to": LateMethods,
    "unspeakable": lambda: [Unspeakable(), {"a": Unspeakable()}],
    "a cycle": _cycle,
    "a web": _web,
    "deep": _deep,
    "a mixture": lambda: {
        "when": {
            Size.L: [Point(timedelta(seconds=1), {Decimal("0.1"), Decimal("0.2")}), (b"\xff", Pair(1, Colour.RED))]
        },
        "big": 2**70,
        "bad": "\ud800",
    },
}


def value(name: str):
    """Return what is called by the name."""
    return VALUES[name]()


async def value_later(name: str):
    """Return it from a coroutine."""
    return VALUES[name]()
