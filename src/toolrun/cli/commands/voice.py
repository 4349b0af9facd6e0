"""`toolrun voice`: answers spoken commands with a model and the tools."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain, inform, near
from toolrun.cli.turn import Display, model_options, model_settings, open_model
from toolrun.clients.choice import Choice, choose, parse_model
from toolrun.config.model import Config
from toolrun.extra import missing
from toolrun.redaction import Redactor
from toolrun.runtime import Runtime
from toolrun.text import plural

if TYPE_CHECKING:
    from toolrun.voice.gateway import Sources
    from toolrun.voice.voice_event import Listener


@click.command(name="voice")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read utterances from stdin, one per line.")
@click.option("--mqtt", metavar="URL", help="Receive utterances from this broker, and publish events to it.")
@click.option(
    "--audio",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Recognise speech in a WAV file. Repeatable.",
)
@click.option("--microphone", is_flag=True, help="Listen to the microphone.")
@click.option("--speak/--no-speak", default=None, help="Speak the answers, or not.")
@model_options
@shared_options()
@click.pass_obj
def command(
    options: Options,
    from_stdin: bool,
    mqtt: str | None,
    audio: tuple[Path, ...],
    microphone: bool,
    speak: bool | None,
    model: str | None,
    system: str | None,
) -> None:
    """Answer spoken commands with a model and the tools.

    Without options it listens to the configured broker, or to stdin if none is configured. Answers go to stdout,
    everything else to stderr. With --stdin or --audio it ends after the last answer; otherwise at Ctrl-C or SIGTERM.
    """
    output = claim_stdout()
    audio = tuple(path.absolute() for path in audio)  # the current directory is going to be that of the project
    named = parse_model(model, "--model") if model else None

    async def listen(runtime: Runtime) -> None:
        await _import_packages()
        from toolrun.voice.broker_address import BrokerAddress
        from toolrun.voice.gateway import Sources, run_gateway

        config = _configured(runtime.config, mqtt, speak)
        broker = BrokerAddress.parse(config.voice.mqtt) if config.voice.mqtt else None
        has_input = audio or microphone or broker
        lines = _read_lines() if from_stdin or not has_input else None
        sources = Sources(audio, lines, microphone, broker)
        settings = model_settings(config, system)
        choice = named if named is not None else await asyncio.to_thread(choose, settings, os.environ)
        client = await open_model(runtime, choice, settings)
        _announce(runtime, sources, config, choice)
        watching = asyncio.create_task(_tell_servers(runtime))
        try:
            await run_gateway(client, config, sources, [_terminal(output, config)], complain, runtime.journal)
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    run_with_tools(options, listen, is_server=True)


async def _import_packages() -> None:
    """In a thread, because it takes a second or two, and toolrun connects to the servers meanwhile."""
    try:
        await asyncio.to_thread(import_module, "toolrun.voice.gateway")
    except ImportError as error:
        raise missing("voice,ollama", error, "toolrun voice") from None


def _configured(config: Config, mqtt: str | None, speak: bool | None) -> Config:
    """The configuration, with the options applied."""
    voice = config.voice
    if mqtt:
        voice = replace(voice, mqtt=mqtt)
    if speak is not None:
        voice = replace(voice, speech_out=(voice.speech_out or "espeak") if speak else "")
    return replace(config, voice=voice)


async def _read_lines() -> AsyncIterator[str]:
    """The lines of stdin, read in a thread: it may be a terminal, a pipe or a file."""
    if sys.stdin is None:
        return
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


def _announce(runtime: Runtime, sources: Sources, config: Config, choice: Choice) -> None:
    heard = [near(path) for path in sources.audio]
    if sources.lines is not None:
        heard.append("stdin")
    if sources.microphone:
        heard.append("the microphone")
    if sources.broker is not None:
        heard.append(f"{sources.broker} ({config.voice.prefix}/utterance)")
    inform(f"Listening to {', '.join(heard)}; {_tools(runtime)}; model {choice} ({choice.why})")
    if runtime.servers:
        inform(f"Connecting to {', '.join(server.name for server in runtime.servers)}")


async def _tell_servers(runtime: Runtime) -> None:
    """Report the state of the servers, once it is known."""
    await runtime.ready()
    missing = [server.name for server in runtime.servers if server.session is None]
    if missing:
        inform(f"Missing: {', '.join(missing)}; their tools become available when they connect")
    elif runtime.servers:
        inform(f"All servers are connected; {_tools(runtime)}")


def _tools(runtime: Runtime) -> str:
    return plural(len(runtime.manager), "tool")


def _terminal(output: Output, config: Config) -> Listener:
    from toolrun.voice.voice_event import Answered, Heard, ToolActivity, VoiceEvent

    display = Display(output, Redactor(config.secrets.values()), streams=False)

    def tell(event: VoiceEvent) -> None:
        match event:
            case Heard(utterance) if utterance.source != "stdin":
                inform(f"heard: {utterance.text or '(not understood)'}")
            case ToolActivity():
                display.show(event.event)
            case Answered(speech=speech) if speech:
                output.text(speech)

    return tell
