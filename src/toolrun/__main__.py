"""`python -m toolrun`: the same program as the console script."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current directory: a module there, which a script may have written, would shadow others
    from toolrun.cli import main

    sys.exit(main())
