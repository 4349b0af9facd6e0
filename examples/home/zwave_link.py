"""The connection between the house and the broker: kept up, listened to, and asked for things with a limit on the wait.

Knows MQTT and the house; knows nothing of MCP. A broker that is not there at the start is an error for the caller. One
that is lost later is looked for again in the background, and until it is back every request fails at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import aiomqtt
from zwave_house import TARGET_VALUE, Device, HomeError, House
from zwave_topics import CLIENTS, JSON, Reading, ValueAddress, parse_json

from toolrun.voice import BrokerAddress

log = logging.getLogger("zwave")

QUIET = 0.5
"""Seconds without a message after which what the broker had kept for us has arrived."""
READY_LIMIT = 3.0
LONGEST_DELAY = 10.0


@dataclass(frozen=True)
class Report:
    """How a command ended: the last state that the device reported, if it did, and whether it is the wanted one."""

    reading: Reading | None
    is_as_wanted: bool


class Link:
    """A connection to the broker, and the house that it hears of. Made by `open`."""

    def __init__(self, address: BrokerAddress, prefix: str, report_timeout: float) -> None:
        self.address = address
        self.prefix = prefix
        self.report_timeout = report_timeout
        self.house = House()
        self._client: aiomqtt.Client | None = None
        self._problem = "not connected yet"
        self._connected_at = self._heard_at = 0.0
        self._is_ready = False
        self._nodes_asked: set[str] = set()
        """The gateways whose list of nodes is still to come."""
        self._watchers: dict[ValueAddress, set[asyncio.Queue[Reading | None]]] = {}
        self._questions: dict[str, asyncio.Future[JSON]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, address: BrokerAddress, prefix: str, report_timeout: float) -> AsyncIterator[Link]:
        """Connect, and stay connected until the block ends. Raises HomeError if the broker is not there now."""
        link = cls(address, prefix, report_timeout)
        first: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(link._keep(first))
            problem = await first
            if problem is None:
                yield link
            keeper.cancel()
        if problem is not None:
            raise HomeError(f"Cannot reach the MQTT broker at {address}: {problem}")

    async def _keep(self, first: asyncio.Future[str | None]) -> None:
        delay = 0.5
        while True:
            try:
                async with self.address.client() as client:
                    await client.subscribe(f"{self.prefix}/#", qos=1)
                    self._connected(client)
                    delay = 0.5
                    if not first.done():
                        first.set_result(None)
                    async for message in client.messages:
                        await self._take(client, message)
            except aiomqtt.MqttError as error:
                if not first.done():
                    first.set_result(str(error))
                    return
                self._lost(str(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _connected(self, client: aiomqtt.Client) -> None:
        log.info("connected to %s, listening to %s/#", self.address, self.prefix)
        self._client = client
        self._connected_at = self._heard_at = asyncio.get_running_loop().time()
        self._is_ready = False

    def _lost(self, problem: str) -> None:
        if self._client is not None:
            log.warning("the broker at %s is lost: %s", self.address, problem)
        self._client, self._problem = None, problem
        self.house.gateways.clear()
        self.house.is_driver_ready = None
        self._nodes_asked.clear()
        for queue in [it for queues in self._watchers.values() for it in queues]:
            queue.put_nowait(None)
        for question in self._questions.values():
            if not question.done():
                question.set_result(None)

    async def _take(self, client: aiomqtt.Client, message: aiomqtt.Message) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if not message.topic.matches(f"{self.prefix}/#"):
            return  # amqtt 0.12 gives a new client the kept messages of everybody's subscriptions
        topic = message.topic.value.removeprefix(f"{self.prefix}/")
        payload = message.payload if isinstance(message.payload, bytes) else str(message.payload).encode()
        change = self.house.receive(topic, payload)
        if change is not None:
            for queue in self._watchers.get(change.address, ()):
                queue.put_nowait(change.reading)
        parts = topic.split("/")
        if parts[0] == CLIENTS and len(parts) == 3 and self.house.gateways.get(parts[1]):
            await self._ask_for_nodes(client, parts[1])
        elif parts[0] == CLIENTS and len(parts) == 4 and parts[2] == "api":
            self._answered(parts[1], parts[3], parse_json(payload))

    async def _ask_for_nodes(self, client: aiomqtt.Client, gateway: str) -> None:
        self._nodes_asked.add(gateway)
        await client.publish(f"{self.prefix}/{CLIENTS}/{gateway}/api/getNodes/set", json.dumps({"args": []}))

    def _answered(self, gateway: str, function: str, answer: JSON) -> None:
        if function == "getNodes":
            self._nodes_asked.discard(gateway)
        origin = answer.get("origin") if isinstance(answer, dict) else None
        question = self._questions.get(str(origin.get("id"))) if isinstance(origin, dict) else None
        if question is not None and not question.done():
            question.set_result(answer)

    async def ready(self) -> House:
        """The house, once what the broker had kept has arrived. Raises HomeError while there is no broker."""
        loop = asyncio.get_running_loop()
        while True:
            self._connection()
            limit = self._connected_at + READY_LIMIT - loop.time()
            quiet = self._heard_at + QUIET - loop.time()
            remaining = min(limit, QUIET if self._nodes_asked else quiet)
            self._is_ready = self._is_ready or remaining <= 0
            if self._is_ready:
                return self.house
            await asyncio.sleep(remaining)

    def _connection(self) -> aiomqtt.Client:
        if self._client is None:
            raise HomeError(
                f"The MQTT broker at {self.address} cannot be reached ({self._problem}), so nothing was sent. "
                "The connection is tried again every few seconds: check that the broker runs."
            )
        return self._client

    def check_gateway(self) -> None:
        """Raises HomeError if the gateway has said goodbye: a command would reach nobody, or reach somebody later."""
        self._connection()
        if self.house.gateways and not any(self.house.gateways.values()):
            raise HomeError(
                "The Z-Wave gateway is not connected to the broker, so nothing was sent. Check that zwave-js-ui runs."
            )

    async def command(
        self, device: Device, address: ValueAddress, value: JSON, is_wanted: Callable[[JSON], bool]
    ) -> Report:
        """Set a value, and wait for the device to report it."""
        self.check_gateway()
        target = ValueAddress(address.node, address.command_class, address.endpoint, TARGET_VALUE)
        topic = f"{self.prefix}/{target.topic(device.layout)}/set"
        last: Reading | None = None
        with self._watch(address) as reports:
            # At most once: what was not delivered now must not switch something on later.
            await self._publish(topic, {"value": value})
            log.debug("sent %s = %s", topic, value)
            try:
                async with asyncio.timeout(self.report_timeout):
                    while True:
                        reading = await reports.get()
                        if reading is None:
                            raise HomeError(
                                f"The MQTT broker was lost after the command for {device.name} was sent: "
                                "it is not known whether it was carried out."
                            )
                        last = reading
                        if is_wanted(reading.value):
                            return Report(reading, is_as_wanted=True)
            except TimeoutError:
                return Report(last, is_as_wanted=False)

    async def ask(self, function: str, *args: JSON) -> JSON:
        """Call a function of the gateway. Gives its result, or None if no answer came."""
        gateways = [it for it, is_connected in self.house.gateways.items() if is_connected]
        if not gateways:
            return None
        question: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        id = uuid.uuid4().hex
        self._questions[id] = question
        try:
            topic = f"{self.prefix}/{CLIENTS}/{gateways[0]}/api/{function}/set"
            await self._publish(topic, {"args": list(args), "id": id})
            async with asyncio.timeout(self.report_timeout):
                answer = await question
        except TimeoutError:
            return None
        finally:
            del self._questions[id]
        return answer.get("result") if isinstance(answer, dict) else None

    async def _publish(self, topic: str, payload: dict[str, JSON]) -> None:
        try:
            await self._connection().publish(topic, json.dumps(payload))
        except aiomqtt.MqttError as error:
            raise HomeError(f"The MQTT broker at {self.address} did not take the command: {error}") from error

    @contextmanager
    def _watch(self, address: ValueAddress) -> Iterator[asyncio.Queue[Reading | None]]:
        queue: asyncio.Queue[Reading | None] = asyncio.Queue()
        self._watchers.setdefault(address, set()).add(queue)
        try:
            yield queue
        finally:
            self._watchers[address].discard(queue)
            if not self._watchers[address]:
                del self._watchers[address]
