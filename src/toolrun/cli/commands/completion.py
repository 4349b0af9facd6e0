"""`toolrun completion`: prints what lets a shell complete commands and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from toolrun.cli.options import shared_options
from toolrun.cli.output import claim_stdout

_SCRIPTS: Final = Path(__file__).parents[1] / "completions"
_FILES: Final = {"bash": "bash.sh", "zsh": "zsh.sh", "fish": "fish.fish"}


@click.command(name="completion")
@click.argument("shell", type=click.Choice(list(_FILES)))
@shared_options()
def command(shell: str) -> None:
    """Print what lets SHELL complete commands, options, tools, parameters and values.

    \b
      bash: eval "$(toolrun completion bash)"     in ~/.bashrc
      zsh:  eval "$(toolrun completion zsh)"      in ~/.zshrc, after compinit
      fish: toolrun completion fish | source      in ~/.config/fish/config.fish

    Completing starts no server and imports no file: tools are known from the last command that loaded them, and from
    the text of files that have changed since.
    """
    claim_stdout().text((_SCRIPTS / _FILES[shell]).read_text(encoding="utf-8").rstrip("\n"))
