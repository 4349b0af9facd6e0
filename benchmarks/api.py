"""A call over the HTTP API beside a Starlette endpoint that does nothing, with the same uvicorn and the same client.

Every server is a process of its own; one is loaded at a time, in an order that is shuffled every round. The tool runs
in the process of the server; the project has a journal, as every project. CPU time is the server's own clock, and on a
busy machine the figure to look at.
usage: api.py [rounds]
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from gateway import CONNECTIONS, TOOLRUN, TOOLRUN_TOOLS, Running, free_port, load, started
from harness import Target, print_table, print_targets

SECONDS = 0.5
NOTHING = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def nothing(request):
    return JSONResponse({})

async def parsing(request):
    return JSONResponse({"result": (await request.json()).get("arguments", {}).get("payload")})

app = Starlette(routes=[Route("/nothing", nothing, methods=["POST"]), Route("/{path:path}", parsing, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def post(path: str) -> bytes:
    """A whole HTTP request."""
    body = json.dumps({"arguments": {"payload": "hello"}}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost:80\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


CASES = {
    "toolrun, API call": ("toolrun", post("/api/tools/echo_0/call")),
    "toolrun, dry run": ("toolrun", post("/api/tools/echo_0/check")),
    "Starlette, does nothing": ("starlette", post("/nothing")),
    "Starlette, reads and writes JSON": ("starlette", post("/other")),
}


@contextmanager
def running(kind: str) -> Iterator[Running]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "toolrun.toml").touch()
        (root / "tools" / "many.py").write_text(TOOLRUN_TOOLS.replace("COUNT", "10"))
        command = [TOOLRUN, "serve", "--http", str(port), "--no-token"]
        if kind == "starlette":
            command = [sys.executable, "-c", NOTHING, str(port)]
        with started(kind, command, root, port) as server:
            yield server


async def main(rounds: int) -> bool:
    with ExitStack() as stack:
        servers = {
            kind: await asyncio.to_thread(stack.enter_context, running(kind)) for kind in ("toolrun", "starlette")
        }
        rates: dict[str, list[float]] = {name: [] for name in CASES}
        cpu: dict[str, list[float]] = {name: [] for name in CASES}
        for kind, request in CASES.values():
            await load(servers[kind].port, request, 0.2, CONNECTIONS)
        shuffle = random.Random(1).shuffle
        for _ in range(rounds):
            order = list(CASES)
            shuffle(order)
            for name in order:
                server, request = servers[CASES[name][0]], CASES[name][1]
                before, start = server.clock(), time.perf_counter()
                count = await load(server.port, request, SECONDS, CONNECTIONS)
                rates[name].append(count / (time.perf_counter() - start))
                cpu[name].append((server.clock() - before) / count * 1e6)
    rows = [(name, median(cpu[name]), median(rates[name])) for name in CASES]
    print_table("HTTP API", ("request", "CPU µs", "requests/s"), rows)
    ours, theirs = "toolrun, API call", "Starlette, does nothing"
    by_rate = median(mine / other for mine, other in zip(rates[ours], rates[theirs], strict=True))
    by_cpu = median(other / mine for mine, other in zip(cpu[ours], cpu[theirs], strict=True))
    return print_targets(
        [
            Target("requests/s of a call, × an endpoint that does nothing", by_rate, 0.5, True),
            Target("the same by CPU time", by_cpu, 0.5, True),
        ]
    )


if __name__ == "__main__":
    os.environ.pop("TOOLRUN_CONFIG", None)
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)))
