"""A file of functions: it runs in the host, and so does what it imports."""

import shared

from toolrun import tool


@tool
def rooms() -> int:
    """How many rooms there are."""
    return shared.ROOMS
