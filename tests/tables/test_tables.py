"""Results of numpy and pandas, with the packages themselves: the same data in the host and in every worker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.packages import MissingError, give_up, uv_install

HERE = Path(__file__).parent
MANY = 25_000
MIDNIGHT = "2024-01-02T00:00:00"
EXPECTED: dict[str, Any] = {
    "scalars": [3, 2**64 - 1, 1.5, True, "é", 1.5],
    "float32": [0.5, [0.10000000149011612]],
    "not numbers": [None, None, [1.0, None, None]],
    "arrays": [7, [0, 1, 2], [[0, 1], [2, 3]], [], [0, 2, 4]],
    "texts": ["a", "é"],
    "objects": [1, "a", None, {"x": 1}],
    "masked": [1, None, 3],
    "records": [[1, 2.0]],
    "matrix": [[1, 2], [3, 4]],
    "times": [["2024-01-02", None], [MIDNIGHT, None], [MIDNIGHT, None], [MIDNIGHT, None]],
    "time": [MIDNIGHT, None, 1.5, 0.0],
    "keys": {"1": [1]},
    "frame": {"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": None}, "c": {"0": 0.5, "1": None}},
    "frame by time": {"a": {MIDNIGHT: 1}},
    "frame of times": {"a": {"0": MIDNIGHT, "1": None}},
    "labels twice": [
        {"index": ["r", "r"], "columns": ["a"], "data": [[1], [2]]},
        {"index": [0], "columns": ["a", "a"], "data": [[1, 2]]},
        {"index": ["r", "r"], "data": [1, 2]},
    ],
    "series": [{"p": 1, "q": 2}, {"0": 1, "1": None}],
    "missing": [None, None, [1, None]],
    "moments": [MIDNIGHT, f"{MIDNIGHT}+00:00", 3600.0],
    "indexes": [[1, 2], [0, 1], [MIDNIGHT], [[1, 2]]],
}
NUMBERS = list(range(MANY))
LARGE: dict[str, Any] = {
    "array": NUMBERS,
    "rows": [NUMBERS, list(range(MANY, 2 * MANY))],
    "matrix": [NUMBERS[at : at + 5] for at in range(0, MANY, 5)],
    "row matrix": [NUMBERS],
    "cube": [[list(range(at, at + MANY // 5)) for at in range(half, half + MANY, MANY // 5)] for half in (0, MANY)],
    "times": [MIDNIGHT] * MANY,
    "frame": {"a": {str(n): n for n in NUMBERS}, "b": {str(n): "x" for n in NUMBERS}},
    "series": {str(n): n for n in NUMBERS},
    "frame, a label twice": {"index": [0, *NUMBERS[:-1]], "columns": ["a"], "data": [[n] for n in NUMBERS]},
    "series, a label twice": {"index": [0, *NUMBERS[:-1]], "data": NUMBERS},
    "index": NUMBERS,
}


@pytest.fixture(scope="module")
def made() -> Any:
    try:
        programs = uv_install(HERE / "requirements.txt", "tables")
    except MissingError as error:
        give_up(error, "numpy and pandas")
    command = [str(programs / "python"), "-W", "ignore", str(HERE / "cases.py")]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", EXPECTED)
def test_a_value_becomes_the_same_json_wherever_its_tool_runs(made: Any, case: str) -> None:
    assert made["small"][case] == [EXPECTED[case]] * 4


@pytest.mark.parametrize("case", LARGE)
def test_a_large_value_in_pieces_loses_nothing(made: Any, case: str) -> None:
    assert made["large"][case] == [LARGE[case]] * 4


@pytest.mark.parametrize("case", LARGE)
def test_a_tool_may_return_it(made: Any, case: str) -> None:
    assert made["called"][case] == [None, LARGE[case]]


def test_every_case_is_expected(made: Any) -> None:
    assert (set(made["small"]), set(made["large"])) == (set(EXPECTED), set(LARGE))
