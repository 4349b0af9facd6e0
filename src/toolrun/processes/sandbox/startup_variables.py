"""Variables that make a program run files before its walls are up, and so wait until they are.

`PYTHONPATH`, `LD_LIBRARY_PATH` and their like are harmless where they lead to places that no script writes. One that
leads into the project would let a script put a module there which the interpreter of the next worker imports first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from toolrun.processes.sandbox.policy import Policy, is_below

_NAMES: Final = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "LOCPATH"),
    }
)
_SEPARATOR: Final = re.compile(r"[:\s]")


def split_variables(
    variables: Mapping[str, str], policy: Policy, directory: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """The variables to start a process with, and those that it gets behind its walls. It starts in `directory`."""
    places = [str(path) for path in (*policy.exposed, *policy.write)]
    late = {
        name: value
        for name, value in variables.items()
        if name in _NAMES and any(_leads_to(part, directory, places) for part in _SEPARATOR.split(value))
    }
    return {name: value for name, value in variables.items() if name not in late}, late


def _leads_to(part: str, directory: Path, places: list[str]) -> bool:
    """Whether one of the paths in a variable, where an empty one is the working directory, is in these places."""
    named = os.path.normpath(directory / part)
    return any(is_below(path, place) for path in (named, os.path.realpath(named)) for place in places)
