"""Functions with every kind of parameter that needs no package; each tells what has arrived. Python 3.9 or newer."""

import collections
import functools
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import (
    Annotated,
    Any,
    Dict,
    FrozenSet,
    List,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Tuple,
    TypedDict,
    Union,
)

try:
    from typing import Unpack
except ImportError:  # before Python 3.11 it is in typing_extensions
    Unpack = None

__all__ = []


def _tool(function):
    """Offer the function, under its own name."""
    __all__.append(function.__name__)
    return function


def _shown(*values):
    return [[type(value).__name__, repr(value)] for value in values]


class Colour(Enum):
    """What a lamp may be."""

    RED = "red"
    BLUE = 2


class Speed(IntEnum):
    SLOW = 1
    FAST = 2


class Shape(Enum):
    ROUND = (1, 2)
    FLAT = (3, 4)


@dataclass
class Point:
    """A place.

    In the plane.
    """

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)
    label: str = field(default="", metadata={"description": "Its name"})
    wait: timedelta = timedelta(seconds=90)
    seen: bool = field(default=False, init=False)


@dataclass
class Scaled:
    size: int
    factor: InitVar[int]

    def __post_init__(self, factor):
        if factor < 1:
            raise ValueError("factor must be positive")
        self.size *= factor


@dataclass
class Circle:
    radius: float = 1.0


@dataclass
class Square:
    side: float = 1.0


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)


class Place(TypedDict):
    """Somewhere."""

    city: str


class Trip(Place, total=False):
    stops: list[Place]
    via: Optional["Trip"]


class Pair(NamedTuple):
    left: int
    right: str = "r"


Loose = collections.namedtuple("Loose", "a b")
UserId = NewType("UserId", int)


class Client:
    def method(self, a: int, b: Optional[Point] = None):
        """Take arguments without self."""
        return _shown(a, b)

    @classmethod
    def maker(cls, a: int):
        """Take arguments without cls."""
        return _shown(a)

    @staticmethod
    def static(a: int):
        """Take arguments and no object."""
        return _shown(a)


@_tool
def nothing():
    """Take nothing."""
    return "nothing"


@_tool
def unhinted(a, b=2, *, c=None):
    """Take anything."""
    return _shown(a, b, c)


@_tool
def plain(a: str, b: int, c: float, d: bool, e: None = None, f: Any = None, g: object = 1):
    """Take plain values."""
    return _shown(a, b, c, d, e, f, g)


@_tool
def as_text(a: "str", b: "Optional[int]" = None, c: "List[Point]" = ()):
    """Take hints that are text."""
    return _shown(a, b, c)


@_tool
def containers(a: list, b: dict, c: tuple = (), d: set = frozenset(), e: List = (), f: Dict = {}):
    """Take containers of anything."""
    return _shown(a, b, c, sorted(d), e, f)


@_tool
def lists(a: List[int], b: list[list[float]] = (), c: Sequence[str] = (), d: Iterable[int] = ()):
    """Take lists."""
    return _shown(a, b, c, d)


@_tool
def mappings(
    a: Dict[str, float],
    b: Mapping[str, Any] = {},
    c: dict[int, str] = {},
    d: dict[Speed, int] = {},
    e: dict[Literal["x", "y"], int] = {},
    f: dict[str, list[dict[str, int]]] = {},
    g: dict[uuid.UUID, int] = {},
):
    """Take objects."""
    return _shown(a, b, c, d, e, f, g)


@_tool
def sets(a: set[int], b: FrozenSet[str] = frozenset({"b", "a"})):
    """Take sets."""
    return _shown(sorted(a), sorted(b), type(a), type(b))


@_tool
def tuples(a: Tuple[int, str], b: tuple[float, ...] = (1, 2), c: Tuple[()] = ()):
    """Take tuples."""
    return _shown(a, b, c)


@_tool
def named_tuples(a: Pair, b: Loose = Loose(1, 2), c: Optional[Pair] = None):
    """Take named tuples."""
    return _shown(a, b, c)


@_tool
def unions(
    a: Union[int, str],
    b: Optional[int] = None,
    c: Union[float, int, None] = None,
    d: Union[datetime, str] = "soon",
    e: Union[Circle, Square, None] = None,
    f: Union[bool, int] = True,
    g: Union[List[int], Dict[str, int]] = (),
):
    """Take one or the other."""
    return _shown(a, b, c, d, e, f, g)


