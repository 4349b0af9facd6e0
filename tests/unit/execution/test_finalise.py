"""What becomes of an outcome: whatever a value or an exception does when it is asked, there is one answer in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from toolrun import ErrorKind, Limits, SideEffects, ToolError, ToolExecutor, ToolManager, tool
from toolrun.errors import OverloadedError
from toolrun.execution.finalise import Finalised, finalise, is_quick
from toolrun.result import Content, normalise, render, shorten

RAISED = [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("no")]


def raising(error: BaseException) -> Any:
    def method(self: object, *_: object) -> Any:
        raise error

    return method


def with_method(name: str, body: Any) -> object:
    return type("Foreign", (), {name: body})()


def exception_with(name: str, body: Any) -> BaseException:
    made = type("ForeignError", (Exception,), {name: body})("x")
    assert isinstance(made, BaseException)
    return made


def described(*functions: Callable[[], Any]) -> list[Any]:
    return [tool(description="A tool.", inline=it.__name__ == "is_inline")(it) for it in functions]


def returns(value: object) -> list[Any]:
    """Tools of every mode that return it."""

    async def suspends() -> Any:
        await asyncio.sleep(0)
        return value

    async def ends_at_once() -> Any:
        return value

    def blocks() -> Any:
        return value

    def is_inline() -> Any:
        return value

    return described(suspends, ends_at_once, blocks, is_inline)


def raises(error: BaseException) -> list[Any]:
    async def suspends() -> None:
        await asyncio.sleep(0)
        raise error

    async def ends_at_once() -> None:
        raise error

    def blocks() -> None:
        raise error

    def is_inline() -> None:
        raise error

    return described(suspends, ends_at_once, blocks, is_inline)


@pytest.mark.parametrize("error", RAISED, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("method", ["__str__", "__repr__", "model_dump", "to_dict", "tolist", "__class__", "__iter__"])
async def test_a_result_whose_own_methods_raise_anything_is_an_answer(
    executor: ToolExecutor, method: str, error: BaseException
) -> None:
    body = property(raising(error)) if method == "__class__" else raising(error)
    for made in returns(with_method(method, body)):
        executor.manager.add(made)
        result = await executor.execute(made.__name__)
        assert result.success
        assert isinstance(result.result, str)
        nested = [*returns([with_method(method, body), 1])]
        executor.manager.add(nested[0])
        inside = await executor.execute("suspends")
        assert isinstance(inside.result, list)
        assert inside.result[1] == 1


HOOKS = ["__getattr__", "__getattribute__", "__dict__", "__class__", "__hash__", "__eq__", "__len__", "__bool__"]


@dataclass(eq=False)
class Row:
    data: dict[str, int]


@dataclass(eq=False, slots=True)
class SlottedRow:
    data: dict[str, int]


def hooked(base: Any, hook: str, error: BaseException, *, is_meta: bool = False) -> object:
    """A dataclass one of whose hooks, or one of whose class's, raises."""
    body = property(raising(error)) if hook in ("__dict__", "__class__") else raising(error)
    meta = type("Meta", (type,), {hook: body}) if is_meta else type
    value = base({"n": 1})
    value.__class__ = meta("Hooked", (base,), {"__slots__": ()} if is_meta else {"__slots__": (), hook: body})
    return value


