"""A script tool, as plain as users write them, that does everything a worker must survive."""

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path

import sibling


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: date = date(2024, 5, 1)
    _hidden: int = 0


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Loud(Exception):
    def __str__(self):
        raise SystemExit("no")


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


def echo(value):
    return value


def move(point: Point, colour: Colour) -> list:
    return [type(point).__name__, point, colour]


async def double(n: float) -> float:
    return n * 2


def noisy():
    print("printed")
    sys.stdout.write("half a line")
    os.write(1, b"written\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"])
    return sys.stdin.read()


def fail(kind: str):
    if kind == "loud":
        raise Loud
    raise {
        "exit": SystemExit(3),
        "quit": SystemExit,
        "interrupt": KeyboardInterrupt,
        "empty": ValueError,
        "refused": ConnectionRefusedError(111, "refused"),
        "key": KeyError("a"),
        "bad": ValueError("\ud800x"),
        "base": BaseException("low"),
    }[kind]


def odd(kind: str):
    cycle = [1]
    cycle.append(cycle)
    return {
        "nan": [float("nan"), float("inf"), 1.5],
        "cycle": cycle,
        "surrogate": "a\ud800b",
        "set": {2, 1},
        "bytes": [b"text", b"\xff"],
        "point": Point(1),
        "date": datetime(2024, 5, 1),
        "colour": [Colour.RED],
        "path": Path("/etc"),
        "decimal": [Decimal("0.10"), Decimal("7"), Decimal("NaN")],
        "delta": timedelta(seconds=90),
        "keys": {1: "a", None: "b", Colour.RED: "c", (1, 2): "d"},
        "big": 2**80,
        "huge": 10**5000,
        "unspeakable": [Unspeakable()],
        "object": [echo][0] is echo,
        "nested": {"a": [{"b": {Point(2).x: Point(3)}}]},
        "tuple": (1, (2,)),
        "class": int,
    }[kind]


def borrowed():
    return sibling.VALUE


def module():
    return [__name__, __file__, sys.modules[__name__].__dict__ is globals(), sys.argv]


def end(code: int):
    os._exit(code)


def stop_loop_and_return():
    import asyncio

    async def stop():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "went on"

    return stop()


if __name__ == "__main__":
    raise SystemExit("run as a program")