@_tool
def literals(
    a: Literal["fast", "slow"],
    b: Literal[1, 2] = 1,
    c: Literal["a", 1, None] = None,
    d: Literal[Colour.RED] = Colour.RED,
    e: Literal[True] = True,
):
    """Take one of some values."""
    return _shown(a, b, c, d, e)


class Level(str, Enum):
    LOW = "low"
    HIGH = "high"


class Rate(float, Enum):
    HALF = 0.5
    FULL = 1.0


@_tool
def literal_members(
    a: Literal[Level.LOW, Level.HIGH],
    b: Literal[Speed.FAST] = Speed.FAST,
    c: Literal[Shape.ROUND, "none"] = "none",
    d: Optional[Literal[Rate.HALF, Rate.FULL]] = None,
    e: list[Literal[Level.LOW, 7]] = (),
    f: Literal[Colour.RED, Colour.BLUE, None] = Colour.BLUE,
):
    """Take some members of enumerations."""
    return _shown(a, b, c, d, e, f)


@_tool
def enums(a: Colour, b: Speed = Speed.FAST, c: Shape = Shape.FLAT, d: Optional[Colour] = None):
    """Take members."""
    return _shown(a, b, c, d)


@_tool
def records(a: Point, b: Point = Point(1), c: Optional[List[Point]] = None, d: Dict[str, Point] = {}):
    """Take dataclasses.

    Args:
        b: Not what the class says.
    """
    return _shown(a, b, c, d)


@_tool
def scaled(a: Scaled):
    """Take what checks itself."""
    return _shown(a)


@_tool
def recursive(a: Tree, b: Optional[Tree] = None, c: Optional[Trip] = None):
    """Take types that contain themselves."""
    return _shown(a, b, c)


@_tool
def typed_dicts(a: Place, b: Trip = {"city": "Rome"}, c: list[Trip] = ()):
    """Take objects with known names."""
    return _shown(a, b, c)


@_tool
def moments(
    a: datetime,
    b: date = date(2024, 5, 1),
    c: time = time(12, 30),
    d: timedelta = timedelta(days=1, seconds=-0.5),
    e: Optional[datetime] = datetime(2024, 5, 1),
):
    """Take dates and times."""
    return _shown(a, b, c, d, e)


@_tool
def texts(
    a: uuid.UUID = uuid.UUID(int=5),
    b: Path = Path("/etc"),
    c: PurePosixPath = PurePosixPath("a"),
    d: bytes = b"x",
    e: Decimal = Decimal("0.10"),
):
    """Take what is text in JSON."""
    return _shown(a, b, c, d, e)


@_tool
def described(
    a: Annotated[int, "How many"],
    b: Annotated[Optional[str], "Which", "one"] = None,
    c: list[Annotated[int, "Each"]] = (),
    d: Annotated[Optional[Point], "Where"] = None,
    e: UserId = 3,
):
    """Take values that say what they are for.

    Args:
        a: Not this.
        e: Who.
        gone: Nobody.
    """
    return _shown(a, b, c, d, e)


@_tool
def odd_defaults(a: float = float("inf"), b: object = object(), c: list = (object(),), d: float = 1.5, e: int = None):
    """Take defaults that JSON cannot express."""
    return _shown(a, d, e)


@_tool
def further(a: int, **rest: int):
    """Take further names."""
    return _shown(a, sorted(rest.items()))


class Options(TypedDict, total=False):
    """How to do it."""

    depth: int
    until: date


class StrictOptions(Options):
    unit: Annotated[Literal["C", "F"], "Which scale"]


@_tool
def further_moments(a: int, **rest: "date"):
    """Take further dates."""
    return _shown(a, sorted(rest.items()))


@_tool
def further_records(**rest: Optional[Point]):
    """Take further points."""
    return _shown(sorted(rest.items()))


@_tool
def further_values(a: int = 1, **rest: Any):
    """Take anything."""
    return _shown(a, sorted(rest.items()))


