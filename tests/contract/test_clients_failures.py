"""What goes wrong between client and provider, through the real packages over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import AsyncIterator, Awaitable

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, ToolMessage

from providers.base import PATIENCE, Asked, Step
from providers.clients import ANTHROPIC_MODEL, GOOGLE_MODEL, OLLAMA_MODEL, OPENAI_MODEL, Side, open_side, shape
from providers.openai import OpenAIServer
from toolrun import ErrorKind, SideEffects, ToolExecutor
from toolrun.clients import (
    AnthropicClient,
    Ended,
    GoogleClient,
    ModelAuthError,
    ModelContextError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    OllamaClient,
    OpenAIClient,
    Text,
    Turn,
    TurnLimits,
)


@pytest.fixture(autouse=True)
def tools(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b


@pytest_asyncio.fixture(autouse=True)
async def abandoned_generators_end(executor: ToolExecutor) -> AsyncIterator[None]:
    """The provider packages leave generators of a broken stream to the garbage collector."""
    yield
    gc.collect()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRequestError),
        (401, ModelAuthError),
        (403, ModelAuthError),
        (404, ModelNotFoundError),
        (413, ModelContextError),
        (422, ModelRequestError),
        (429, ModelOverloadedError),
        (500, ModelUnavailableError),
        (503, ModelOverloadedError),
        (529, ModelOverloadedError),
    ],
)
async def test_every_status_has_its_error(
    side: Side, executor: ToolExecutor, status: int, kind: type[ModelError]
) -> None:
    side.server.play(Step(status=status, error="because of this"))
    with pytest.raises(ModelError) as caught:
        await side.client(executor).query("Hello?")
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert "because of this" in str(caught.value)
    assert shape(list(caught.value.messages)) == ["human"]


async def test_an_error_after_a_round_keeps_the_results_of_the_tools(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(calls=[Asked("add", {"a": 1, "b": 2})]), Step(status=429), Step(text="It is 3."))
    client = side.client(executor)
    with pytest.raises(ModelOverloadedError) as caught:
        await client.query("1 + 2?")
    assert shape(list(caught.value.messages)) == ["human", "ai", "tool"]
    reply = await client.query("Go on.", history=caught.value.messages)
    assert reply.text == "It is 3."
    assert side.results(2) == ["3"]


async def test_the_time_that_a_provider_asks_for_is_known(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        side.server.play(Step(status=429, headers={"retry-after": "7"}))
        with pytest.raises(ModelOverloadedError) as caught:
            await side.client(executor).query("Hello?")
    assert caught.value.retry_after == 7.0


async def test_a_conversation_that_is_too_long_for_anthropic(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        side.server.play(Step(status=400, error="prompt is too long: 210000 tokens > 200000 maximum"))
        with pytest.raises(ModelContextError, match="Start a new one"):
            await side.client(executor).query("Hello?")


async def test_a_model_that_ollama_does_not_have_says_how_to_get_it(executor: ToolExecutor) -> None:
    with open_side("ollama streamed") as side:
        side.server.play(Step())
        client = OllamaClient(executor, "llama9:1b", side.server.url)
        with pytest.raises(
            ModelNotFoundError, match=r"Ollama does not have the model 'llama9:1b'.*`ollama pull llama9:1b`"
        ):
            await client.query("Hello?")


async def test_anthropic_without_a_key_says_how_to_give_one(
    executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ModelAuthError, match="ANTHROPIC_API_KEY"):
        AnthropicClient(executor, ANTHROPIC_MODEL)


async def test_openai_and_google_without_a_key_say_how_to_give_one(
    executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelAuthError, match="OPENAI_API_KEY"):
        OpenAIClient(executor, OPENAI_MODEL)
    with pytest.raises(ModelAuthError, match="GOOGLE_API_KEY"):
        GoogleClient(executor, GOOGLE_MODEL)


async def test_the_key_for_openai_is_sent_to_no_other_server(
    executor: ToolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-only")
    with OpenAIServer() as server:
        server.play(Step(text="One."), Step(text="Two."), Step(text="Three."))
        assert (await OpenAIClient(executor, "qwen3-8b", base_url=server.url).query("Hello?")).text == "One."
        await OpenAIClient(executor, "qwen3-8b", "sk-router", server.url).query("Hello?")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        await OpenAIClient(executor, "qwen3-8b").query("Hello?")
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer none", "Bearer sk-router", "Bearer sk-for-openai-only"]
    assert server.bodies[0]["model"] == "qwen3-8b"


@pytest.fixture
def closed_url(unused_tcp_port: int) -> str:
    return f"http://127.0.0.1:{unused_tcp_port}"


async def test_nobody_at_the_address(executor: ToolExecutor, closed_url: str) -> None:
    ollama = OllamaClient(executor, OLLAMA_MODEL, closed_url)
    ollama.retry_delays = (0.0,)
    with pytest.raises(ModelUnavailableError, match=f"Is Ollama running at {closed_url}.*ollama serve"):
        await ollama.query("Hello?")
    anthropic = AnthropicClient(executor, ANTHROPIC_MODEL, "key", closed_url, max_retries=0)
    with pytest.raises(ModelUnavailableError, match=f"Anthropic at {closed_url} cannot be reached"):
        await anthropic.query("Hello?")
    openai = OpenAIClient(executor, OPENAI_MODEL, base_url=closed_url, max_retries=0)
    with pytest.raises(ModelUnavailableError, match=f"Is the server running at {closed_url}"):
        await openai.query("Hello?")
    google = GoogleClient(executor, GOOGLE_MODEL, "key", closed_url, max_retries=1)
    with pytest.raises(ModelUnavailableError, match=f"Gemini at {closed_url} cannot be reached"):
        await google.query("Hello?")


async def test_a_connection_that_is_closed_without_an_answer(side: Side, executor: ToolExecutor) -> None:
    side.server.play(Step(refuse=True))
    with pytest.raises(ModelUnavailableError):
        await side.client(executor).query("Hello?")


async def test_ollama_is_asked_again_only_if_nothing_had_come(executor: ToolExecutor) -> None:
    with open_side("ollama streamed") as side:
        client = side.client(executor)
        client.retry_delays = (0.0, 0.0)
        side.server.play(Step(refuse=True), Step(status=503), Step(text="Here I am."))
        assert (await client.query("Hello?")).text == "Here I am."

        side.server.play(Step(text="Here I am, and here I go.", cut_after=1))
        with pytest.raises(ModelUnavailableError, match="broke off in the middle"):
            await client.query("Hello?")

        side.server.play(Step(refuse=True), Step(refuse=True), Step(refuse=True))
        with pytest.raises(ModelUnavailableError):
            await client.query("Hello?")

        side.server.play(Step(status=401))
        with pytest.raises(ModelAuthError):
            await client.query("Hello?")


async def test_anthropics_package_asks_again_itself(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        side.server.play(Step(status=529, headers={"retry-after-ms": "1"}), Step(text="Here I am."))
        assert (await side.client(executor, max_retries=1).query("Hello?")).text == "Here I am."


@pytest.mark.parametrize("how", ["cut_after", "end_after"])
async def test_a_stream_that_breaks_off(streamed_side: Side, executor: ToolExecutor, how: str) -> None:
    """Cut, or ended as if it were complete: both are errors. What was said is kept, calls are not executed."""
    side = streamed_side
    events = {"anthropic": 5, "openai": 2}.get(side.provider, 1)
    calls = [Asked("add", {"a": 1, "b": 2})]
    side.server.play(Step(text="One moment, please.", calls=calls, **{how: events}), Step(text="Again."))  # type: ignore[arg-type]
    client, said = side.client(executor), []

    async def listen() -> None:
        async for event in client.stream("1 + 2?"):
            assert isinstance(event, Text)
            said.append(event.text)

    with pytest.raises(ModelUnavailableError, match="broke off in the middle") as caught:
        await listen()
    assert said[0] == "One moment, "
    kept = caught.value.messages[-1]
    assert isinstance(kept, AIMessage)
    assert not kept.tool_calls
    assert kept.content == "".join(said) + client.wording.broken_off
    assert (await client.query("Go on.", history=caught.value.messages)).text == "Again."


async def test_a_stream_that_breaks_off_in_a_call(streamed_side: Side, executor: ToolExecutor) -> None:
    side = streamed_side
    events = {"anthropic": 6, "openai": 2}.get(side.provider, 1)
    side.server.play(Step(calls=[Asked("add", {"a": 1, "b": 2})], chunk=4, end_after=events), Step(text="Again."))
    client = side.client(executor)
    with pytest.raises(ModelUnavailableError) as caught:
        await client.query("1 + 2?")
    assert shape(list(caught.value.messages)) == ["human"]
    assert (await client.query("Go on.", history=caught.value.messages)).text == "Again."


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("anthropic streamed", ModelOverloadedError), ("ollama streamed", ModelUnavailableError)],
)
async def test_an_error_inside_a_stream(executor: ToolExecutor, kind: str, expected: type[ModelError]) -> None:
    with open_side(kind) as side:
        side.server.play(Step(text="Well, ", error="something broke"))
        with pytest.raises(ModelError, match="something broke") as caught:
            await side.client(executor).query("Hello?")
    assert type(caught.value) is expected


@pytest.mark.parametrize("body", [b"<html>a captive portal</html>", b'{"answer": 42}'])
async def test_an_answer_that_is_none(side: Side, executor: ToolExecutor, body: bytes) -> None:
    side.server.play(Step(body=body))
    if side.provider == "google" and body.startswith(b"{"):  # for its package, an answer that has not ended
        with pytest.raises(ModelUnavailableError, match="Gemini broke off in the middle"):
            await side.client(executor).query("Hello?")
        return
    with pytest.raises(ModelError) as caught:
        await side.client(executor).query("Hello?")
    assert side.server.url in str(caught.value)
    assert shape(list(caught.value.messages)) == ["human"]


async def test_malformed_arguments_are_told_to_the_model(executor: ToolExecutor) -> None:
    """Anthropic's streams carry arguments as text. LangChain closes open brackets by itself; they are not executed."""
    with open_side("anthropic streamed") as side:
        raws = [
            '{"a": 1, "b": 2',
            '{"a": 1, "b": ',
            "nonsense",
            '{"a": 1}{"b": 2}',
            "[1, 2]",
            '"{\\"a\\": 1, \\"b\\": 2}"',
            "",
        ]
        side.server.play(Step(calls=[Asked("add", raw=raw) for raw in raws]), Step(text="Oh."))
        reply = await side.client(executor).query("1 + 2?")
        results = side.results(1)
    assert len(results) == len(raws)
    assert [text.startswith("Error: Invalid parameters: ") for text in results] == [True] * 5 + [False, True]
    assert results[5] == "3"
    assert [it.result.error_kind for it in reply.calls[:4]] == [ErrorKind.INVALID_ARGUMENTS] * 4


