"""Where toolrun keeps what it can make again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrun.config.model import WorkerSettings


def cache_directory(workers: WorkerSettings, root: Path) -> Path:
    """The directory that [workers] `cache` names, relative to the configuration; else the platform's for toolrun."""
    if workers.cache:
        return root / Path(workers.cache).expanduser()
    from platformdirs import user_cache_path  # not for programs that keep nothing

    return user_cache_path("toolrun", appauthor=False)
