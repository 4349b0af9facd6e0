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
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from demo_broker import DemoBroker, DemoError, open_demo_broker
from devices import Simulation
from house_screen import Complaints, Screen
from house_steps import Check, Conversation, Scene
from house_watch import watch
from rich.console import Console

from toolrun import Config, Runtime, ToolrunError, load_config
from toolrun.server import serving

if TYPE_CHECKING:
    from toolrun.clients import ModelClient

HOME = Path(__file__).parent
RECORDING = HOME / "turn_on_switch_one.wav"
REPORT_TIMEOUT = "2"
"""Seconds that a device has to report. A simulated one needs none."""
TRY_NEXT = """\
   script/demo --model PROVIDER:MODEL    with a model: anthropic:…, ollama:…,
                                         local:FILE.gguf, or the stand-in
   script/demo --speak                   hear the answers (needs espeak-ng)
   script/demo tour                      good calls, bad calls, hanging tools
   docs/guides/home.md                   from here to a real house"""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    is_check: bool
    model: str
    port: int | None
    speaks: bool
    verbose: bool


def configure(broker: DemoBroker, options: Options) -> Config:
    """The configuration of the example, with the broker and the interpreter of this demo."""
    ours = {
        "HOME_PYTHON": sys.executable,
        "MQTT_URL": broker.url,
        "ZWAVE_PREFIX": broker.zwave,
        "ZWAVE_REPORT_TIMEOUT": REPORT_TIMEOUT,
    }
    config = load_config(HOME / "toolrun.toml", environ={**os.environ, **ours}, overrides={})
    voice = replace(config.voice, prefix=broker.voice, speech_out="espeak" if options.speaks else "")
    return replace(config, voice=voice)


async def live(options: Options, screen: Screen) -> list[str]:
    """Everything, from the broker to the goodbye. Returns what did not work."""

    def on_progress(line: str) -> None:
        screen.fact("script", line)

    async with open_demo_broker(options.port, os.environ) as broker:
        whose = "started by the demo" if broker.is_ours else "as MQTT_URL says"
        screen.fact("broker", f"{broker.address}, {whose}; hears what is published to {broker.voice}/utterance")
        config = configure(broker, options)
        async with (
            Simulation.open(broker.url, prefix=broker.zwave) as house,
            watch(broker.address, broker.zwave, screen.broker) as seen,
            Runtime.open(config, observers=(screen,), on_progress=on_progress) as runtime,
        ):
            screen.fact("devices", f"{', '.join(it.name for it in house.devices)} (simulated)")
            await asyncio.to_thread(import_module, "house_model")  # takes a second or two: the server starts meanwhile
            from house_model import find_model

            await runtime.ready()
            show_tools(screen, runtime)
            client = await asyncio.to_thread(find_model, options.model, runtime, screen, is_check=options.is_check)
            scene = Scene(screen, broker, house, Conversation(seen.catch_up))
            async with serving(runtime) as page:
                screen.fact("console", page)
                return await converse(scene, client, config, is_check=options.is_check)


def show_tools(screen: Screen, runtime: Runtime) -> None:
    """The tools by where they run, and what is missing."""
    served = [tool.name for tool in runtime.manager if str(getattr(tool, "source", "")).startswith("MCP server")]
    scripted = [tool.name for script in runtime.scripts for tool in script.tools]
    local = [tool.name for tool in runtime.manager if tool.name not in (*served, *scripted)]
    for where, names in (
        ("of the Z-Wave server, by MCP", served),
        ("of a script, in a worker", scripted),
        ("local", local),
    ):
        screen.fact("tools", f"{where}: {', '.join(names) or 'none'}", "" if names else "red")
    for problem in runtime.problems:
        screen.fact("problem", str(problem), "red")
    for server in runtime.servers:
        if server.session is None:
            screen.fact("problem", f"server {server.name}: {server.error}\n{server.tail}", "red")


async def converse(scene: Scene, client: ModelClient, config: Config, *, is_check: bool) -> list[str]:
    """Play the recording to the gateway, then what is typed, or the steps of the check."""
    from house_typing import typed_lines

    from toolrun.voice import Sources, run_gateway

    def warn(text: str) -> None:
        screen.fact("problem", text, "red")

    screen, check = scene.screen, Check(scene)
    lines = check.lines() if is_check else typed_lines(scene)
    sources = Sources((RECORDING,), lines, broker=scene.broker.address)
    screen.heading(f"{'1  ' if is_check else ''}A recording is played to the gateway: {RECORDING.name}")
    await run_gateway(client, config, sources, [scene.talk.tell, screen.tell], warn)
    return check.failed


def parse() -> Options:
    parser = argparse.ArgumentParser(prog="script/demo", description="A house that listens: the demo of toolrun.")
    parser.add_argument("--check", action="store_true", help="one round without a terminal; exit code 1 if it fails")
    parser.add_argument("--model", default="", help="anthropic:…, ollama:…, local:FILE.gguf, or stand-in")
    parser.add_argument("--port", type=int, help="the port of the demo's own broker; without it any that is free")
    parser.add_argument("--speak", action="store_true", help="speak the answers aloud (needs espeak-ng)")
    parser.add_argument("--verbose", action="store_true", help="show the log, on stderr")
    found = parser.parse_args()
    return Options(found.check, found.model, found.port, found.speak, found.verbose)


def main() -> int:
    options = parse()
    handler = logging.StreamHandler() if options.verbose else logging.NullHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    screen = Screen(Console(color_system=None if options.is_check else "auto", highlight=False))
    logging.getLogger("toolrun.voice").addHandler(Complaints(screen))
    screen.line(("The home: a voice gateway on toolrun, with everything around it", "bold"))
    try:
        failed = asyncio.run(live(options, screen))
    except KeyboardInterrupt:
        screen.line("\ninterrupted; everything has ended")
        return 130
    except (DemoError, ToolrunError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    if options.is_check:
        screen.heading(f"check: not as expected: {'; '.join(failed)}" if failed else "check: every step worked")
    else:
        screen.heading("Try next")
        screen.line(TRY_NEXT)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
