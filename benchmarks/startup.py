"""What importing toolrun and starting its command line cost, against `python -c pass`. Fresh processes, interleaved.

usage: startup.py [rounds]
"""

import random
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from harness import Target, print_table, print_targets

PEAK = "print(int(open('/proc/self/status').read().split('VmRSS:')[1].split()[0]))"
ALL = "import toolrun; [getattr(toolrun, name) for name in toolrun.__all__]"
CLI = str(Path(sys.executable).with_name("toolrun"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import toolrun": [sys.executable, "-c", "import toolrun"],
    "every public name of toolrun": [sys.executable, "-c", ALL],
    "toolrun --help": [CLI, "--help"],
    "toolrun --version": [CLI, "--version"],
    "import langchain_core.tools": [sys.executable, "-c", "from langchain_core.tools import StructuredTool"],
    "import fastmcp": [sys.executable, "-c", "from fastmcp import FastMCP"],
    "import pydantic_ai": [sys.executable, "-c", "import pydantic_ai"],
    "import agents": [sys.executable, "-c", "import agents"],
}


def cpu_of(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def resident(statement: str) -> float:
    """MiB of resident memory after a statement."""
    done = subprocess.run([sys.executable, "-c", f"{statement}\n{PEAK}"], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def main(rounds: int) -> bool:
    figures: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        cpu_of(command)  # compiled and in the page cache
    for number in range(rounds):
        names = list(COMMANDS)
        random.Random(number).shuffle(names)
        for name in names:
            figures[name].append(cpu_of(COMMANDS[name]))
    base = figures["python -c pass"]

    def times(name: str) -> float:
        return statistics.median(figures[name]) / statistics.median(base)

    rows = [(name, statistics.median(figures[name]) * 1000, times(name)) for name in COMMANDS]
    print_table("Start-up, whole process", ("command", "CPU ms", "× python -c pass"), rows)
    memory = resident(ALL)
    print(f"\nResident memory with every public name imported: {memory:.1f} MiB (python alone: {resident('pass'):.1f})")
    return print_targets(
        [
            Target("every public name, × python -c pass", times("every public name of toolrun"), 9),
            Target("every public name, MiB", memory, 25),
            Target("toolrun --help, × python -c pass", times("toolrun --help"), 5),
            Target("toolrun --version, × python -c pass", times("toolrun --version"), 5),
        ]
    )


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