UNREADABLE = [None, "text", '{"a": 1', [1, 2], 7, json.loads("[" * 900 + "]" * 900)]


@pytest.mark.parametrize("kind", ["ollama streamed", "ollama whole"])
@pytest.mark.parametrize("arguments", UNREADABLE, ids=["null", "text", "cut off", "list", "number", "deep"])
async def test_calls_that_ollamas_package_cannot_read_are_made_again(
    executor: ToolExecutor, kind: str, arguments: object
) -> None:
    with open_side(kind) as side:
        side.server.play(
            Step(text="Hm. ", calls=[Asked("add", raw=arguments)]),
            Step(calls=[Asked("add", {"a": 1, "b": 2})]),
            Step(text="Three."),
        )
        client = side.client(executor)
        reply = await client.query("1 + 2?")
        assert side.said(1)[-1] == client.wording.ask_after_malformed
    assert (reply.text, reply.ended, [it.result.result for it in reply.calls]) == ("Three.", Ended.ANSWER, [3])


async def test_a_model_whose_calls_are_never_readable_ends_the_turn(executor: ToolExecutor) -> None:
    with open_side("ollama streamed") as side:
        bad = Step(calls=[Asked("add", raw="nonsense")])
        side.server.play(bad, bad, Step(text="Hello."))
        client = side.client(executor)
        reply = await client.query("1 + 2?")
        assert (reply.text, reply.ended, reply.calls) == ("", Ended.MALFORMED, ())
        assert (await client.query("Hello?", history=reply.messages)).text == "Hello."


