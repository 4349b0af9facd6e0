"""Run in an environment with numpy and pandas: prints what becomes of their values, one JSON object.

Each case has the values that four ways make of it: the host's in one call, the host's for large values, the worker's,
and the worker's with orjson.
"""

import asyncio
import json

import numpy as np  # type: ignore[import-not-found]  # only where the tests install it
import pandas as pd

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.execution.large_result import normalise_large
from toolrun.result import normalise
from toolrun.worker import codec

MANY = 25_000
DAY = "2024-01-02"
CASES = {
    "scalars": [np.int8(3), np.uint64(2**64 - 1), np.float64(1.5), np.bool_(True), np.str_("é"), np.longdouble(1.5)],
    "float32": [np.float32(0.5), np.array([0.1], dtype="float32")],
    "not numbers": [np.float64("nan"), np.float32("inf"), np.array([1.0, np.nan, np.inf])],
    "arrays": [np.array(7), np.arange(3), np.arange(4).reshape(2, 2), np.zeros((0, 3)), np.arange(6)[::2]],
    "texts": np.array(["a", "é"]),
    "objects": np.array([1, "a", None, {"x": np.int64(1)}], dtype=object),
    "masked": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "matrix": np.matrix([[1, 2], [3, 4]]),
    "times": [np.array([DAY, "NaT"], dtype=f"datetime64[{unit}]") for unit in ("D", "s", "us", "ns")],
    "time": [np.datetime64(DAY, "ns"), np.datetime64("NaT"), np.timedelta64(1500, "ms"), np.timedelta64(5, "ns")],
    "keys": {np.int64(1): np.array([1])},
    "frame": pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, np.nan]}),
    "frame by time": pd.DataFrame({"a": [1]}, index=pd.to_datetime([DAY])),
    "frame of times": pd.DataFrame({"a": pd.to_datetime([DAY, None])}),
    "labels twice": [
        pd.DataFrame({"a": [1, 2]}, index=["r", "r"]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.Series([1, 2], index=["r", "r"]),
    ],
    "series": [pd.Series([1, 2], index=["p", "q"]), pd.Series([1, None], dtype="Int64")],
    "missing": [pd.NA, pd.NaT, pd.array([1, None], dtype="Int64")],
    "moments": [pd.Timestamp(DAY), pd.Timestamp(DAY, tz="UTC"), pd.Timedelta("1h")],
    "indexes": [pd.Index([1, 2]), pd.RangeIndex(2), pd.to_datetime([DAY]), pd.MultiIndex.from_tuples([(1, 2)])],
}
LARGE = {
    "array": np.arange(MANY),
    "rows": np.arange(2 * MANY).reshape(2, MANY),
    "matrix": np.matrix(np.arange(MANY).reshape(MANY // 5, 5)),
    "row matrix": np.matrix(np.arange(MANY)),
    "cube": np.arange(2 * MANY).reshape(2, 5, MANY // 5),
    "times": np.full(MANY, np.datetime64(DAY, "ns")),
    "frame": pd.DataFrame({"a": range(MANY), "b": ["x"] * MANY}),
    "series": pd.Series(range(MANY)),
    "frame, a label twice": pd.DataFrame({"a": range(MANY)}, index=[0, *range(MANY - 1)]),
    "series, a label twice": pd.Series(range(MANY), index=[0, *range(MANY - 1)]),
    "index": pd.Index(range(MANY)),
}


def in_four_ways(value: object) -> list[object]:
    ways = [normalise(value), normalise_large(value), json.loads(codec.encode(value))]
    plain = codec._encode
    codec.use_orjson()
    ways.append(json.loads(codec.encode(value)))
    codec._encode = plain
    return ways


async def called(value: object) -> object:
    """The result of a tool that returns it."""

    @tool
    async def give() -> object:
        """Give."""
        await asyncio.sleep(0)
        return value

    executor = ToolExecutor(ToolManager([give]))
    result = await executor.execute("give")
    await executor.close()
    return [result.error, result.result]


print(
    json.dumps(
        {
            "small": {name: in_four_ways(value) for name, value in CASES.items()},
            "large": {name: in_four_ways(value) for name, value in LARGE.items()},
            "called": {name: asyncio.run(called(value)) for name, value in LARGE.items()},
        }
    )
)
