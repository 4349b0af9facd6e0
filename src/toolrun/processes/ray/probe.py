"""Whether the head of a cluster lets somebody in: run as a program of its own, since Ray's token is that of a process.

usage: probe.py ADDRESS, with Ray's variables in the environment. Writes one word to standard output: `in`, `refused`,
or `error` and a reason.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # Ray prints
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # it is compiled
    from ray.exceptions import AuthenticationError

    try:
        GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)
        word = "in"
    except AuthenticationError:
        word = "refused"
    except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
        word = f"error {type(error).__name__}: {error}".replace("\n", " ")
    os.write(answers, word.encode() + b"\n")
    os._exit(0)  # without the wait of Ray's threads


if __name__ == "__main__":
    main()
