"""Whatever an object raises that is passed in: no code of its own runs on the loop, and the call is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from toolrun import ErrorKind, ToolExecutor, ToolManager
from toolrun.text import show

BASES = (object, dict, list, tuple, str, int, float, set, Exception)
HOOKS = (
    *("__class__", "__getattribute__", "__bool__", "__len__", "__iter__", "__eq__", "__str__", "__repr__"),
    *("__getitem__", "__contains__", "__format__", "__index__", "__float__", "keys", "items", "values"),
)
RAISED = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("no")]


def hostile(error: BaseException, bases: tuple[type, ...] = BASES) -> Iterator[Any]:
    """An object of each base for each hook that raises the error."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    for base, hook in product(bases, HOOKS):
        members = {hook: property(fail) if hook == "__class__" else fail}
        kind: Any = type("Hostile", (base,), members)
        try:
            made = kind.__new__(kind)
        except BaseException:  # noqa: BLE001  this hook is asked for to make it
            continue
        yield made


async def take(value: str = "", values: list[int] | None = None) -> str:
    """Take a value."""
    return "taken"


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda it: it, id="as they are"),
        pytest.param(lambda it: {"value": it}, id="a value"),
        pytest.param(lambda it: {"values": [it]}, id="an item"),
        pytest.param(lambda it: {"value": "", "other": {"more": (it,)}}, id="inside of an unknown one"),
    ],
)
async def test_arguments_that_raise_whatever_they_are_asked_are_refused(
    wrap: Callable[[Any], Any], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolrun")
    executor = ToolExecutor(ToolManager([take]))
    for made in hostile(error):
        result = await executor.execute("take", wrap(made))
        assert result.success or result.error_kind is ErrorKind.INVALID_ARGUMENTS
        assert result.text
    await executor.close()


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_a_name_an_id_and_a_timeout_that_raise_whatever_they_are_asked_are_answered(error: BaseException) -> None:
    executor = ToolExecutor(ToolManager([take]))
    for made in hostile(error):
        unknown = await executor.execute(made, {})
        assert unknown.error_kind is ErrorKind.UNKNOWN_TOOL
        named = await executor.execute("take", {}, call_id=made)
        assert (named.success, type(named.call_id)) == (True, str)
        refused = await executor.execute("take", {}, timeout=made)
        assert refused.success or refused.error_kind is ErrorKind.INVALID_ARGUMENTS
    await executor.close()


async def test_a_cause_that_raises_when_it_is_asked_for_its_truth_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "toolrun")

    class Doubtful(Exception):
        def __bool__(self) -> bool:
            raise SystemExit(3)

    async def fail() -> None:
        """Fail."""
        raise LookupError("no") from Doubtful()

    executor = ToolExecutor(ToolManager([fail]))
    result = await executor.execute("fail")
    assert result.error == "no"
    assert "Doubtful" in caplog.text
    await executor.close()


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_is_shown_of_a_value_runs_no_code_of_its_own(error: BaseException) -> None:
    for made in hostile(error):
        assert show(made)
        assert show({"a": [made]})
