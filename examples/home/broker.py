# /// script
# requires-python = ">=3.11"
# dependencies = ["amqtt>=0.12,<0.13"]
# ///
"""An MQTT broker inside the program, for the demo and the tests: amqtt, which speaks MQTT 3.1.1.

    uv run examples/home/broker.py --port 1883

It listens on the loopback address, takes anybody, and forgets everything when it ends. For a real house use mosquitto
or another broker, by its URL. The command writes its URL to stdout once clients can connect.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def open_broker(port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Run a broker until the block ends. Gives its URL. Port 0: any that is free.

    Raises BrokerError of amqtt if the port is taken.
    """
    from amqtt.broker import Broker  # a third of a second, that who only wants the URL's form need not pay
    from amqtt.contexts import BrokerConfig, ListenerConfig

    for name in ("amqtt", "transitions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs every client that leaves
    port = port or free_port(host)
    broker = Broker(
        BrokerConfig(
            listeners={"default": ListenerConfig(bind=f"{host}:{port}")},
            plugins={"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        )
    )
    await broker.start()
    try:
        yield f"mqtt://{host}:{port}"
    finally:
        await broker.shutdown()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


async def serve(host: str, port: int) -> None:
    """Serve until the process is asked to end."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with open_broker(port, host) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="A small MQTT broker for trying things out.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=1883, help="the port to listen on (1883); 0: any that is free")
    options = parser.parse_args()
    from amqtt.errors import BrokerError

    try:
        asyncio.run(serve(options.host, options.port))
    except BrokerError as error:
        sys.stderr.write(f"broker: {error}. Choose another port with --port.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
