# /// script
# requires-python = ">=3.9"
# dependencies = []
#
# [tool.toolrun]
# concurrency = 4
# ///
"""A tool that says which machine it ran on."""

import asyncio
import socket


async def counting(number: int) -> dict:
    """Double a number, slowly, and say where."""
    await asyncio.sleep(0.02)
    return {"number": 2 * number, "node": _address()}


def _address() -> str:
    """This machine's, in the network of the cluster."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        try:
            it.connect(("10.77.0.254", 9))  # sends nothing
        except OSError:  # there is no way to it
            return "127.0.0.1"
        return it.getsockname()[0]