if Unpack is not None:

    @_tool
    def options(a: int, **rest: Unpack[StrictOptions]):
        """Take the names of a TypedDict.

        Args:
            depth: How deep.
        """
        return _shown(a, sorted(rest.items()))

    @_tool
    def options_as_text(**rest: "Unpack[Options]"):
        """Take the names of a TypedDict, all optional."""
        return _shown(sorted(rest.items()))


def _streamed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return iter(function(*args, **kwargs))

    return wrapper


@_tool
def yielded(count: int):
    """Return a generator."""
    return (number * 2 for number in range(count))


@_tool
def mapped(words: list[str]):
    """Return an iterator."""
    return map(str.upper, words)


@_tool
@_streamed
def wrapped_stream(a: date):
    """Return what a decorator makes an iterator of."""
    return [a, {"x": 1}]


@_tool
def held_streams(count: int):
    """Return iterators inside of other values, beside what makes an encoder begin anew."""
    rows = ({"n": number, "half": [iter([number / 2])]} for number in range(count))
    return {
        "rows": rows,
        "pairs": enumerate("ab"),
        "nan": float("nan"),
        "views": [{"a": 1}.values(), {"b": 2}.items()],
    }


@_tool
async def awaited_held_streams(count: int):
    """Return iterators inside of other values, later."""
    return [map(str, range(count)), (number for number in range(count))]


@_tool
async def awaited_stream(count: int):
    """Return a generator later."""
    return (number for number in range(count))


async def _later(count):
    for number in range(count):
        yield number


@_tool
async def async_stream(count: int):
    """Return an asynchronous generator."""
    return _later(count)


@_tool
def plain_async_stream(count: int):
    """Return an asynchronous generator without being async."""
    return _later(count)


@_tool
def failing_stream():
    """Fail on the way."""
    return (1 // number for number in (1, 0))


unbound_method = Client.method
unbound_class_method = vars(Client)["maker"]
static_method = Client.static
__all__ += ["static_method", "unbound_class_method", "unbound_method"]


@_tool
def google(a: int, b: str = "x"):
    """Do it.

    At once.

    Args:
        a (int): The first, over
            two lines.

        b: The second.

    Returns:
        a: not a parameter
    """
    return _shown(a, b)


@_tool
def numpy(a: int, b: str = "x"):
    """Do it.

    Parameters
    ----------
    a : int
        The first, over
        two lines.

    Other Parameters
    ----------------
    b : str, optional
        The second.

    Returns
    -------
    a
        not a parameter
    """
    return _shown(a, b)


@_tool
def sphinx(a: int, b: str = "x"):
    """Do it.

    :param int a: The first, over
        two lines.
    :param b: The second.
    :returns: what it is
    """
    return _shown(a, b)


def _decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@_tool
@_decorated
def behind_a_decorator(a: int, *, b: Point = None):
    """Take what the inner function takes."""
    return _shown(a, b)


@_tool
@functools.lru_cache
def cached(a: int = 2):
    """Take it once."""
    return _shown(a)


class Adder:
    def __call__(self, a: int, b: int = 2):
        """Add."""
        return a + b


method = Client().method
class_method = Client.maker
adder = Adder()
partial = functools.partial(google, b="y")
__all__ += ["adder", "class_method", "method", "partial"]


@_tool
async def waited(a: timedelta):
    """Take it later."""
    return _shown(a)


if sys.version_info >= (3, 10):

    @_tool
    def bars(a: int | None, b: "list[int] | dict[str, Point] | None" = None, c: Point | str = "p"):
        """Take unions as they are written today."""
        return _shown(a, b, c)


@_tool
def many(*args):
    """Cannot be called by name."""


@_tool
def placed(a, b, /):
    """Cannot be called by name."""


@_tool
def generator():
    """Has no single answer."""
    yield 1


@_tool
async def async_generator():
    """Has no single answer."""
    yield 1


@_tool
def inexpressible(a: Callable[[int], int]):
    """Take what JSON has no form for."""


@_tool
def unresolvable(a: "Missing"):  # noqa: F821
    """Take what is not there."""


@_tool
def address(a: IPv4Address = IPv4Address("10.0.0.1")):
    """Take a type that only pydantic knows."""
    return _shown(a)


@_tool
def deques(a: collections.deque):
    """Take a container that only pydantic knows."""
    return _shown(a)
