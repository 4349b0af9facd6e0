"""The gateway's side of MQTT: addresses and messages as data, and a link with a real broker that comes and goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from support.brokers import BrokerProcess
from toolrun.clients.turn_event import ToolFinished, ToolProgress, ToolStarted
from toolrun.errors import ConfigError, ErrorKind
from toolrun.redaction import Redactor
from toolrun.result import ToolCall, ToolResult
from toolrun.tools.context import Progress
from toolrun.voice.broker_address import BrokerAddress
from toolrun.voice.mqtt import MAX_QUEUED, MAX_UTTERANCE, MqttLink, encode_event, parse_utterance
from toolrun.voice.repeated_message import MarkedPayload, RecentPayloads
from toolrun.voice.voice_event import Answered, Heard, Outcome, ToolActivity, Utterance

LIMIT = 30.0
SAID = Utterance("u1", "turn on the lamp", "mqtt")


@pytest.mark.parametrize("prefix", ["", "/", "a/#", "+/voice", "a\0"])
def test_a_prefix_that_is_no_topic_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        MqttLink(BrokerAddress("x", 1), lambda text, id: None, prefix=prefix)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b" turn on the lamp\n", ("turn on the lamp", "")),
        ("schalte das Gerät ein".encode(), ("schalte das Gerät ein", "")),
        (b'{"text": "lamp on", "id": "7", "more": 1}', ("lamp on", "7")),
        (b'{"text": "lamp on"}', ("lamp on", "")),
        (b"[1, 2]", ("[1, 2]", "")),
    ],
)
def test_an_utterance_is_text_or_json(payload: bytes, expected: tuple[str, str]) -> None:
    assert parse_utterance(payload) == expected


@pytest.mark.parametrize(
    "payload",
    [
        None,
        b"",
        b" \n",
        b"\xff\xfe",
        b"{",
        b'{"text": ""}',
        b'{"text": 7}',
        b'{"text": "x", "id": 7}',
        b'{"a":' * 1000,
        b"x" * (MAX_UTTERANCE + 1),
    ],
)
def test_what_is_no_utterance_is_refused(payload: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        parse_utterance(payload)


def test_events_become_payloads_without_secrets() -> None:
    redactor = Redactor(["hunter2"])
    call = ToolCall("c1", "login", {"password": "abcdefgh", "user": "hunter2", "n": 2**70})
    failed = ToolResult("login", error="abcdefgh is wrong, hunter2", error_kind=ErrorKind.TOOL_ERROR, call_id="c1")
    about = {"tool": "login", "call_id": "c1"}
    assert [
        encode_event(event, redactor)
        for event in (
            Heard(SAID),
            ToolActivity(SAID, ToolStarted(call)),
            ToolActivity(SAID, ToolProgress(call, Progress(1, 2, "half"))),
            ToolActivity(SAID, ToolFinished(call, failed), "That did not work."),
            ToolActivity(SAID, ToolFinished(call, ToolResult("login", 7, call_id="c1"))),
            Answered(SAID, "*No.*", "No.", Outcome.FAILED),
        )
    ] == [
        ("transcript", {"text": "turn on the lamp", "source": "mqtt"}),
        ("tool", {"event": "started", **about, "arguments": {"password": "***", "user": "***", "n": 2**70}}),
        ("tool", {"event": "progress", **about, "progress": 1, "total": 2, "message": "half"}),
        (
            "tool",
            {
                "event": "finished",
                **about,
                "success": False,
                "error_kind": "tool_error",
                "error": "*** is wrong, ***",
                "speech": "That did not work.",
            },
        ),
        ("tool", {"event": "finished", **about, "success": True, "error_kind": None, "error": None, "speech": ""}),
        ("answer", {"text": "*No.*", "speech": "No.", "outcome": "failed"}),
    ]


@pytest.fixture(params=["amqtt", "mosquitto"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of either kind, which the test starts."""
    made = BrokerProcess(request.param, tmp_path)
    yield made
    made.kill()


@dataclass
class Bench:
    """A link, and what came through it."""

    url: str
    heard: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._news = asyncio.Event()
        self.link = MqttLink(BrokerAddress.parse(self.url), self._hear, prefix="/home/voice/", delays=(0.1, 0.2))

    def _hear(self, text: str, id: str) -> None:
        self.heard.append((text, id))
        self._news.set()

    async def has_heard(self, count: int) -> None:
        async with asyncio.timeout(LIMIT):
            while len(self.heard) < count:
                self._news.clear()
                await self._news.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.link.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=LIMIT)
            assert task.cancelled()


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110  the broker is another process
            await asyncio.sleep(0.01)


@asynccontextmanager
async def outsider(broker: BrokerProcess) -> AsyncIterator[aiomqtt.Client]:
    """Another client, that has subscribed to everything of the gateway."""
    async with asyncio.timeout(LIMIT), aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe("home/voice/#", qos=1)
        yield client


async def read(client: aiomqtt.Client, *topics: str) -> list[Any]:
    """The payloads of the next messages, which have to be on these topics, in this order."""
    found = []
    async for message in client.messages:
        if message.topic.value in topics:
            assert isinstance(message.payload, bytes)
            found.append((message.topic.value, message.payload.decode()))
            if len(found) == len(topics):
                break
    assert [topic for topic, _ in found] == list(topics)
    return [payload for _, payload in found]


