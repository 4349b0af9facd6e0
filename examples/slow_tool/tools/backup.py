# /// script
# dependencies = []
# [tool.toolrun]
# timeout = 30
# secrets = ["BACKUP_KEY"]
# ///
import time

from toolrun_sdk import progress, secrets


def backup(parts: int) -> str:
    """Send a backup, part by part."""
    for part in range(parts):
        progress(part, parts, f"part {part + 1}")
        time.sleep(0.1)
    return f"{parts} parts sent with the key {secrets['BACKUP_KEY']}"
