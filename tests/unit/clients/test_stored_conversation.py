"""Conversations that a journal keeps: what is on disk, who has them, and how they go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage

from support.journal_world import World
from toolrun import ToolCall, ToolContext, ToolError, ToolExecutor, ToolManager, UsageError
from toolrun.clients import ModelClient
from toolrun.clients.model_error import ModelError
from toolrun.clients.stored_conversation import StoredConversation
from toolrun.clients.turn_event import Done, Ended, ToolFinished
from toolrun.clients.turn_limits import TurnLimits
from toolrun.errors import ErrorKind, SideEffects
from toolrun.journal.conversation_row import open_conversation
from toolrun.journal.journal import Journal
from toolrun.redaction import Redactor
from toolrun.testing import Said, ScriptedModel

CALL = {"name": "pay", "args": {"who": "ann"}, "id": "c1", "type": "tool_call"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "journal.db", redactor=Redactor(["hunter22"]))

    def pay(who: str = "somebody") -> str:
        """Pay somebody."""
        world.ran.append(who)
        return f"paid {who}"

    async def fail() -> None:
        """Fails."""
        world.ran.append("fail")
        raise ToolError("no money")

    world.add(pay)
    world.add(fail)
    yield world
    world.go_on.set()
    await world.executor.close()
    world.journal.close()


def client_of(world: World, *script: Any, **options: Any) -> ModelClient:
    return ModelClient(ScriptedModel(script), world.executor, **options)


async def rows(world: World) -> list[tuple[str, str]]:
    await world.journal.drain()
    with contextlib.closing(sqlite3.connect(world.path)) as connection:
        return connection.execute("SELECT role, body FROM message ORDER BY conversation, seq").fetchall()


async def cut_off(client: ModelClient, *messages: Any, calls: tuple[ToolCall, ...] = (), name: str = "talk") -> None:
    """A conversation as a process leaves it that dies after these messages."""
    question = HumanMessage(content="Pay them")
    stored = await client.open_conversation(name)
    stored.add([question], question=question)
    for message in messages:
        stored.add([message], calls=calls if message is messages[-1] else ())
    stored.close()


async def change_second(world: World, body: str) -> None:
    def change(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE message SET body = ? WHERE seq = 1", (body,))

    await asyncio.wrap_future(world.journal.run(change))


def asks(*calls: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=list(calls))


async def test_everything_is_kept_in_the_order_in_which_it_happened(world: World) -> None:
    client = client_of(world, Said("One moment.", [ToolCall("c1", "pay", {"who": "ann"})]), "Done.", "Again.")
    reply = await client.query("Pay ann", conversation=True)
    assert reply.conversation
    again = await client.query("And?", conversation=reply.conversation)
    assert again.conversation == reply.conversation
    roles = ["question", "ai", "tool", "ai", "end", "question", "ai", "end"]
    assert [role for role, _ in await rows(world)] == roles
    assert [it.type for it in again.messages] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert [str(it.text) for it in again.messages[-3:]] == ["Done.", "And?", "Again."]


async def test_nothing_is_kept_of_a_question_without_a_conversation(world: World) -> None:
    reply = await client_of(world, ToolCall("c1", "pay", {}), "Done.").query("Pay ann")
    assert reply.conversation == ""
    assert await rows(world) == []
    assert [call.has_key for call in await world.calls()] == [0]


async def test_a_conversation_can_have_a_name_of_its_own_and_begin_with_a_history(world: World) -> None:
    client = client_of(world, "Hello.", "Fine.")
    history = [HumanMessage(content="Hi"), AIMessage(content="Good morning.")]
    await client.query("How are you?", history, conversation="order 17")
    assert [role for role, _ in await rows(world)] == ["human", "ai", "question", "ai", "end"]
    with pytest.raises(UsageError, match="has its own history"):
        await client.query("And?", history, conversation="order 17")
    assert len((await client.query("And?", conversation="order 17")).messages) == 6


@pytest.mark.parametrize("name", ["", " x", "x\n", "x" * 129, "\ud800", 7])
async def test_a_name_that_cannot_be_one_is_refused(world: World, name: Any) -> None:
    with pytest.raises(UsageError, match="The id of a conversation is"):
        await client_of(world).query("Hi", conversation=name)


async def test_an_unknown_conversation_cannot_be_resumed(world: World) -> None:
    client = client_of(world, "Hello.")
    with pytest.raises(UsageError, match="no conversation 'talk' in the journal; none is stored yet"):
        await client.resume("talk")
    await client.query("Hi", conversation="order-17")
    with pytest.raises(UsageError, match="did you mean 'order-17'"):
        await client.resume("order-18")
    with pytest.raises(UsageError, match="the newest is 'order-17'"):
        await client.resume("talk")


async def test_without_a_journal_a_conversation_is_refused(world: World) -> None:
    bare = ModelClient(ScriptedModel(["Hi"]), ToolExecutor(ToolManager()))
    with pytest.raises(UsageError, match="stored in a journal, and there is none"):
        await bare.query("Hi", conversation=True)
    world.journal.keeps_conversations = False
    with pytest.raises(UsageError, match="conversations = false"):
        await client_of(world).query("Hi", conversation=True)


async def test_one_that_is_in_use_is_refused_until_it_is_let_go(world: World, tmp_path: Path) -> None:
    client = client_of(world, "One.", "Two.")
    stored = await client.open_conversation("talk")
    with pytest.raises(UsageError, match=r"'talk' is in use by process \d+ \(toolrun test\)"):
        await client.query("Hi", conversation="talk")
    other = Journal(world.path, consumer="other")
    try:
        await hand_over(client, other, stored)
    finally:
        other.close()


async def hand_over(client: ModelClient, other: Journal, stored: StoredConversation) -> None:
    with pytest.raises(UsageError, match="is in use by"):
        await open_conversation(other, "talk", model=client.name)
    stored.close()
    await client.query("Hi", conversation="talk")
    taken = await open_conversation(other, "talk", model=client.name)
    with pytest.raises(UsageError, match=r"is in use by process \d+ \(toolrun test\)"):
        await client.query("Hi", conversation="talk")
    taken.close()
    other.flush()
    await client.query("Hi", conversation="talk")


async def test_two_turns_of_one_conversation_do_not_mix(world: World) -> None:
    client = client_of(world, "One.", "Two.")
    answers = await asyncio.gather(*(client.query("Hi", conversation="talk") for _ in range(2)), return_exceptions=True)
    assert sorted(type(it).__name__ for it in answers) == ["Reply", "UsageError"]
    assert [role for role, _ in await rows(world)] == ["question", "ai", "end"]


async def test_a_conversation_with_another_model_is_refused_unless_that_is_wanted(world: World) -> None:
    await client_of(world, "Hi.").query("Hi", conversation="talk")
    other = ModelClient(ScriptedModel(["Hello."], model="other"), world.executor)
    with pytest.raises(UsageError, match="was held with scriptedmodel:scripted, and this is scriptedmodel:other"):
        await other.query("And?", conversation="talk")
    assert (await other.resume("talk", any_model=True)).text == "Hi."
    assert len(await rows(world)) == 3


async def test_a_call_that_never_began_is_run_and_one_that_is_done_is_answered_from_the_journal(world: World) -> None:
    client = client_of(world, "Done.")
    second = {**CALL, "id": "c2", "args": {"who": "bob"}}
    await cut_off(client, asks(CALL, second))
    stored = await client.open_conversation("talk")
    key = stored.key_of(ToolCall("c1", "pay"))
    stored.close()
    await world.executor.execute("pay", {"who": "ann"}, call_id="c1", key=key)
    events: list[Any] = []
    reply = await client.resume("talk", on_event=events.append)
    assert reply.text == "Done."
    assert world.ran == ["ann", "bob"]
    results = [it for it in reply.messages if isinstance(it, ToolMessage)]
    assert [(it.tool_call_id, it.content) for it in results] == [("c1", "paid ann"), ("c2", "paid bob")]
    finished = [it.result for it in events if isinstance(it, ToolFinished)]
    assert sorted((it.call_id, it.replayed) for it in finished) == [("c1", True), ("c2", False)]


@pytest.mark.parametrize("effects", ["none", "once"])
async def test_a_call_that_is_done_and_whose_answer_was_not_kept_runs_again_only_if_it_does_no_harm(
    world: World, effects: str
) -> None:
    text = "x" * 300_000

    def read() -> str:
        """Read."""
        world.ran.append("read")
        return text

    world.add(read, effects=effects)
    client = client_of(world, "Done.")
    await cut_off(client, asks({**CALL, "name": "read", "args": {}}))
    stored = await client.open_conversation("talk")
    await world.executor.execute("read", {}, key=stored.key_of(ToolCall("c1", "read")))
    stored.close()
    [finished] = (await client.resume("talk")).calls
    if effects == "none":
        assert (finished.result.result, world.ran) == (text, ["read"] * 2)
    else:
        assert (finished.result.side_effects, world.ran) == (SideEffects.DONE, ["read"])


async def test_a_call_that_failed_keeps_its_error(world: World) -> None:
    client = client_of(world, "Sorry.")
    await cut_off(client, asks({**CALL, "name": "fail", "args": {}}))
    stored = await client.open_conversation("talk")
    await world.executor.execute("fail", {}, key=stored.key_of(ToolCall("c1", "fail")))
    stored.close()
    reply = await client.resume("talk")
    assert world.ran == ["fail"]
    [finished] = reply.calls
    assert (finished.result.error, finished.result.error_kind) == ("no money", ErrorKind.TOOL_ERROR)
    assert finished.result.side_effects is SideEffects.FAILED


async def test_another_question_runs_nothing_that_had_not_begun(world: World) -> None:
    client = client_of(world, "As you wish.")
    await cut_off(client, asks(CALL))
    reply = await client.query("Stop!", conversation="talk")
    assert world.ran == []
    assert [it.type for it in reply.messages] == ["human", "ai", "tool", "human", "ai"]
    assert "was not run" in str(reply.messages[2].content)
    assert [role for role, _ in await rows(world)] == ["question", "ai", "tool", "question", "ai", "end"]


async def test_arguments_that_are_no_object_are_refused_after_a_crash_as_before(world: World) -> None:
    """The message has `{}` in their place, which would run the tool."""
    client = client_of(world, "Sorry.")
    await cut_off(client, asks({**CALL, "args": {}}), calls=(ToolCall("c1", "pay", '["no object'),))
    reply = await client.resume("talk")
    assert world.ran == []
    assert reply.calls[0].result.error_kind is ErrorKind.INVALID_ARGUMENTS


async def test_the_limits_hold_for_the_whole_turn(world: World) -> None:
    limits = TurnLimits(rounds=2)
    client = client_of(world, ToolCall("c2", "pay", {"who": "bob"}), "That is all.", limits=limits)
    result = ToolMessage(content="paid ann", tool_call_id="c1", name="pay")
    await cut_off(client, asks(CALL), result)
    reply = await client.resume("talk")
    assert (reply.text, reply.ended, world.ran) == ("That is all.", Ended.ROUNDS, ["bob"])

    calls = client_of(world, ToolCall("c3", "pay", {"who": "cyd"}), "Enough.", limits=TurnLimits(calls=1))
    await cut_off(calls, asks(CALL), result, name="third")
    assert (await calls.resume("third")).ended is Ended.CALLS

    repeats = client_of(world, ToolCall("c3", "pay", {"who": "ann"}), "I see.", limits=TurnLimits(repeats=1))
    await cut_off(repeats, asks(CALL), result, name="other")
    assert (await repeats.resume("other")).ended is Ended.REPEATS
    assert world.ran == ["bob"]


async def test_a_question_that_the_model_did_not_answer_is_asked_again(world: World) -> None:
    client = client_of(world, ModelError("down"), "Here I am.")
    with pytest.raises(ModelError):
        await client.query("Hi", conversation="talk")
    reply = await client.resume("talk")
    assert (reply.text, [it.type for it in reply.messages]) == ("Here I am.", ["human", "ai"])


async def test_half_an_answer_counts_only_if_the_user_went_on(world: World) -> None:
    half = [AIMessageChunk(content="Well, "), ModelError("down")]
    client = client_of(world, half, "Hello.", half, "Fine.")
    with pytest.raises(ModelError):
        await client.query("Hi", conversation="talk")
    assert [str(it.text) for it in (await client.resume("talk")).messages] == ["Hi", "Hello."]
    with pytest.raises(ModelError):
        await client.query("How are you?", conversation="talk")
    texts = [str(it.text) for it in (await client.query("Well?", conversation="talk")).messages]
    assert texts == ["Hi", "Hello.", "How are you?", "Well,  [interrupted]", "Well?", "Fine."]


async def test_a_cancelled_turn_is_kept_with_a_result_for_each_call(world: World) -> None:
    started = asyncio.Event()

    async def wait() -> None:
        """Waits."""
        started.set()
        await asyncio.Event().wait()

    world.add(wait)
    client = client_of(world, ToolCall("c1", "wait", {}), "Never mind.")
    asking = asyncio.create_task(client.query("Wait", conversation="talk"))
    await started.wait()
    asking.cancel()
    await asyncio.wait([asking])
    assert [role for role, _ in await rows(world)] == ["question", "ai", "tool"]
    reply = await client.query("And now?", conversation="talk")
    assert [it.type for it in reply.messages] == ["human", "ai", "tool", "human", "ai"]


async def test_known_secrets_are_hidden_in_questions_and_results_and_nowhere_else(world: World) -> None:
    said = Said('I use hunter22 {"password": "x"}', [ToolCall("c1", "pay", {"who": "hunter22"})])
    await client_of(world, said, "Done.").query('It is hunter22 {"password": "x"}', conversation="talk")
    question, answer, result = (json.loads(body)["data"]["content"] for _, body in (await rows(world))[:3])
    assert question == 'It is *** {"password": "x"}'
    assert "hunter22" in json.dumps(answer)
    assert result == "paid ***"


async def test_what_cannot_be_read_is_an_error_that_changes_nothing(world: World) -> None:
    client = client_of(world, "Hi.", "Fine.")
    await client.query("Hi", conversation="talk")
    before = await rows(world)
    revivable = json.dumps(dumpd(AIMessage(content="Hi.")))  # `load` would make the object that it names
    for body in ('{"type": "ai"', '{"type": "constructor", "data": {}}', "[]", '{"lc": 1}', revivable):
        await change_second(world, body)
        with pytest.raises(UsageError, match="'talk' cannot be read: its message 2 is damaged"):
            await client.query("And?", conversation="talk")
        assert [role for role, _ in await rows(world)] == [role for role, _ in before]
    await change_second(world, before[1][1])
    assert (await client.query("And?", conversation="talk")).text == "Fine."


async def test_nested_calls_belong_to_the_conversation_and_know_their_parent(world: World) -> None:
    async def outer(context: ToolContext) -> str:
        """Calls another tool."""
        return (await context.call_tool("pay", {"who": "ann"})).text

    world.add(outer)
    await client_of(world, ToolCall("c1", "outer", {}), "Done.").query("Go", conversation="talk")
    calls = {call.tool: call for call in await world.calls()}
    assert calls["pay"].parent == calls["outer"].id
    assert calls["pay"].conversation == calls["outer"].conversation == "talk"


async def test_a_file_that_is_deleted_under_a_conversation_gets_all_of_it_again(world: World) -> None:
    client = client_of(world, "One.", "Two.")
    stored = await client.open_conversation("talk")
    await client.turn("Hi", conversation=stored).run()
    await world.journal.drain()
    for path in world.path.parent.glob("journal.db*"):
        if not path.name.endswith("-lock"):
            path.unlink()
    await client.turn("And?", conversation=stored).run()
    stored.close()
    assert [role for role, _ in await rows(world)] == ["question", "ai", "end"] * 2
    assert (await client.resume("talk")).text == "Two."


async def test_a_reply_is_on_disk_before_anybody_is_told_that_it_is_complete(world: World) -> None:
    client = client_of(world, "Free.")
    async with await client.open_conversation("talk") as stored:
        async for event in client.turn("And?", conversation=stored).stream():
            if isinstance(event, Done):
                with contextlib.closing(sqlite3.connect(world.path)) as connection:
                    kept = connection.execute("SELECT role FROM message ORDER BY seq").fetchall()
    assert [role for (role,) in kept] == ["question", "ai", "end"]
