"""The home, all of it in one command: broker, devices, Z-Wave server, tools, and the voice gateway that uses them.

    script/demo              hear a recording, then type commands
    script/demo --check      one round without a terminal; exit code 1 if a step did not work

The broker is one of its own on a free port, or that of MQTT_URL. The model is whichever is there (an API key, Ollama),
the one that --model names, or else a stand-in made of rules.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from toolrun.errors import ConfigError, ToolrunError

if TYPE_CHECKING:
    from devices import Simulation
    from house_screen import Screen
    from house_steps import Conversation

    from toolrun import Runtime
    from toolrun.clients.client import ModelClient
    from toolrun.config import Config

HOME = Path(__file__).parent
RECORDING = HOME / "turn_on_switch_one.wav"
STAND_IN = "stand-in"
REPORT_TIMEOUT = "2"
"""Seconds that a device has to report. A simulated one needs none."""
HELP = """\
A sentence for the house, such as those below; or one of
  break DEVICE    a device dies: what is said when it does not answer?
  repair DEVICE   it works again
  quit            end, as Ctrl-D and Ctrl-C do"""


class DemoError(Exception):
    """The demo cannot start. The message says what to do."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    is_check: bool
    model: str
    port: int | None
    speaks: bool
    verbose: bool


@dataclass(frozen=True)
class Place:
    """Where everything meets."""

    url: str
    is_ours: bool
    prefix: str = "zwave"
    voice: str = "voice"


@asynccontextmanager
async def open_place(port: int | None) -> AsyncIterator[Place]:
    """A broker of our own, or the one that MQTT_URL names: there under names that nobody else uses. Raises DemoError."""
    from aiomqtt import MqttError
    from amqtt.errors import BrokerError
    from broker import open_broker
    from devices import CONTROL, demo_house
    from house_watch import sweep
    from mqtt_url import BrokerAddress

    url = os.environ.get("MQTT_URL", "") if port is None else ""
    if not url:
        try:
            async with open_broker(port or 0) as url:
                yield Place(url, is_ours=True)
        except BrokerError as error:
            raise DemoError(f"{error}. Choose another port with --port, or name a broker in MQTT_URL.") from None
        return
    own = f"toolrun-demo-{os.getpid()}"
    try:
        address = BrokerAddress.parse(url)
        async with address.client():
            pass
    except ValueError as error:
        raise DemoError(f"MQTT_URL: {error}") from None
    except MqttError as error:
        raise DemoError(
            f"The MQTT broker at {address}, which MQTT_URL names, cannot be reached: {error}. "
            "Start it, or unset MQTT_URL: then the demo brings its own."
        ) from None
    try:
        yield Place(url, is_ours=False, prefix=f"{own}/zwave", voice=f"{own}/voice")
    finally:
        with suppress(MqttError):
            await sweep(address, own, [f"{CONTROL}/{device.path}" for device in demo_house()])


def configure(place: Place, options: Options) -> Config:
    """The configuration of the example, with the place and the interpreter of this demo."""
    from toolrun.config import load_config

    ours = {
        "HOME_PYTHON": sys.executable,
        "MQTT_URL": place.url,
        "ZWAVE_PREFIX": place.prefix,
        "ZWAVE_REPORT_TIMEOUT": REPORT_TIMEOUT,
    }
    config = load_config(HOME / "toolrun.toml", environ={**os.environ, **ours}, overrides={})
    voice = replace(config.voice, prefix=place.voice, speech_out="espeak" if options.speaks else "")
    return replace(config, voice=voice)


async def find_model(options: Options, runtime: Runtime, screen: Screen) -> ModelClient:
    """The model that is named, the one that is there, or the stand-in. Raises ToolrunError."""
    from stand_in import NAME, make_stand_in

    from toolrun.clients.choice import choose, open_client
    from toolrun.clients.client import ModelClient

    config, why = runtime.config, "as asked for"
    if options.model != STAND_IN and not (options.is_check and not options.model):
        try:
            choice = await asyncio.to_thread(choose, config.model, os.environ, options.model or None)
        except ConfigError as error:
            if options.model:
                raise
            why = str(error).partition(". ")[0].removeprefix("There is ")
        else:
            screen.fact("model", f"{choice} ({choice.why})", "green")
            return open_client(choice, runtime.executor, config.model, os.environ, config.root)
    elif not options.model:
        why = "so that a check depends on nothing else; --model checks with a model"
    screen.fact("model", f"a {NAME} ({why})", "yellow")
    screen.fact("", "It is no AI: it knows the demo's commands by rules, and nothing else.", "yellow")
    return ModelClient(make_stand_in(), runtime.executor, system=config.model.system)


def show_tools(screen: Screen, runtime: Runtime) -> None:
    """The tools by where they run, and what is missing."""
    from toolrun.mcp.tool import McpTool
    from toolrun.sources.script import ScriptTool

    tools = list(runtime.manager)
    for where, found in (
        ("from the Z-Wave server, by MCP", [it.name for it in tools if isinstance(it, McpTool)]),
        ("from a script, in a worker", [it.name for it in tools if isinstance(it, ScriptTool)]),
        ("local ones", [it.name for it in tools if not isinstance(it, McpTool | ScriptTool)]),
    ):
        screen.fact("tools", f"{where}: {', '.join(found) or 'none'}", "" if found else "red")
    for problem in runtime.problems:
        screen.fact("problem", str(problem), "red")
    for server in runtime.servers:
        if server.session is None:
            screen.fact("problem", f"server {server.name}: {server.error}\n{server.tail}", "red")


