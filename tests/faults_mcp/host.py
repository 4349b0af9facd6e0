"""A program that uses toolrun, to be killed by a test: opens the project given, and starts the code given in a call."""

from __future__ import annotations

import asyncio
import sys

from toolrun import Runtime


async def main(configuration: str, code: str) -> None:
    async with Runtime.open(configuration) as runtime:
        await runtime.ready()
        await runtime.executor.execute("subject__run", {"code": code}, timeout=300)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
