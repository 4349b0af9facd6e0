"""`python -m toolrun`: the same program as the console script."""

from __future__ import annotations

import sys

from toolrun.cli import main

if __name__ == "__main__":
    sys.exit(main())
