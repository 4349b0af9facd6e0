"""Whether the head of a cluster lets somebody in: run as a program of its own, since Ray's token is that of a process.

usage: probe.py ADDRESS, with Ray's variables in the environment. Writes one word to standard output: `in`; `elsewhere`,
which is in, but this machine is no node of the cluster; `refused`; `missing`, if there is no token to show; or `error`
and a reason.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolrun.cluster.inspection import is_own_address


def _has_token() -> bool:
    """Without the one that its variables demand, Ray ends the process with a stack trace."""
    variables = os.environ
    if variables.get("RAY_AUTH_MODE", "").lower() != "token" or variables.get("RAY_AUTH_TOKEN"):
        return True
    path = variables.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token"
    try:
        return bool(Path(path).expanduser().read_bytes().strip())
    except OSError:
        return False


def main() -> None:
    answers = os.dup(1)
    if not _has_token():
        os.write(answers, b"missing\n")
        return
    os.dup2(2, 1)  # Ray prints
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # it is compiled
    from ray.exceptions import AuthenticationError

    try:
        nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10).values()
        is_node = any(it.state == 0 and is_own_address(it.node_manager_address) for it in nodes)
        word = "in" if is_node else "elsewhere"
    except AuthenticationError:
        word = "refused"
    except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
        word = f"error {type(error).__name__}: {error}".replace("\n", " ")
    os.write(answers, word.encode() + b"\n")
    os._exit(0)  # without the wait of Ray's threads


if __name__ == "__main__":
    main()
