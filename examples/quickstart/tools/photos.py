# /// script
# dependencies = ["humanize>=4.9,<5"]
#
# [tool.toolrun]
# timeout = 10             # seconds; then the process is killed, with everything that it started
# ///
"""The photos of the household: a script. It has a package of its own, and runs in a process of its own."""

import subprocess

import humanize
from toolrun_sdk import log


def estimate(photos: int, megapixels: float = 12) -> str:
    """Estimate the space that photos take.

    Args:
        photos: How many there are.
        megapixels: The resolution of the camera.
    """
    log.info("estimating", photos=photos)
    return humanize.naturalsize(photos * megapixels * 350_000)


def verify_backup() -> str:
    """Check that every photo is in the backup."""
    # The disk is asleep: this hangs in the program that it starts. `[tool."photos.verify_backup"]` has the time limit.
    subprocess.run(["sleep", "600"], check=True)
    return "All photos are there."
