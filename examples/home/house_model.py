"""Which model the demo uses: the one that is named, the one that is there, or the stand-in."""

from __future__ import annotations

import os

from house_screen import Screen
from stand_in import NAME, make_stand_in

from toolrun import ConfigError, Runtime
from toolrun.clients import ModelClient, choose, open_client

STAND_IN = "stand-in"


def find_model(name: str, runtime: Runtime, screen: Screen, *, is_check: bool) -> ModelClient:
    """May block for seconds, to ask who is there. Raises ToolrunError if the one that is named cannot be used."""
    config = runtime.config
    if name == STAND_IN or (is_check and not name):
        return _stand_in(runtime, screen, "None is asked: a check depends on nothing else." if is_check else "")
    try:
        choice = choose(config.model, os.environ, name or None)
    except ConfigError as error:
        if name:
            raise
        return _stand_in(runtime, screen, f"{str(error).partition('. ')[0]}.")
    screen.fact("model", f"{choice} ({choice.why})", "green")
    return open_client(choice, runtime.executor, config.model, os.environ, config.root)


def _stand_in(runtime: Runtime, screen: Screen, why: str) -> ModelClient:
    screen.fact("model", f"{why} A {NAME} is used.".strip(), "yellow")
    screen.fact("", "It is no AI: it knows the demo's commands by rules, and nothing else.", "yellow")
    return ModelClient(make_stand_in(), runtime.executor, system=runtime.config.model.system)