async def test_ids_that_are_missing_or_not_unique_are_made_so(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        calls = [Asked("add", {"a": 1, "b": number}, id="same") for number in range(3)]
        side.server.play(Step(calls=calls), Step(calls=[Asked("add", {"a": 2, "b": 2}, id="same")]), Step(text="Done."))
        reply = await side.client(executor).query("Add.")
        assert side.results(2) == ["1", "2", "3", "4"]
    ids = [message.tool_call_id for message in reply.messages if isinstance(message, ToolMessage)]
    assert len(set(ids)) == 4


async def test_an_answer_that_takes_too_long(side: Side, executor: ToolExecutor) -> None:
    release = threading.Event()
    client = side.client(executor)
    side.server.play(Step(text="Hello."), Step(text="Finally.", hold=release))
    await client.query("Hello?")  # imports the provider's package, which may take longer than the answer may
    try:
        with pytest.raises(ModelTimeoutError, match=r"took more than 0\.7 s"):
            await client.query("Hello?", limits=TurnLimits(answer_time=0.7))
    finally:
        release.set()


async def when(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def interrupt(turn: asyncio.Task[object], ready: Awaitable[object]) -> None:
    await ready
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def consume(turn: Turn) -> object:
    """A turn as an iteration over its events."""
    return [event async for event in turn.stream()]


@pytest.mark.parametrize("by", ["query", "stream"])
async def test_a_cancellation_while_the_model_speaks(streamed_side: Side, executor: ToolExecutor, by: str) -> None:
    side, release = streamed_side, threading.Event()
    events = {"anthropic": 4, "openai": 2}.get(side.provider, 1)
    side.server.play(Step(text="Once upon a time", hold=release, hold_after=events), Step(text="Yes?"))
    client, heard = side.client(executor), asyncio.Event()
    asked = client.turn("Tell me a story.")

    async def listen() -> None:
        async for event in asked.stream():
            assert isinstance(event, Text)
            heard.set()

    ready: Awaitable[object] = heard.wait() if by == "stream" else when(side.server.held)
    turn = asyncio.create_task(listen() if by == "stream" else asked.run())
    await interrupt(turn, ready)
    release.set()
    assert asked.interrupted is not None
    if by == "stream":
        assert asked.interrupted[-1].content == "Once upon a " + client.wording.broken_off
    assert (await client.query("Stop.", history=asked.interrupted)).text == "Yes?"


@pytest.mark.parametrize("by", ["query", "stream"])
async def test_a_cancellation_while_tools_run(side: Side, executor: ToolExecutor, by: str) -> None:
    """One call was done, one ran, one waited: each is answered truthfully, and the conversation can go on."""
    running = asyncio.Event()

    @executor.manager.add
    async def hang() -> None:
        """Never end."""
        running.set()
        await asyncio.Event().wait()

    calls = [Asked("add", {"a": 1, "b": 2}), Asked("hang"), Asked("add", {"a": 3, "b": 4})]
    side.server.play(Step(text="Let me see.", calls=calls), Step(text="All right."))
    client = side.client(executor, limits=TurnLimits(parallel=1))
    asked = client.turn("Go.")
    work = asked.run() if by == "query" else consume(asked)
    await interrupt(asyncio.ensure_future(work), running.wait())
    assert asked.interrupted is not None
    assert shape(asked.interrupted) == ["human", "ai", "tool", "tool", "tool"]
    reply = await client.query("What happened?", history=asked.interrupted)
    assert reply.text == "All right."
    wording = client.wording
    assert side.results(1) == ["3", f"Error: {wording.interrupted}", f"Error: {wording.not_run}"]


async def test_leaving_a_stream_interrupts_the_turn(side: Side, executor: ToolExecutor) -> None:
    stopped = asyncio.Event()

    @executor.manager.add
    async def hang() -> None:
        """Never end."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    side.server.play(Step(calls=[Asked("hang")]))
    asked = side.client(executor).turn("Go.")
    async with contextlib.aclosing(asked.stream()) as events:
        async for event in events:
            if event.type == "tool_started":
                break
    assert stopped.is_set()
    assert asked.interrupted is not None
    assert shape(asked.interrupted) == ["human", "ai", "tool"]


async def test_the_time_for_tools_ends_a_turn_with_an_answer(side: Side, executor: ToolExecutor) -> None:
    @executor.manager.add
    async def hang() -> None:
        """Never end."""
        await asyncio.Event().wait()

    side.server.play(Step(calls=[Asked("add", {"a": 1, "b": 2}), Asked("hang")]), Step(text="I ran out of time."))
    client = side.client(executor, limits=TurnLimits(time=0.5))
    reply = await client.query("Go.")
    assert (reply.text, reply.ended) == ("I ran out of time.", Ended.TIME)
    assert [it.result.side_effects for it in reply.calls] == [None, SideEffects.UNKNOWN]
    assert side.results(1) == ["3", f"Error: {client.wording.time_interrupted.format(seconds=0.5)}"]
    assert side.said(1)[-1] == client.wording.answer_after_time