async def test_utterances_come_in_and_events_go_out(broker: BrokerProcess) -> None:
    broker.start()
    bench = Bench(broker.url)
    async with outsider(broker) as client, bench.running():
        assert await read(client, "home/voice/status") == ["online"]
        await client.publish("home/voice/utterance", '{"text": "lamp on", "id": "x"}', qos=1)
        for payload in (b"\xff", b"", b"{", b"lamp off"):
            await client.publish("home/voice/utterance", payload, qos=1)
        await bench.has_heard(2)
        assert bench.heard == [("lamp on", "x"), ("lamp off", "")]
        bench.link.on_event(Heard(SAID))
        bench.link.on_event(Answered(SAID, "Ja, *gerät*", "Ja, gerät."))
        transcript, answer = map(json.loads, await read(client, "home/voice/transcript", "home/voice/answer"))
        assert transcript.pop("time") <= answer.pop("time")
        assert transcript == {"id": "u1", "text": "turn on the lamp", "source": "mqtt"}
        assert answer == {"id": "u1", "text": "Ja, *gerät*", "speech": "Ja, gerät.", "outcome": "answered"}


async def test_who_remembers_what_is_answered_is_told_before_the_answer_is_sent_and_not_of_refusals(
    broker: BrokerProcess,
) -> None:
    broker.start()
    bench, told, is_known = Bench(broker.url), [], asyncio.Event()

    async def remember(id: str) -> None:
        told.append(id)
        await is_known.wait()

    bench.link.before_answer = remember
    async with outsider(broker) as client, bench.running():
        await read(client, "home/voice/status")
        bench.link.on_event(Heard(SAID))
        bench.link.on_event(Answered(SAID, "", "", Outcome.REFUSED))
        bench.link.on_event(Answered(SAID, "Yes.", "Yes."))
        await read(client, "home/voice/transcript", "home/voice/answer")
        await eventually(lambda: told == ["u1"])
        await client.publish("home/voice/answer", "mine", qos=1)
        assert await read(client, "home/voice/answer") == ["mine"], "the other is not sent yet"
        is_known.set()
        [answer] = await read(client, "home/voice/answer")
        assert json.loads(answer)["speech"] == "Yes."
    assert told == ["u1"]


async def test_what_was_said_last_is_sent_before_it_goes_offline(broker: BrokerProcess) -> None:
    broker.start()
    bench = Bench(broker.url)
    async with outsider(broker) as client:
        async with bench.running():
            await read(client, "home/voice/status")
            bench.link.on_event(Answered(SAID, "Bye.", "Bye."))
        answer, status = await read(client, "home/voice/answer", "home/voice/status")
        assert json.loads(answer)["speech"] == "Bye."
        assert status == "offline"


async def test_a_retained_utterance_is_not_obeyed(broker: BrokerProcess) -> None:
    broker.start()
    async with outsider(broker) as client:
        await client.publish("home/voice/utterance", "open the door", qos=1, retain=True)
    bench = Bench(broker.url)
    async with bench.running(), outsider(broker) as client:
        await read(client, "home/voice/status")
        await client.publish("home/voice/utterance", "lamp on", qos=1)
        await bench.has_heard(1)
        assert bench.heard == [("lamp on", "")]


