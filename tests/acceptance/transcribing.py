"""BackgroundTranscriber and its executor, proved once for any kind of tool: S0 and S3 ask for it in the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator

from acceptance.kinds import Make
from toolrun import ErrorKind, ToolExecutor, ToolManager, ToolResult
from toolrun.clients import ModelClient
from toolrun.execution.observer import Observer
from toolrun.result import ToolCall
from toolrun.testing import Said, ScriptedModel
from toolrun.tools.context import Call
from toolrun.voice import Answered, BackgroundTranscriber, VoiceEvent


class Watcher(Observer):
    """What an executor has executed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ErrorKind | None]] = []

    def call_finished(self, call: Call, result: ToolResult) -> None:
        self.calls.append((call.name, result.error_kind))


async def prove_use_of_the_executor(make: Make) -> None:
    """All that the model asks for is executed by the executor: also what is not known, not valid, or fails."""
    ran = []

    async def switch(device: str, state: bool) -> str:
        """Switch a device."""
        ran.append((device, state))
        if device == "fuse":
            raise OSError("the fuse has blown")
        return f"{device} is {'on' if state else 'off'}"

    watcher = Watcher()
    executor = ToolExecutor(ToolManager([make(switch)]), observers=[watcher])
    good = ToolCall("1", "switch", {"device": "lamp", "state": "true"})
    bad = [
        ToolCall("2", "swich", {}),
        ToolCall("3", "switch", {"device": "lamp"}),
        ToolCall("4", "switch", {"device": "fuse", "state": True}),
    ]
    client = ModelClient(ScriptedModel([Said(calls=[good, *bad]), "Done."]), executor)
    answers = []

    def listen(event: VoiceEvent) -> None:
        if isinstance(event, Answered):
            answers.append(event.speech)

    async def said() -> AsyncIterator[str]:
        yield "turn on the lamp"

    await BackgroundTranscriber(client, listeners=[listen]).run(said())
    await executor.close()
    assert answers == ["Done."]
    assert ran == [("lamp", True), ("fuse", True)], "repaired and refused by the executor's rules"
    assert sorted(watcher.calls, key=str) == sorted(
        [
            ("switch", None),
            ("swich", ErrorKind.UNKNOWN_TOOL),
            ("switch", ErrorKind.INVALID_ARGUMENTS),
            ("switch", ErrorKind.TOOL_ERROR),
        ],
        key=str,
    )
    results = [str(it.text) for it in client.chat_model.requests[1] if it.type == "tool"]  # type: ignore[attr-defined]
    assert results[0] == "lamp is on"
    assert [text.splitlines()[0] for text in results[1:]] == [
        'Error: Unknown tool "swich"',
        "Error: Invalid parameters: missing 'state'",
        "Error: the fuse has blown",
    ]
