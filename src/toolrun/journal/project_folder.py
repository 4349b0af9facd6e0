"""The folder `.toolrun` of a project, in which toolrun keeps what it remembers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from toolrun.config.ownership import PROJECT_FOLDER


def make_private_folder(folder: Path) -> None:
    """Only the owner may look into it, and no repository picks it up. A folder of the user stays as it is."""
    is_ours = folder.name == PROJECT_FOLDER
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_ours = True
    if is_ours and not (folder / ".gitignore").exists():  # somebody may have made the folder before
        with suppress(OSError):  # it is another user's
            folder.chmod(0o700)
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
