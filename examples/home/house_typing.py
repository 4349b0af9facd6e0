"""What is typed at the demo: sentences for the house, and a few commands for the demo itself."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

from devices import Simulation
from house_screen import Screen
from house_steps import Scene
from stand_in import SENTENCES

HELP = """\
Say something to the house, such as:
{sentences}
Or to the demo:
   break DEVICE     the device dies: hear what is said when it does not answer
   repair DEVICE    it works again
   quit             the end, like Ctrl-D and Ctrl-C"""
_DISTURBED = "\0"


async def typed_lines(scene: Scene) -> AsyncIterator[str]:
    """What is typed for the house, until the end of stdin. Waits for each answer before it asks for more."""
    screen, talk = scene.screen, scene.talk
    await talk.quiet()
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        screen.heading("Now you: type a command. “help” lists some, Ctrl-D ends.")
    typed: asyncio.Queue[str | None] = asyncio.Queue()
    screen.on_disturbed = lambda: typed.put_nowait(_DISTURBED)
    _read_stdin(typed)
    while True:
        await talk.quiet()
        if is_terminal:
            screen.prompt()
        line = await typed.get()
        if line == _DISTURBED:
            continue
        screen.typed()
        text = (line or "").strip()
        if line is None or text.casefold() in ("quit", "exit"):
            if is_terminal and line is None:
                screen.line()
            return
        if not is_terminal:
            screen.heading(f"> {text}")
        if text and not await _obey(text, screen, scene.house):
            yield text


def _read_stdin(typed: asyncio.Queue[str | None]) -> None:
    """Put the lines of stdin into the queue, and None at its end.

    In a thread that nobody waits for, and not through sys.stdin: the end of the interpreter would have to.
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


async def _obey(text: str, screen: Screen, house: Simulation) -> bool:
    """Do what is for the demo itself; False if it is for the house."""
    verb, _, name = text.casefold().partition(" ")
    if verb in ("help", "?"):
        screen.line(HELP.format(sentences="\n".join(f"   {it}" for it in SENTENCES)))
        return True
    if verb not in ("break", "repair"):
        return False
    device = next((it for it in house.devices if it.name.casefold() == name.strip()), None)
    if device is None:
        screen.line(f"Which device? There are: {', '.join(it.name for it in house.devices)}")
        return True
    await house.misbehave(device.name, "dead" if verb == "break" else "normal")
    screen.line(f"{device.name} is {'dead' if verb == 'break' else 'well'} now. Tell it to do something.")
    return True
