"""The gateway on MQTT: utterances come from one topic, and events go to others.

    PREFIX/utterance    in: the words as plain text, or {"text": "…", "id": "…"}
    PREFIX/transcript   {"id", "time", "text", "source"}
    PREFIX/tool         {"id", "time", "event": "started" | "progress" | "finished", "tool", "call_id", …}
    PREFIX/answer       {"id", "time", "text", "speech", "outcome"}
    PREFIX/status       online or offline, retained

`id` is that of the utterance, `time` is in seconds since 1970. An utterance whose publisher gave it an id is answered
once, however often it comes; so is one without that the broker marks as delivered again. A lost connection is reopened;
the latest messages are queued until then. Needs aiomqtt, which is imported when a link is made.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from toolrun.clients.turn_event import ToolFinished, ToolProgress
from toolrun.errors import ConfigError
from toolrun.extra import missing
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.redaction import Redactor
from toolrun.voice.broker_address import BrokerAddress
from toolrun.voice.race import race
from toolrun.voice.repeated_message import RecentPayloads, mark_payloads
from toolrun.voice.voice_event import Answered, Heard, Outcome, ToolActivity, VoiceEvent

if TYPE_CHECKING:
    import aiomqtt

logger = get_logger("toolrun.voice")

MAX_QUEUED: Final = 200
"""Messages that wait for the broker. When there are more, the oldest are dropped."""
MAX_UTTERANCE: Final = 8_192
"""Bytes. No spoken sentence is longer."""
_MIN_DELAY: Final = 0.05
_STABLE_AFTER: Final = 10.0
"""Seconds. A connection that lasted longer resets the backoff."""
_TIMEOUT: Final = 5.0
"""Seconds for one response of the broker."""
_SHUTDOWN_TIMEOUT: Final = 0.5
"""Seconds for the last messages before the connection closes."""
_KEEPALIVE: Final = 20


class _Message(NamedTuple):
    topic: str
    payload: str
    answered: str
    """The utterance whose answer it is; empty if it is none."""


class MqttLink:
    """The connection to a broker, reopened as often as needed while `run` runs. For the event loop of `run`."""

    def __init__(
        self,
        address: BrokerAddress,
        hear: Callable[[str, str], object],
        *,
        prefix: str = "voice",
        delays: Sequence[float] = (1.0,),
        redactor: Redactor | None = None,
    ) -> None:
        """`hear` gets the text and the id of each utterance. Raises ConfigError."""
        _require_aiomqtt()
        if not prefix.strip("/") or set("#+\0") & set(prefix):
            raise ConfigError(f"[voice] prefix is {prefix!r}; the beginning of MQTT topics is text without # and +")
        self.address = address
        self.prefix = prefix.strip("/")
        self.is_connected = False
        self.claim: Callable[[str], Awaitable[bool]] = _claim_all
        """Says by the id of an utterance whether it is to be answered."""
        self.before_answer: Callable[[str], Awaitable[None]] = _do_nothing
        """Awaited with the id of an utterance before its answer is sent."""
        self._hear = hear
        self._hearing: asyncio.Future[None] | None = None
        self._recent = RecentPayloads()
        self._delays = delays
        self._redactor = redactor or Redactor()
        self._outbox: deque[_Message] = deque()
        self._sending: _Message | None = None
        """The message that was sent and is not yet acknowledged."""
        self._dropped = 0
        self._has_messages = asyncio.Event()

    def on_event(self, event: VoiceEvent) -> None:
        """Queue an event for the broker. A `Listener`."""
        if len(self._outbox) >= MAX_QUEUED:
            self._outbox.popleft()
            self._dropped += 1
        topic, content = encode_event(event, self._redactor)
        payload = {"id": event.utterance.id, "time": round(time.time(), 3), **content}
        is_answer = isinstance(event, Answered) and event.outcome is not Outcome.REFUSED  # those may come again
        answered = event.utterance.id if is_answer else ""
        self._outbox.append(_Message(f"{self.prefix}/{topic}", json.dumps(payload, ensure_ascii=False), answered))
        self._has_messages.set()

    async def run(self) -> None:
        """Stay connected until this is cancelled; then publish the last messages and disconnect."""
        failures, was_lost = 0, False
        while True:
            started = time.monotonic()
            error = await self._serve_connection(logging.WARNING if was_lost else logging.INFO)
            if self.is_connected:
                logger.warning(
                    "the connection to the MQTT broker at %s is lost: %s. Reconnecting.", self.address, error
                )
            elif not was_lost:
                logger.warning("the MQTT broker at %s cannot be reached: %s. Retrying.", self.address, error)
            self.is_connected, was_lost = False, True
            failures = 0 if time.monotonic() - started >= _STABLE_AFTER else failures + 1
            delay = max(_MIN_DELAY, self._delays[min(failures, len(self._delays)) - 1] if failures else 0)
            logger.info("next attempt to reach the MQTT broker in %g s", delay)
            await asyncio.sleep(delay)

    async def _serve_connection(self, level: int) -> Exception:
        """Open a connection and serve it. Returns why it ended. `level` is the log level of success."""
        import aiomqtt

        try:
            async with self._connection() as client:
                await self._start_session(client, level)
                _check_cancelled()
                try:
                    await race(self._listen(client), self._send(client))
                except asyncio.CancelledError:
                    await self._close_session(client)
                    raise
        except (aiomqtt.MqttError, OSError) as error:
            _check_cancelled()
            return error
        return aiomqtt.MqttError("the broker closed the connection")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[aiomqtt.Client]:
        """A connection that closes with the block, even while it opens: aiomqtt would leave its socket open."""
        client = self._client()
        connecting = asyncio.ensure_future(client.__aenter__())
        try:
            await asyncio.shield(connecting)
            yield client
        except BaseException:
            client.timeout = _SHUTDOWN_TIMEOUT
            raise
        finally:
            try:
                await client.__aexit__(None, None, None)
            finally:
                connecting.cancel()
                await asyncio.wait({connecting})

    def _client(self) -> aiomqtt.Client:
        import aiomqtt

        client = self.address.client(
            will=aiomqtt.Will(f"{self.prefix}/status", "offline", qos=1, retain=True),
            timeout=_TIMEOUT,
            keepalive=_KEEPALIVE,
            max_queued_incoming_messages=MAX_QUEUED,
            logger=logging.Logger("aiomqtt", logging.CRITICAL),  # this module logs the same
        )
        mark_payloads(client)
        return client

    async def _start_session(self, client: aiomqtt.Client, level: int) -> None:
        await client.subscribe(f"{self.prefix}/utterance", qos=1)
        await client.publish(f"{self.prefix}/status", "online", qos=1, retain=True)
        self.is_connected = True
        self._sending = None
        logger.log(level, "connected to the MQTT broker at %s", self.address)
        if self._dropped:
            logger.warning("%d messages for the MQTT broker were dropped while it was not connected", self._dropped)
            self._dropped = 0

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            if message.topic.value != f"{self.prefix}/utterance":
                continue  # amqtt also sends what others subscribed to
            if message.retain:
                logger.warning(
                    "a retained message on %s is ignored: it would be repeated at every start", message.topic
                )
                continue
            try:
                text, id = parse_utterance(message.payload)
            except ValueError as error:
                logger.warning("a message on %s is ignored: %s", message.topic, error)
                continue
            if not id and self._recent.is_repeated(message.payload):
                logger.info("a message on %s came again and is not answered again", message.topic)
                continue
            # Shielded: the broker has its acknowledgement, so what came is heard even if the connection is lost now.
            self._hearing = asyncio.ensure_future(self._hear_once(text, id))
            await asyncio.shield(self._hearing)

    async def _hear_once(self, text: str, id: str) -> None:
        if await self.claim(id):
            self._hear(text, id)
        else:
            logger.info("the utterance %s was taken before and is not answered again", id)

    async def _send(self, client: aiomqtt.Client) -> None:
        while True:
            await self._flush(client)
            self._has_messages.clear()
            await self._has_messages.wait()

    async def _flush(self, client: aiomqtt.Client) -> None:
        while self._outbox:
            message = self._outbox[0]
            await self._publish(client, message)
            self._drop_sent()
            _check_cancelled()

    async def _publish(self, client: aiomqtt.Client, message: _Message) -> None:
        if message.answered:
            await self.before_answer(message.answered)
        self._sending = message
        await client.publish(message.topic, message.payload, qos=1)

    def _drop_sent(self) -> None:
        if self._outbox and self._outbox[0] is self._sending:  # else it was dropped in the meantime
            self._outbox.popleft()
        self._sending = None

    async def _close_session(self, client: aiomqtt.Client) -> None:
        import aiomqtt

        self._drop_sent()  # the broker acknowledges it before the messages below
        with suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT):
                for message in list(self._outbox):
                    await self._publish(client, message)
                await client.publish(f"{self.prefix}/status", "offline", qos=1, retain=True)


def parse_utterance(payload: object) -> tuple[str, str]:
    """The text and the id (which may be empty) of a message. ValueError: it is not an utterance."""
    if not isinstance(payload, bytes | bytearray) or not payload.strip():
        raise ValueError("it is empty")
    if len(payload) > MAX_UTTERANCE:
        raise ValueError(f"it is longer than {MAX_UTTERANCE} bytes")
    try:
        text = payload.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not text.startswith("{"):
        return text, ""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it begins with { but is not JSON") from None
    text, id = content.get("text"), content.get("id", "")
    if not isinstance(text, str) or not text.strip() or not isinstance(id, str):
        raise ValueError('it is not of the form {"text": "…", "id": "…"}')
    return text, id


def encode_event(event: VoiceEvent, redactor: Redactor) -> tuple[str, dict[str, JSON]]:
    """The topic of an event without its prefix, and the payload without id and time."""
    match event:
        case Heard(utterance):
            return "transcript", {"text": utterance.text, "source": utterance.source}
        case Answered(_, text, speech, outcome):
            return "answer", {"text": text, "speech": speech, "outcome": str(outcome)}
        case ToolActivity(_, activity, speech):
            call = activity.call
            content: dict[str, JSON] = {
                "event": activity.type.removeprefix("tool_"),
                "tool": call.name,
                "call_id": call.id,
            }
            if isinstance(activity, ToolProgress):
                progress = activity.progress
                content |= {"progress": progress.progress, "total": progress.total, "message": progress.message}
            elif isinstance(activity, ToolFinished):
                result = activity.result
                error_kind = None if result.error_kind is None else str(result.error_kind)
                error = None if result.error is None else redactor.with_arguments(call.arguments).hide(result.error)
                content |= {"success": result.success, "error_kind": error_kind, "error": error, "speech": speech}
            else:
                content["arguments"] = _json(redactor.value(call.arguments))
            return "tool", content


async def _claim_all(id: str) -> bool:
    return True


async def _do_nothing(id: str) -> None:
    pass


def _check_cancelled() -> None:
    """Raise a cancellation that was swallowed: aiomqtt replaces it by its own errors, and `asyncio.wait_for` of Python
    3.11 drops one that arrives together with the result."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _json(value: object) -> JSON:
    """The arguments as JSON; those of refused calls may be any object."""
    found: JSON = json.loads(json.dumps(value, default=str))
    return found


def _require_aiomqtt() -> None:
    try:
        import aiomqtt  # noqa: F401  only to see whether it is installed
    except ImportError as error:
        raise missing("voice", error, "MQTT") from error
