"""What a recorder writes, where, and what it does when it cannot write."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolrun import Content, ToolContext, ToolError, ToolExecutor, ToolManager, tool
from toolrun.errors import ConfigError
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.json import JSON
from toolrun.recording.playback import Recording
from toolrun.recording.recording_observer import Recorder
from toolrun.tools.context import Progress
from toolrun.tools.key_argument import hide_key_argument

PIXEL: dict[str, JSON] = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, path.read_bytes().splitlines()) if kind in line]


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def tank(litres: float) -> None:
    """Fails."""
    raise ToolError("The tank is empty.", detail="Fill it.")


async def snap() -> Content:
    """A picture."""
    return Content([PIXEL], {"width": 1}, {"camera": 7})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "house.jsonl"


@pytest.fixture
def recorder(file: Path) -> Iterator[Recorder]:
    with Recorder(file) as made:
        yield made


def test_a_call_is_recorded_as_sent_and_as_run_with_its_result(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[recorder])
    executor.execute_sync("add", {"a": 2, "b": 3})
    executor.execute_sync("add", {"a": "2"})
    executor.execute_sync("add", '{"a": 4}')
    executor.execute_sync("add", {"a": 4, "colour": "red"})
    calls = lines(file, "call")
    assert all(call.pop("ms") >= 0 for call in calls)
    assert calls == [
        {"call": "add", "arguments": {"a": 2, "b": 3}, "result": 5},
        {"call": "add", "arguments": {"a": 2}, "sent": {"a": "2"}, "result": 3},
        {"call": "add", "arguments": {"a": 4}, "sent": '{"a": 4}', "result": 5},
        {"call": "add", "arguments": {"a": 4}, "sent": {"a": 4, "colour": "red"}, "result": 5},
    ]
    assert recorder.recorded == 4


def test_content_and_failures_are_recorded_in_full(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([snap, tank]), observers=[recorder])
    executor.execute_sync("snap")
    executor.execute_sync("tank", {"litres": 2})
    executor.execute_sync("tank", {"litres": "much"})
    executor.execute_sync("nobody", {"x": 1})
    picture, failed, refused, unknown = lines(file, "call")
    assert (picture["result"], picture["content"], picture["meta"]) == ({"width": 1}, [PIXEL], {"camera": 7})
    assert failed["error"] == {
        "kind": "tool_error",
        "message": "The tank is empty.",
        "detail": "Fill it.",
        "side_effects": "failed",
    }
    assert "result" not in failed
    assert (refused["sent"], refused["error"]["kind"]) == ({"litres": "much"}, "invalid_arguments")
    assert (unknown["sent"], unknown["error"]["kind"]) == ({"x": 1}, "unknown_tool")
    assert "arguments" not in refused
    assert "arguments" not in unknown


def test_a_tool_that_changes_its_arguments_does_not_change_the_recording(recorder: Recorder, file: Path) -> None:
    def push(items: list[int]) -> int:
        """Push."""
        items.append(9)
        return len(items)

    ToolExecutor(ToolManager([push]), observers=[recorder]).execute_sync("push", {"items": [1]})
    assert lines(file, "call")[0]["arguments"] == {"items": [1]}


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("sent", [{"items": ["1", {"a": 1}]}, '{"items": [1, {"a": 1}]}', {"ITEMS": [1, {"a": 1}]}])
def test_arguments_that_are_repaired_and_then_changed_are_recorded_as_sent_and_as_run(
    recorder: Recorder, file: Path, sent: Any, is_async: bool
) -> None:
    def push(items: list[int | dict[str, int]]) -> int:
        """Push."""
        items[1]["a"] = 2  # type: ignore[index]
        items.append(9)
        return len(items)

    async def apush(items: list[int | dict[str, int]]) -> int:
        """Push."""
        await asyncio.sleep(0)
        return push(items)

    executor = ToolExecutor(ToolManager([tool(name="push")(apush if is_async else push)]), observers=[recorder])
    before = copy.deepcopy(sent)
    assert executor.execute_sync("push", sent).result == 3
    [call] = lines(file, "call")
    assert call["arguments"]["items"][1:] == [{"a": 1}]
    assert call["sent"] == before


def test_the_key_that_toolrun_fills_in_is_no_argument_of_the_recording(recorder: Recorder, file: Path) -> None:
    @tool
    async def pay(amount: int, key: str) -> str:
        """Pay."""
        return key

    hide_key_argument(pay, "key")
    executor = ToolExecutor(ToolManager([pay]), observers=[recorder])
    assert [len(executor.execute_sync("pay", {"amount": amount}).text) for amount in (1, "1")] == [32, 32]
    assert [call["arguments"] for call in lines(file, "call")] == [{"amount": 1}] * 2


@pytest.mark.parametrize("is_inline", [True, False])
def test_progress_is_recorded_in_order_whether_somebody_listens_or_not(
    recorder: Recorder, file: Path, is_inline: bool
) -> None:
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(0)
        context.progress(1, 3, "one")
        context.progress(0.5, None, "half of it")
        context.progress("much")  # type: ignore[arg-type]
        context.progress(float("nan"), 3)
        return "done"

    executor = ToolExecutor(ToolManager([tool(inline=is_inline)(work)]), observers=[recorder])
    heard: list[Progress] = []
    executor.execute_sync("work")
    executor.execute_sync("work", on_progress=heard.append)
    first, second = lines(file, "call")
    assert first["progress"] == second["progress"]
    assert first["progress"] == [
        {"progress": 0},
        {"progress": 1, "total": 3, "message": "one"},
        {"progress": 0.5, "message": "half of it"},
    ]
    assert heard[:3] == [Progress(0), Progress(1, 3, "one"), Progress(0.5, None, "half of it")]
    assert len(heard) == 5


def test_a_secret_in_the_progress_is_hidden(file: Path) -> None:
    def work(context: ToolContext) -> None:
        """Work."""
        context.progress(1, message="the key is hunter22")

    with Recorder(file, secrets=["hunter22"]) as recorder:
        ToolExecutor(ToolManager([tool(work)]), observers=[recorder]).execute_sync("work")
    [call] = lines(file, "call")
    assert call["progress"] == [{"progress": 1, "message": "the key is ***"}]


def test_all_tools_are_recorded_once_also_those_that_come_later(recorder: Recorder, file: Path) -> None:
    manager = ToolManager([add])
    recorder.watch(manager)
    executor = ToolExecutor(manager, observers=[recorder])
    executor.execute_sync("add", {"a": 1})
    manager.add(tank)
    assert [line["tool"] for line in lines(file, "tool")] == ["add", "tank"]
    defined = lines(file, "tool")[0]
    assert defined["description"] == "Add two numbers."
    assert defined["inputSchema"]["required"] == ["a"]
    assert defined["origin"] == "signature"
    recorder.close()
    manager.add(snap)
    assert len(lines(file, "tool")) == 2


async def test_calls_that_a_tool_makes_are_not_recorded(recorder: Recorder, file: Path) -> None:
    async def twice(context: ToolContext) -> int:
        """Calls another tool, and one that there is not."""
        await context.call_tool("nobody")
        return int((await context.call_tool("add", {"a": 1})).text) * 2

    executor = ToolExecutor(ToolManager([add, twice]), observers=[recorder])
    assert (await executor.execute("twice")).result == 4
    assert [line["call"] for line in lines(file, "call")] == ["twice"]
    await executor.close()


async def test_a_cancelled_call_is_recorded_as_cancelled(recorder: Recorder, file: Path) -> None:
    started = asyncio.Event()

    async def wait() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    executor = ToolExecutor(ToolManager([wait]), observers=[recorder])
    call = asyncio.create_task(executor.execute("wait"))
    await started.wait()
    call.cancel()
    await asyncio.wait([call])
    assert lines(file, "call")[0]["error"]["kind"] == "cancelled"
    await executor.close()


def test_each_line_is_in_the_file_when_the_call_has_its_answer(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[recorder])
    for number in range(3):
        executor.execute_sync("add", {"a": number})
        assert len(lines(file, "call")) == number + 1


def test_the_file_is_for_its_owner_only_also_if_it_was_not(file: Path) -> None:
    with Recorder(file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with Recorder(file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_missing_directories_are_made(tmp_path: Path) -> None:
    with Recorder(tmp_path / "tests" / "recordings" / "r.jsonl"):
        assert (tmp_path / "tests" / "recordings" / "r.jsonl").exists()


def test_an_existing_recording_is_extended_and_its_tools_are_not_repeated(file: Path) -> None:
    for number in range(2):
        with Recorder(file) as recorder:
            ToolExecutor(ToolManager([add]), observers=[recorder]).execute_sync("add", {"a": number})
    assert len(lines(file, "toolrun_recording")) == 1
    assert len(lines(file, "tool")) == 1
    assert [line["arguments"] for line in lines(file, "call")] == [{"a": 0}, {"a": 1}]


def test_a_recording_can_be_overwritten(file: Path) -> None:
    for number in range(2):
        with Recorder(file, overwrite=True) as recorder:
            ToolExecutor(ToolManager([add]), observers=[recorder]).execute_sync("add", {"a": number})
    assert [line["arguments"] for line in lines(file, "call")] == [{"a": 1}]
    assert len(lines(file, "tool")) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_is_no_recording_is_left_alone(file: Path, overwrite: bool) -> None:
    file.write_text("print('my work')\n")
    with pytest.raises(ConfigError, match="is not a recording, so toolrun does not write into it"):
        Recorder(file, overwrite=overwrite)
    assert file.read_text() == "print('my work')\n"


def test_a_recording_of_a_newer_version_is_not_extended_but_can_be_overwritten(file: Path) -> None:
    file.write_text('{"toolrun_recording":2}\n')
    with pytest.raises(ConfigError, match="version 2"):
        Recorder(file)
    with Recorder(file, overwrite=True):
        assert lines(file, "toolrun_recording") == [{"toolrun_recording": 1}]


def test_an_empty_file_becomes_a_recording(file: Path) -> None:
    file.touch()
    with Recorder(file):
        assert file.read_text() == '{"toolrun_recording":1}\n'


def test_a_line_that_was_cut_off_is_removed_before_more_is_written(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Recorder(file) as recorder:
        ToolExecutor(ToolManager([add]), observers=[recorder]).execute_sync("add", {"a": 1})
    whole = file.read_bytes()
    file.write_bytes(whole + whole[-30:-10])
    with Recorder(file) as recorder:
        assert file.read_bytes() == whole
        ToolExecutor(ToolManager([add]), observers=[recorder]).execute_sync("add", {"a": 2})
    assert "the last line is cut off, and is removed" in caplog.text
    assert [line["arguments"]["a"] for line in lines(file, "call")] == [1, 2]


def test_a_last_line_without_a_line_feed_is_ended_first(file: Path) -> None:
    file.write_text('{"toolrun_recording":1}')
    with Recorder(file) as recorder:
        ToolExecutor(ToolManager([add]), observers=[recorder]).execute_sync("add", {"a": 1})
    assert len(lines(file, "call")) == 1


def test_a_schema_that_has_changed_is_told_at_once_and_nothing_is_lost(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Recorder(file) as recorder:
        recorder.watch(ToolManager([add]))
    other = ToolManager()

    @other.add
    def add_(a: str) -> str:
        """Add."""
        return a

    add_.name = "add"
    with Recorder(file) as recorder:
        recorder.watch(ToolManager([add_]))
    assert "the schema of 'add' is different from before" in caplog.text
    assert len(lines(file, "tool")) == 2
    with pytest.raises(ConfigError, match="the input schema of the tool 'add'"):
        Recording.load(file)


def test_secrets_are_hidden_wherever_they_stand_and_nothing_else(file: Path) -> None:
    async def ask(token: str, page_token: str) -> dict[str, Any]:
        """Answers with what must not be seen: s3cr3t-value."""
        return {"password": "open", "s3cr3t-value": ["x s3cr3t-value y"], "json": '{"password": "open"}'}

    async def fail() -> None:
        """Fails."""
        raise ToolError("no s3cr3t-value here", detail="s3cr3t-value")

    with Recorder(file, secrets=["s3cr3t-value", "call", "result", "object"]) as recorder:
        executor = ToolExecutor(ToolManager([ask, fail]), observers=[recorder])
        executor.execute_sync("ask", {"token": "s3cr3t-value", "page_token": "p2"})
        executor.execute_sync("fail")
    assert "s3cr3t-value" not in file.read_text()
    asked, failed = lines(file, "call")
    assert asked["arguments"] == {"token": "***", "page_token": "p2"}
    assert asked["result"] == {"password": "open", "***": ["x *** y"], "json": '{"password": "open"}'}
    assert (failed["error"]["message"], failed["error"]["detail"]) == ("no *** here", "***")
    assert {"token", "page_token"} == lines(file, "tool")[0]["inputSchema"]["properties"].keys()


def test_a_full_disk_is_told_and_leaves_whole_lines(
    recorder: Recorder, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[recorder])
    executor.execute_sync("add", {"a": 1})
    before = file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))  # Python ignores SIGXFSZ
    try:
        with caplog.at_level(logging.ERROR):
            results = [executor.execute_sync("add", {"a": number}) for number in (2, 3)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [result.result for result in results] == [3, 4]
    assert file.read_bytes() == before
    assert (recorder.recorded, recorder.missing, recorder.failure) == (1, 2, "File too large")
    assert "house.jsonl lacks a call of 'add': File too large" in caplog.text
    executor.execute_sync("add", {"a": 4})
    assert [line["arguments"]["a"] for line in lines(file, "call")] == [1, 4]


def test_what_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="The recording /dev/full cannot be written: it is a device"):
        Recorder("/dev/full")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is a named pipe"):
        Recorder(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="Is a directory"):
        Recorder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be written: (File exists|Not a directory)"):
        Recorder(tmp_path / "file" / "r.jsonl")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
        Recorder(tmp_path / "r.jsonl")


def test_what_is_no_json_is_recorded_as_what_it_became(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[recorder])
    executor.execute_sync("add", b"\xff{")
    executor.execute_sync("add", {"a": 2**70, "\ud800": float("nan")})
    assert lines(file, "call")[0]["error"]["kind"] == "invalid_arguments"
    assert len(lines(file, "call")) == 2
    assert recorder.missing == 0


def test_threads_record_whole_lines(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[recorder])
    threads = [
        threading.Thread(target=lambda: [executor.execute_sync("add", {"a": n}) for n in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(file, "call")) == 80


async def test_what_the_journal_says_of_a_key_is_no_answer_of_the_tool(
    recorder: Recorder, file: Path, tmp_path: Path
) -> None:
    @tool(effects="once")
    def act(how: str) -> dict[str, str]:
        """Act."""
        if how == "breaks":
            raise KeyError("the answer")
        return {"password": "its answer is not kept"}

    journal = Journal(tmp_path / "journal.db")
    executor = ToolExecutor(ToolManager([act]), observers=[recorder], recorder=CallRecorder(journal))
    for how in ("breaks", "works"):
        for _ in range(2):
            await executor.execute("act", {"how": how}, key=how)
    await executor.close()
    journal.close()
    assert [line["arguments"]["how"] for line in lines(file, "call")] == ["breaks", "works"]


async def test_a_key_means_nothing_where_a_recording_is_played(recorder: Recorder, file: Path) -> None:
    executor = ToolExecutor(ToolManager([tool(add)]), observers=[recorder])
    await executor.execute("add", {"a": 1})
    await executor.close()
    playing = Recording.load(file).executor()
    result = await playing.execute("add", {"a": 1}, key="order-17")
    assert (result.result, result.replayed) == (2, False)
    await playing.close()
