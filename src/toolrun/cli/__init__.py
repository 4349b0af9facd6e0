"""The command line. `main` is the console script `toolrun`."""

from toolrun.cli.program import main

__all__ = ["main"]