async def test_a_broker_that_comes_later_gets_what_happened_before(
    broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(broker.url)
    async with bench.running():
        bench.link.on_event(Heard(SAID))
        await eventually(lambda: "cannot be reached" in caplog.text)
        await asyncio.to_thread(broker.start)
        async with outsider(broker) as client:
            await client.publish("home/voice/utterance", "early", qos=1)
            await eventually(lambda: bench.link.is_connected)
            await client.publish("home/voice/utterance", "lamp on", qos=1)
            await eventually(lambda: bench.heard[-1:] == [("lamp on", "")])  # it may have heard the early one, too
    assert not bench.link._outbox
    assert "connected to the MQTT broker" in caplog.text


async def test_a_broker_that_is_killed_is_found_again(broker: BrokerProcess) -> None:
    broker.start()
    bench = Bench(broker.url)
    async with bench.running():
        await eventually(lambda: bench.link.is_connected)
        await asyncio.to_thread(broker.kill)
        await eventually(lambda: not bench.link.is_connected)
        await asyncio.to_thread(broker.start)
        async with outsider(broker) as client:
            await eventually(lambda: bench.link.is_connected)
            await client.publish("home/voice/utterance", "again", qos=1)
            await bench.has_heard(1)
            bench.link.on_event(Answered(SAID, "Here.", "Here."))
            [answer] = await read(client, "home/voice/answer")
            assert json.loads(answer)["speech"] == "Here."


async def test_what_is_told_while_the_broker_is_away_arrives_when_it_is_back(broker: BrokerProcess) -> None:
    broker.start()
    async with outsider(broker) as client:
        async with way_to(broker) as port:
            bench = Bench(f"mqtt://127.0.0.1:{port}")
            running = bench.running()
            await running.__aenter__()
            assert await read(client, "home/voice/status") == ["online"]
        try:
            await eventually(lambda: not bench.link.is_connected)
            assert await read(client, "home/voice/status") == ["offline"], "its last will"
            bench.link.on_event(Answered(SAID, "Still here.", "Still here."))
            async with way_to(broker, port):
                status, answer = await read(client, "home/voice/status", "home/voice/answer")
                assert (status, json.loads(answer)["speech"]) == ("online", "Still here.")
        finally:
            await running.__aexit__(None, None, None)


@asynccontextmanager
async def way_to(broker: BrokerProcess, port: int = 0) -> AsyncIterator[int]:
    """Another port of the broker, which is there while the block is; then all its connections are cut."""
    writers: set[asyncio.StreamWriter] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", broker.port)
        writers.update((writer, back))
        await asyncio.gather(carry(reader, back), carry(there, writer))

    async with await asyncio.start_server(connect, "127.0.0.1", port) as server:
        yield server.sockets[0].getsockname()[1]
        server.close()
        for writer in writers:
            writer.transport.abort()


async def test_what_waits_for_the_broker_is_bounded_and_the_latest_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = BrokerProcess("amqtt", tmp_path)
    bench = Bench(broker.url)
    for number in range(MAX_QUEUED + 5):
        bench.link.on_event(Answered(Utterance(str(number), "x"), "", ""))
    kept = [json.loads(message.payload)["id"] for message in bench.link._outbox]
    assert kept == [str(number) for number in range(5, MAX_QUEUED + 5)]
    broker.start()
    try:
        async with bench.running():
            await eventually(lambda: not bench.link._outbox)
    finally:
        broker.kill()
    assert "5 messages for the MQTT broker were dropped" in caplog.text


async def test_the_attempts_to_reach_a_broker_come_after_growing_delays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "toolrun.voice")
    bench = Bench(BrokerProcess("amqtt", tmp_path).url)
    async with bench.running():
        await eventually(lambda: len(_delays(caplog)) >= 4)
    assert _delays(caplog)[:4] == ["0.1", "0.2", "0.2", "0.2"]


def _delays(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    return [line.split()[-2] for line in lines if line.startswith("next attempt")]


async def test_a_broker_that_hangs_up_at_once_is_not_asked_in_a_circle(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.voice.mqtt._TIMEOUT", 0.2)  # aiomqtt waits for an answer although nobody is there
    caplog.set_level("INFO", "toolrun.voice")
    visits = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        bench = Bench(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with bench.running():
            await eventually(lambda: len(_delays(caplog)) >= 3)
    assert _delays(caplog)[:3] == ["0.1", "0.2", "0.2"]
    assert visits <= len(_delays(caplog)) + 1


async def test_it_can_be_stopped_while_it_waits_for_a_broker_that_says_nothing() -> None:
    there, ended = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(1000):
                there.set()
        writer.close()
        ended.set()

    async with asyncio.timeout(LIMIT), await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        bench = Bench(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with bench.running():
            await there.wait()
        await ended.wait()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_message_without_an_id_that_the_broker_delivers_again_is_heard_once() -> None:
    said, other, last = b"lamp on", b"lamp off", b"good night"
    flags = [(said, False), (said, True), (said, False), (other, True), (other, True), (last, False)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, size = (await reader.readexactly(1))[0] >> 4, (await reader.readexactly(1))[0]
                body = await reader.readexactly(size)
                if kind == 1:  # connect
                    writer.write(bytes([0x20, 2, 0, 0]))
                elif kind == 8:  # subscribe
                    writer.write(bytes([0x90, 3, *body[:2], 1]))
                elif kind == 3:  # publish: it is online
                    start = 2 + int.from_bytes(body[:2])
                    writer.write(bytes([0x40, 2, *body[start : start + 2]]))
                    topic = b"home/voice/utterance"
                    for number, (payload, is_marked) in enumerate(flags, 1):
                        content = bytes([0, len(topic)]) + topic + bytes([0, number]) + payload
                        writer.write(bytes([0x3A if is_marked else 0x32, len(content)]) + content)
                elif kind == 14:  # disconnect
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        bench = Bench(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with bench.running():
            await bench.has_heard(4)
            assert [text for text, _ in bench.heard] == ["lamp on", "lamp on", "lamp off", "good night"]


def test_a_payload_is_forgotten_after_seconds() -> None:
    now = 0.0
    recent = RecentPayloads(lambda: now)
    again = MarkedPayload(b"lamp on")
    assert not recent.is_repeated(again)
    now = 9.9
    assert recent.is_repeated(again)
    now = 20.0
    assert not recent.is_repeated(again)


async def test_a_wrong_password_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = BrokerProcess("mosquitto", tmp_path, extra_settings="allow_anonymous false\n")
    broker.start()
    bench = Bench(broker.url.replace("//", "//me:hunter2@"))
    try:
        async with bench.running():
            await eventually(lambda: "cannot be reached" in caplog.text)
    finally:
        broker.kill()
    assert "Not authorized" in caplog.text
    assert "hunter2" not in caplog.text