@pytest.mark.parametrize("error", RAISED, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("is_meta", [False, True], ids=["object", "class"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_record_whose_hooks_raise_anything_is_an_answer_and_gives_its_slots_back(
    executor: ToolExecutor, hook: str, is_meta: bool, error: BaseException
) -> None:
    for base in (Row, SlottedRow):
        value = hooked(base, hook, error, is_meta=is_meta)
        for returned in (value, [value, 1]):
            for made in returns(returned):
                executor.manager.add(made)
                result = await executor.execute(made.__name__, timeout=5)
                assert result.success, result.error
                assert isinstance(result.result, str | list | dict)
    health = executor.health()
    assert (health.running, health.queued, health.abandoned, health.lingering) == (0, 0, {}, 0)


async def test_a_record_that_answers_for_missing_attributes_is_data(executor: ToolExecutor) -> None:
    for base in (Row, SlottedRow):
        for made in returns(hooked(base, "__getattr__", KeyError("x"))):
            executor.manager.add(made)
            assert (await executor.execute(made.__name__, timeout=5)).result == {"data": {"n": 1}}


@pytest.mark.parametrize("error", RAISED, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("name", ["__str__", "__class__", "args", "detail", "exceptions"])
async def test_an_exception_whose_own_methods_raise_anything_is_an_answer(
    executor: ToolExecutor, name: str, error: BaseException
) -> None:
    body = raising(error) if name == "__str__" else property(raising(error))
    for raised in (exception_with(name, body), type("Failed", (ToolError,), {"__str__": raising(error)})("x")):
        for made in raises(raised):
            executor.manager.add(made)
            result = await executor.execute(made.__name__)
            assert result.error_kind is ErrorKind.TOOL_ERROR
            assert result.error


@pytest.mark.parametrize("error", RAISED, ids=lambda it: type(it).__name__)
async def test_a_call_error_whose_properties_raise_anything_is_an_answer(
    executor: ToolExecutor, error: BaseException
) -> None:
    class Strange(ToolError):
        def __init__(self) -> None:
            Exception.__init__(self, "x")

    for name in ("detail", "side_effects", "kind"):
        setattr(Strange, name, property(raising(error)))
    for made in raises(Strange()):
        executor.manager.add(made)
        assert (await executor.execute(made.__name__)).error_kind is ErrorKind.TOOL_ERROR


class Blocks:
    """Its methods wait until they are let go, or ten seconds."""

    def __init__(self, release: threading.Event) -> None:
        self.release = release
        self.threads: list[str] = []

    def wait(self) -> str:
        self.threads.append(threading.current_thread().name)
        self.release.wait(10)
        return "late"


@pytest.mark.parametrize("method", ["__str__", "model_dump", "to_dict", "tolist"])
async def test_a_result_that_blocks_when_it_is_asked_is_given_up_at_the_deadline_and_counted(
    executor: ToolExecutor, method: str
) -> None:
    release = threading.Event()
    value = type("Slow", (Blocks,), {method: lambda self: self.wait()})(release)
    for made in returns(value):
        executor.manager.add(made)
        result = await executor.execute(made.__name__, timeout=0.2)
        assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)
    assert set(value.threads) == {"toolrun"}
    assert sum(executor.health().abandoned.values()) == 4
    release.set()


async def test_an_iterator_inside_of_a_result_is_collected_in_a_thread_and_given_up_at_the_deadline(
    executor: ToolExecutor,
) -> None:
    threads, gate = [], threading.Event()

    def rows(waits: bool) -> Iterator[int]:
        for number in range(3):
            threads.append(threading.get_ident())
            yield number
        if waits:
            gate.wait(30)

    @executor.manager.add
    async def quick() -> dict[str, Any]:
        """Return an iterator in a dict."""
        return {"rows": rows(waits=False)}

    @executor.manager.add
    async def slow() -> dict[str, Any]:
        """Return one that blocks."""
        return {"rows": [rows(waits=True)]}

    try:
        assert (await executor.execute("quick")).result == {"rows": [0, 1, 2]}
        assert (await executor.execute("slow", timeout=0.05)).error_kind is ErrorKind.TIMEOUT
        assert threading.get_ident() not in threads
    finally:
        gate.set()


async def test_an_exception_that_blocks_when_it_is_asked_is_given_up_at_the_deadline(executor: ToolExecutor) -> None:
    release = threading.Event()
    error = exception_with("__str__", lambda self: str(release.wait(10)))
    for made in raises(error):
        executor.manager.add(made)
        result = await executor.execute(made.__name__, timeout=0.2)
        assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)
    release.set()


async def test_with_too_many_threads_abandoned_a_result_that_needs_one_is_refused_as_unknown() -> None:
    release = threading.Event()
    executor = ToolExecutor(ToolManager(), limits=Limits(max_abandoned=1))
    value = type("Slow", (Blocks,), {"__str__": lambda self: self.wait()})(release)
    executor.manager.add(returns(value)[0])
    first = await executor.execute("suspends", timeout=0.02)
    second = await executor.execute("suspends", timeout=0.02)
    assert (first.error_kind, second.error_kind) == (ErrorKind.TIMEOUT, ErrorKind.OVERLOADED)
    assert second.side_effects is SideEffects.UNKNOWN, "the tool has run"
    release.set()
    await executor.close()


class Endless(Sequence[int]):
    """A sequence that has an item for every index."""

    def __len__(self) -> int:
        return 1 << 60

    def __getitem__(self, index: Any) -> Any:
        return index

    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


async def test_a_sequence_without_end_is_cut_or_given_up(
    executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.worker.normalise._MAX_ITEMS", 20_000)
    for made in returns(Endless()):
        executor.manager.add(made)
        result = await executor.execute(made.__name__)
        assert isinstance(result.result, list)
        assert (len(result.result), result.result[-1]) == (20_001, "…")


@dataclass
class Point:
    x: int
    y: Any = None


@pytest.mark.parametrize(
    ("value", "is_small"),
    [
        (None, True),
        ("x" * 5_000_000, True),
        ("é" * 1_000_000, False),
        (["x" * 5_000_000], False),
        ({"a": [1, 2.5, True, None, ("b", b"c")]}, True),
        (list(range(10_001)), False),
        ({str(n): n for n in range(10_001)}, False),
        ({1: 2}, False),
        ([1 << 3_000_000] * 100, False),
        (Point(1), True),
        (Point(1, object()), False),
        (object(), False),
        ({1, 2}, False),
        (range(3), False),
        (Content([{"type": "text", "text": "x"}]), True),
        (Content([{"type": "text", "text": "x" * 1_000_000}]), False),
    ],
    ids=lambda it: type(it).__name__,
)
def test_only_what_is_plain_and_small_is_finalised_on_the_loop(value: object, is_small: bool) -> None:
    assert is_quick(value, None) is is_small


def test_a_value_that_holds_itself_is_not_small() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert not is_quick(cycle, None)


class Odd(Exception):
    def __str__(self) -> str:
        return "odd"


class Own(ToolError):
    """Only how it is made is its own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}", detail="more")
        self.code = code


def detailed(detail: object) -> ToolError:
    error = ToolError("x")
    error.detail = detail  # type: ignore[assignment]
    return error


def answering(answer: object) -> ToolError:
    error = ToolError("x")
    error.answer = answer
    return error


def with_filename(name: object) -> OSError:
    error = OSError(2, "no")
    error.filename = name
    return error


@pytest.mark.parametrize(
    ("error", "is_plain"),
    [
        (ValueError("x"), True),
        (ToolError("x"), True),
        (ToolError("x", side_effects=SideEffects.UNKNOWN, detail="y"), True),
        (OverloadedError("x"), True),
        (Own(1), True),
        (type("Own", (OSError,), {})(2, "no"), True),
        (asyncio.CancelledError(), True),
        (KeyError("x"), True),
        (FileNotFoundError(2, "no", "file"), True),
        (SystemExit(1), True),
        (answering(Content([{"type": "text", "text": "x"}])), True),
        (ValueError(object()), False),
        (ValueError("x", ["y" * 1_000_000]), False),
        (Odd(), False),
        (ExceptionGroup("g", [Odd()]), False),
        (detailed(object()), False),
        (answering(Content([{"type": "text", "text": "x" * 1_000_000}])), False),
        (answering(object()), False),
        (with_filename(object()), False),
        (type("Forged", (Exception,), {"__module__": "builtins", "with_traceback": None})("x"), False),
        (type("ToolError", (ToolError,), {"__module__": "toolrun.errors", "answer": property(len)})(""), False),
    ],
)
def test_only_the_text_of_a_plain_exception_is_made_on_the_loop(error: BaseException, is_plain: bool) -> None:
    assert is_quick(None, error) is is_plain


class Watched:
    """An attribute of an exception that may be asked for in a thread of ours alone."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def __get__(self, error: object, kind: object = None) -> Any:
        self.asked.append(threading.current_thread().name)
        return self

    def __set__(self, error: object, value: object) -> None:
        pass

    def __str__(self) -> str:
        return str(self.__get__(None).asked)

    def __hash__(self) -> int:
        return id(self.__get__(None))

    def __eq__(self, other: object) -> bool:
        return self.__get__(None) is other


def watched_errors(asked: list[str]) -> Iterator[BaseException]:
    watched = Watched(asked)
    yield type("F", (OSError,), {"errno": watched})(2, "no")
    yield type("F", (SystemExit,), {"code": watched})(2)
    for name in ("answer", "detail", "kind", "side_effects", "args", "__class__", "__traceback__"):
        yield type("F", (ToolError,), {name: watched})("x")
    yield ToolError("x", detail=watched)  # type: ignore[arg-type]
    for base in (ToolError, OSError, SystemExit, KeyError):
        yield type("F", (base,), {"__getattribute__": lambda self, name: watched.__get__(None)})("x")
        meta = type("Meta", (type,), {"__getattribute__": lambda self, name: watched.__get__(None)})
        yield meta("F", (base,), {})("x")


async def test_no_code_of_an_exception_runs_on_the_loop(executor: ToolExecutor) -> None:
    asked: list[str] = []
    for error in watched_errors(asked):
        assert not is_quick(None, error)
        for made in raises(error):
            executor.manager.add(made)
            result = await executor.execute(made.__name__)
            assert result.error_kind is ErrorKind.TOOL_ERROR
            assert type(result.error) is str
            assert type(result.text) is str
            assert type(result.side_effects) is SideEffects
    assert set(asked) == {"toolrun"}


async def test_what_a_failed_tool_said_all_the_same_is_normalised_in_a_thread(executor: ToolExecutor) -> None:
    threads: list[str] = []

    class Foreign:
        def model_dump(self) -> list[int]:
            threads.append(threading.current_thread().name)
            return [1]

    blocks: list[dict[str, Any]] = [{"type": "text", "text": "said"}]
    for made in raises(answering(Content(blocks, {"a": Foreign()}))):  # type: ignore[dict-item]
        executor.manager.add(made)
        result = await executor.execute(made.__name__)
        assert (result.result, result.content) == ({"a": [1]}, ({"type": "text", "text": "said"},))
    assert set(threads) == {"toolrun"}


def large_values() -> list[object]:
    cycle: dict[str, object] = {"n": 1}
    cycle["self"] = cycle
    return [
        list(range(30_000)),
        [[n, str(n), {"n": n, "t": (n,)}] for n in range(5_000)],
        {str(n): {"n": [n]} for n in range(12_000)},
        {n: Point(n) for n in range(12_000)},
        ["x" * 600_000, "é\ud800" * 1_000, {"z": ["y" * 600_000]}],
        [float("nan"), 2**70, *range(11_000)],
        [cycle, *range(11_000)],
        {3, 1, 2},
        set(range(25_000)),
        b"\xff" * 1_500_000,
        ("é" * 700_000).encode(),
        "\U0001f600" * 700_000,
        range(25_000),
    ]


@pytest.mark.parametrize("value", large_values(), ids=lambda it: type(it).__name__)
def test_a_large_value_gets_the_same_data_and_text_as_in_one_go(value: object) -> None:
    finalised, error = finalise(value, None, "t", 1000)
    assert error is None
    assert isinstance(finalised, Finalised)
    expected = normalise(value)
    assert finalised.data == expected
    assert finalised.text == shorten(render(expected), 1000)


async def test_the_text_of_a_large_result_is_made_before_the_caller_asks(executor: ToolExecutor) -> None:
    executor.manager.add(returns(list(range(40_000)))[0])
    result = await executor.execute("suspends")
    assert result.rendered is not None
    assert result.text == result.rendered == shorten(render(list(range(40_000))), executor.limits.max_result_chars)


async def test_a_plain_function_finalises_in_its_own_thread(executor: ToolExecutor) -> None:
    seen: list[int] = []

    class Value:
        def model_dump(self) -> int:
            seen.append(threading.get_ident())
            return 1

    @executor.manager.add
    def blocks() -> Any:
        """Block."""
        seen.append(threading.get_ident())
        return Value()

    assert (await executor.execute("blocks")).result == 1
    assert len(seen) == 2
    assert seen[0] == seen[1] != threading.get_ident()


async def five() -> int:
    await asyncio.sleep(0)
    return 5


class Promise:
    """Something that can be awaited, and is no coroutine."""

    def __await__(self) -> Any:
        return five().__await__()


@pytest.mark.parametrize("make", [five, Promise, lambda: asyncio.ensure_future(five())])
async def test_what_a_coroutine_returned_without_awaiting_it_is_awaited(
    executor: ToolExecutor, make: Callable[[], object]
) -> None:
    @executor.manager.add
    async def at_once() -> Any:
        """Forget to await, without a suspension."""
        return make()

    @executor.manager.add
    async def later() -> Any:
        """Forget to await, after a suspension."""
        await asyncio.sleep(0)
        return make()

    @executor.manager.add
    async def twice() -> Any:
        """Forget to await something that forgets to await."""
        return at_once()

    for name in ("at_once", "later", "twice"):
        assert (await executor.execute(name)).result == 5, name


class Unending:
    """Something that is itself what one gets when it is awaited, at once."""

    def __await__(self) -> Generator[None, None, Unending]:
        yield from ()
        return self


async def test_what_can_be_awaited_without_end_is_given_up_at_the_deadline(executor: ToolExecutor) -> None:
    async def endless() -> Any:
        return Unending()

    executor.manager.add(tool(description="Never end.", timeout=0.2)(endless))
    result = await asyncio.wait_for(executor.execute("endless"), 30)
    assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)
