# /// script
# dependencies = []
# ///
"""A script: it runs in workers of its own."""


def sums(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b
