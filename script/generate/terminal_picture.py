"""Draws docs/images/terminal.svg and approval.svg: real commands, run on a terminal in projects of the docs."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH = 96
LIMIT = 60.0
COMMANDS = (
    """toolrun call set_light '{"room": "Kitchen", "brightness": "40"}' -v""",
    "toolrun call set_light room=attic",
    "toolrun call photos.estimate photos=1200",
    "toolrun call photos.verify_backup --timeout 2",
)
QUESTION = 'toolrun ask "Delete the plan"'
ANSWER = "n not before Friday"
"""What is typed at the prompt of the question."""
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def run(command: str, cwd: Path, answer: str = "") -> str:
    """What the command writes to a terminal, on which somebody answers its question."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = kept | {"PATH": path, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(["bash", "-c", command], cwd=cwd, env=variables, **streams) as process:
        os.close(theirs)
        written = b""
        while select.select([ours], [], [], LIMIT)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux: EIO once nobody has the other side open
                break
            written += chunk
            if answer and written.endswith(b": "):
                os.write(ours, f"{answer}\n".encode())
                answer = ""
        process.wait(LIMIT)
    os.close(ours)
    return _last_state(written.decode().replace("\r\n", "\n"))


def _last_state(text: str) -> str:
    """Without what was on a line before it was written anew."""
    lines = [re.split(r"\r|\x1b\[\d*K|\x1b\[2K", line)[-1] for line in text.split("\n")]
    return re.sub(r"\x1b\[\?\d+[hl]", "", "\n".join(lines))


def new_console() -> Console:
    return Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")


def show(console: Console, command: str, written: str) -> None:
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(written))


def draw_commands() -> None:
    """Repaired, refused and stopped calls."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "home"
        shutil.copytree(ROOT / "examples" / "quickstart", project, ignore=shutil.ignore_patterns(".toolrun"))
        (project / "toolrun.toml").touch()
        run("toolrun sync", project)
        console = new_console()
        for command in COMMANDS:
            show(console, command, run(command, project).replace(str(project), "~/home"))
    write(console, "terminal.svg")


def draw_approval() -> None:
    """The question before a call that needs approval, in the project of the guide."""
    guide = (ROOT / "docs" / "guides" / "approvals.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "home"
        (project / "tools").mkdir(parents=True)
        for name in ("tools/notes.py", "toolrun.toml", "model.toml"):
            found = re.search(rf"```\w+[^\n]*\n(# {re.escape(name)}\n.*?)```", guide, re.DOTALL)
            assert found is not None, name
            (project / name).write_text(found[1], encoding="utf-8")
        console = new_console()
        show(console, QUESTION, run(QUESTION, project, ANSWER))
    write(console, "approval.svg")


def write(console: Console, name: str) -> None:
    picture = console.export_svg(title="toolrun")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # nothing is fetched from elsewhere
    picture = picture.replace("Fira Code, monospace", _FONT).replace("font-family: arial", f"font-family: {_FONT}")
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / name).write_text(picture, encoding="utf-8")


def main() -> None:
    """Write the pictures."""
    draw_commands()
    draw_approval()


if __name__ == "__main__":
    main()