async def live(options: Options, screen: Screen) -> list[str]:
    """Everything, from the broker to the goodbye. Returns what did not work."""
    from devices import Simulation
    from house_watch import watch
    from mqtt_url import BrokerAddress

    from toolrun import Runtime

    async with open_place(options.port) as place:
        address = BrokerAddress.parse(place.url)
        owner = "the demo's own" if place.is_ours else "of MQTT_URL"
        screen.fact("broker", f"{address}, {owner}")
        config = configure(place, options)
        async with (
            Simulation.open(place.url, prefix=place.prefix) as house,
            watch(address, place.prefix, screen.broker),
            Runtime.open(config, observers=(screen,), on_progress=lambda line: screen.fact("", line)) as runtime,
        ):
            screen.fact("devices", f"{', '.join(it.name for it in house.devices)}: simulated")
            await asyncio.to_thread(import_module, "house_talk")  # takes seconds, and the server starts meanwhile
            await runtime.ready()
            show_tools(screen, runtime)
            client = await find_model(options, runtime, screen)
            return await converse(options, screen, client, place, house, config)


async def converse(
    options: Options, screen: Screen, client: ModelClient, place: Place, house: Simulation, config: Config
) -> list[str]:


async def typed_lines(screen: Screen, talk: Conversation, house: Simulation) -> AsyncIterator[str]:
    """What is typed, as far as it is for the gateway. Waits for each answer before it asks for more."""
    await talk.quiet()
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        screen.heading("Now you: type a command. `help` lists some, Ctrl-D ends.")
    typed: asyncio.Queue[str | None] = asyncio.Queue()
    redraw = "\0"
    screen.on_disturbed = lambda: typed.put_nowait(redraw)
    read_stdin(typed)
    while True:
        await talk.quiet()
        if is_terminal:
            screen.prompt()
        while (line := await typed.get()) == redraw:
            await talk.quiet()
            screen.prompt()
        screen.typed()
        text = (line or "").strip()
        if not is_terminal and text:
            screen.heading(f"> {text}")
        if line is None or text.casefold() in ("quit", "exit"):
            return
        if text and not await obey(text, screen, house):
            yield text


def read_stdin(typed: asyncio.Queue[str | None]) -> None:
    """Put the lines of stdin into the queue, None at its end. In a thread that nobody waits for, without sys.stdin:

    a thread that is inside it when the interpreter ends would crash that.
    """
    loop = asyncio.get_running_loop()

    def put(line: str | None) -> None:
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(typed.put_nowait, line)

    def read() -> None:
        rest = b""
        with suppress(OSError):
            while data := os.read(0, 4096):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    put(line.decode(errors="replace"))
        if rest:
            put(rest.decode(errors="replace"))
        put(None)

    threading.Thread(target=read, name="stdin", daemon=True).start()


async def obey(text: str, screen: Screen, house: Simulation) -> bool:
    """Do what is for the demo itself; False if it is for the house."""
    from stand_in import SENTENCES

    verb, _, name = text.partition(" ")
    if text.casefold() in ("help", "?"):
        screen.line(HELP)
        for sentence in SENTENCES:
            screen.line(("  " + sentence, "cyan"))
        return True
    if verb.casefold() not in ("break", "repair"):
        return False
    device = next((it for it in house.devices if it.name.casefold() == name.strip().casefold()), None)
    if device is None:
        screen.line(f"Which device? There are: {', '.join(it.name for it in house.devices)}")
        return True
    await house.misbehave(device.name, "dead" if verb.casefold() == "break" else "normal")
    await asyncio.sleep(0.1)  # until it has been seen on the broker
    return True


def show_next(screen: Screen, place: Place) -> None:
    screen.heading("Try next")
    for command, why in (
        ("script/demo --model ollama:qwen3:0.6b", "with a model: anthropic:…, ollama:…, local:FILE.gguf"),
        ("script/demo --speak", "hear the answers (needs espeak-ng)"),
        ("script/demo tour", "what toolrun does with good calls and bad ones"),
    ):
        screen.line((f"   {command:<39}", "cyan"), why)
    screen.line("   docs/guides/home.md                    from here to a real house")


def parse() -> Options:
    parser = argparse.ArgumentParser(prog="script/demo", description="A house that listens: the demo of toolrun.")
    parser.add_argument("--check", action="store_true", help="one round without a terminal; exit code 1 if it fails")
    parser.add_argument("--model", default="", help=f"anthropic:…, ollama:…, local:FILE.gguf or {STAND_IN}")
    parser.add_argument("--port", type=int, help="the port of the demo's own broker; without it any that is free")
    parser.add_argument("--speak", action="store_true", help="speak the answers aloud (needs espeak-ng)")
    parser.add_argument("--verbose", action="store_true", help="show the log")
    found = parser.parse_args()
    return Options(found.check, found.model, found.port, found.speak, found.verbose)


def main() -> int:
    options = parse()
    handler = logging.StreamHandler() if options.verbose else logging.NullHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    from house_screen import Screen

    screen = Screen(Console(color_system=None if options.is_check else "auto", highlight=False))
    screen.line(("The home: a voice gateway on toolrun, with everything around it", "bold"))
    try:
        failed = asyncio.run(live(options, screen))
    except KeyboardInterrupt:
        screen.line("\ninterrupted; everything is ended")
        return 130
    except (DemoError, ToolrunError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    if options.is_check:
        for title in failed:
            screen.line(f"failed: {title}")
        verdict = f"{len(failed)} steps failed" if failed else "every step worked"
        screen.heading(f"check: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
