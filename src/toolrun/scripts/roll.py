"""Rolling replacement: on a cluster, the workers of an edited script are replaced one by one, so that calls find some.

On one machine a new worker is there in a moment, and the next call has the new version. A replica on a node takes
seconds, or as long as its new environment, and the old ones hold what the new ones have to reserve. So one of the old
version ends with its last call, then one of the new version starts in its place, until half of them are new. Then the
calls go to these, and the others follow. No two versions answer side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from toolrun.scripts.pool import Pool

_LAST_CALL: Final = 10.0
"""Seconds that the last call of a worker is waited for before the next one starts all the same."""


async def roll(old: Pool, new: Pool, use_new: Callable[[], object]) -> None:
    """`use_new` is called once, when the calls are to go to the new pool; it retires the old one.

    Sooner than described if a worker of the new version cannot be started: its callers are told why.
    """
    count = len(old.ready)
    old.freeze()
    for _ in range((count + 1) // 2):
        workers = old.ready
        if not workers:  # they were lost meanwhile
            break
        worker = min(workers, key=lambda it: it.load)
        old.replace(worker)
        await asyncio.wait([worker.gone], timeout=_LAST_CALL)
        if not await new.start_worker():
            break
    use_new()
    while len(new.ready) < count and await new.start_worker():
        pass
