"""What the head of a cluster says of it, as a program of its own: `toolrun doctor` does not import Ray.

usage: inspection.py ADDRESS, with Ray's variables in the environment. Writes one line of JSON to standard output:

    {"python": "3.11.7", "ray": "2.60.0", "own_python": …, "own_ray": …,
     "nodes": [{"address": …, "is_alive": …, "is_here": …, "resources": …}, …]}

or {"error": "…"}. `inspect_cluster` runs it.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from importlib import import_module
from typing import Any, Final

_LIMIT: Final = 30.0


def inspect_cluster(address: str) -> dict[str, Any]:
    """What the program below says. Never raises: an `error` says why there is nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", __file__, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {_LIMIT:g} seconds"}
    except (OSError, ValueError) as error:
        return {"error": f"the inspection failed: {error}"}
    return found


def _look(address: str) -> dict[str, Any]:
    import ray
    from ray._common.usage.usage_lib import get_cluster_metadata

    client = import_module("ray._raylet").GcsClient(address=address)  # which has no types
    nodes = client.get_all_node_info(timeout=10).values()
    versions = get_cluster_metadata(client) or {}
    return {
        "python": versions.get("python_version"),
        "ray": versions.get("ray_version"),
        "own_python": platform.python_version(),
        "own_ray": ray.__version__,
        "nodes": [
            {
                "address": it.node_manager_address,
                "is_alive": it.state == 0,
                "is_here": is_own_address(it.node_manager_address),
                "resources": dict(it.resources_total),
            }
            for it in nodes
        ],
    }


def is_own_address(address: str) -> bool:
    """Whether an address is one of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as it:
        try:
            it.bind((address, 0))  # sends nothing
        except OSError:
            return False
    return True


def main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # Ray prints
    try:
        found = _look(sys.argv[1])
    except Exception as error:  # noqa: BLE001  Ray's own errors have no common base
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    os.write(answers, json.dumps(found).encode())
    os._exit(0)  # without the wait of Ray's threads


if __name__ == "__main__":
    main()
