# /// script
# dependencies = ["humanize>=4.9,<5"]
# ///
import humanize


def size(number: int) -> str:
    """Say a number of bytes in words."""
    return humanize.naturalsize(number)
