"""Registering 10, 1,000 and 10,000 tools, and the cost of a call then. Each sample is a process of its own.

usage: registry.py [rounds]
"""

import json
import random
import statistics
import subprocess
import sys

from harness import Target, print_table, print_targets

PRELUDE = """
import asyncio, json, sys, time
N = int(sys.argv[1])
source = "".join(f'''
def tool_{i}(query: str, limit: int = 10, mode: str = "fast") -> str:
    \\"\\"\\"Search index {i} for a query and return the best matches.\\"\\"\\"
    return query
''' for i in range(N))
space = {}
exec(compile(source, "tools.py", "exec"), space)
functions = [space[f"tool_{i}"] for i in range(N)]
"""
CASES = {
    "toolrun": """
from toolrun import ToolManager, ToolExecutor, tool
start = time.process_time()
manager = ToolManager()
for function in functions:
    manager.add(function)
register = time.process_time() - start
executor = ToolExecutor(manager)
async def probe(query: str, limit: int = 10, mode: str = "fast") -> str:
    "Search."
    return query
manager.add(tool(name=f"tool_{N // 2}")(probe))
async def calls():
    for _ in range(2000): await executor.execute(f"tool_{N // 2}", {"query": "x"})
    start = time.process_time()
    for _ in range(20000): await executor.execute(f"tool_{N // 2}", {"query": "x"})
    return (time.process_time() - start) / 20000
import logging; logging.disable(logging.CRITICAL)
call = asyncio.run(calls())
""",
    "LangChain StructuredTool.from_function": """
from langchain_core.tools import StructuredTool
start = time.process_time()
tools = [StructuredTool.from_function(function) for function in functions]
register = time.process_time() - start
call = None
""",
}
SIZES = (10, 1000, 10_000)


def sample(code: str, size: int) -> dict[str, float]:
    program = PRELUDE + code + "\nprint(json.dumps({'register': register, 'call': call}))"
    done = subprocess.run([sys.executable, "-c", program, str(size)], capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(rounds: int) -> bool:
    jobs = [(name, size) for name in CASES for size in SIZES]
    figures: dict[tuple[str, int], list[dict[str, float]]] = {job: [] for job in jobs}
    for number in range(rounds):
        random.Random(number).shuffle(jobs)
        for name, size in jobs:
            figures[name, size].append(sample(CASES[name], size))

    def median(name: str, size: int, figure: str) -> float:
        return statistics.median(it[figure] for it in figures[name, size])

    rows = []
    for name in CASES:
        for size in SIZES:
            register = median(name, size, "register")
            call = f"{median(name, size, 'call') * 1e6:.2f}" if name == "toolrun" else "–"
            rows.append((name, size, register * 1000, register / size * 1e6, call))
    print_table("Many tools", ("registry", "tools", "register, CPU ms", "CPU µs a tool", "one call, CPU µs"), rows)
    peer = "LangChain StructuredTool.from_function"
    growth = median("toolrun", 10_000, "call") / median("toolrun", 10, "call")
    share = median("toolrun", 10_000, "register") / median(peer, 10_000, "register")
    return print_targets(
        [
            Target("registering 10,000 tools, share of LangChain's time", share, 1 / 20),
            Target("a call with 10,000 tools, × one with 10", growth, 1.15),
        ]
    )


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
