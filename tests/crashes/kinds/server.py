"""An MCP server over stdio whose one tool acts on the outside world. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from crashes.kinds.office import answer
from crashes.outside import Outside

OUTSIDE, PROMISE = Outside(Path(sys.argv[2])), sys.argv[3]

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        sys.stdout.write(json.dumps(answer(message, OUTSIDE, PROMISE, os.getppid)) + "\n")
        sys.stdout.flush()
