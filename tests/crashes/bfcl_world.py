"""The worlds of BFCL's multi-turn tasks (file systems, bookings, orders, tickets, …) in a process of their own.

Run with an interpreter that has `bfcl-eval`, never by toolrun. Serves JSON lines on a Unix socket, one connection after
the other, so what it was asked first happens first. It remembers which keys have acted, and it can be told to strike:
just before or just after a call happens, it kills who has sent it, kills that process's parent, or hangs up.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import os
import random
import signal
import socket
import struct
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_CHECKER = "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
_CONSTANTS = "bfcl_eval.constants.executable_backend_config"


@cache
def tasks() -> list[dict[str, Any]]:
    package = importlib.import_module("bfcl_eval").__file__
    data = Path(package or "").parent / "data"
    file = "BFCL_v4_multi_turn_base.json"
    asked = [json.loads(line) for line in (data / file).read_text().splitlines()]
    gold = [json.loads(line) for line in (data / "possible_answer" / file).read_text().splitlines()]
    by_id = {it["id"]: it["ground_truth"] for it in gold}
    return [{**it, "gold": [call for turn in by_id[it["id"]] for call in turn]} for it in asked]


class World:
    """The objects of one task."""

    def __init__(self, task: dict[str, Any]) -> None:
        constants = importlib.import_module(_CONSTANTS)
        self.instances: dict[str, Any] = {}
        for name in task["involved_classes"]:
            made = getattr(importlib.import_module(constants.CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in constants.STATELESS_CLASSES:
                made._load_scenario(copy.deepcopy(task["initial_config"].get(name, {})), long_context=False)
            self.instances[name] = made
        self.acted: dict[str, Any] = {}
        """What the calls returned, by their keys."""
        self.calls = 0
        self.keys: list[str] = []
        """In the order in which they came, which is that of the gold calls."""
        self.strikes: dict[int, tuple[str, str]] = {}

    def methods(self) -> dict[str, Any]:
        found = {}
        for instance in self.instances.values():
            for name, method in inspect.getmembers(instance, predicate=inspect.ismethod):
                if not name.startswith("_"):
                    found[name] = method
        return found

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls += 1
        try:
            result = self.methods()[name](**arguments)
        except Exception as error:  # noqa: BLE001  as BFCL does: an error is an answer
            result = f"Error during execution: {error}"
        return json.loads(json.dumps(result, default=str))


def read_call(world: World, text: str) -> tuple[str, dict[str, Any]]:
    """`sort('a.txt')` as a name and arguments by name."""
    tree = ast.parse(text.strip(), mode="eval").body
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    names = list(inspect.signature(world.methods()[tree.func.id]).parameters)
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, tree.args, strict=False)}
    arguments |= {str(it.arg): ast.literal_eval(it.value) for it in tree.keywords}
    return tree.func.id, arguments


class Server:
    def __init__(self) -> None:
        self.worlds: dict[int, World] = {}

    def answer(self, request: dict[str, Any], peer: int) -> Any:
        """What to say; ConnectionResetError to hang up."""
        number = request.get("task", 0)
        match request["ask"]:
            case "tasks":
                return len(tasks())
            case "load":
                world = self.worlds[number] = World(tasks()[number])
                world.strikes = {index: (point, action) for index, point, action in request["strikes"]}
                return [read_call(world, text) for text in tasks()[number]["gold"]]
            case "tools":
                return sorted(World(tasks()[number]).methods())
            case "call":
                return self._call(self.worlds[number], request, peer)
            case "has acted":
                acted = self.worlds[number].acted
                return {"acted": request["key"] in acted, "result": acted.get(request["key"])}
            case "judge":
                return self._judge(number)
        raise ValueError(request)

    def _call(self, world: World, request: dict[str, Any], peer: int) -> Any:
        if request["key"] not in world.keys:
            world.keys.append(request["key"])
        point, action = world.strikes.pop(world.keys.index(request["key"]), ("", ""))
        if point == "before":
            _strike(action, peer)
        world.acted[request["key"]] = result = world.call(request["name"], request["arguments"])
        if point == "after":
            _strike(action, peer)
        return result

    def _judge(self, number: int) -> dict[str, Any]:
        """Compare with a world in which every call happened once, as BFCL itself compares."""
        world, gold = self.worlds.pop(number), World(tasks()[number])
        results = [gold.call(*read_call(gold, text)) for text in tasks()[number]["gold"]]
        verdict = importlib.import_module(_CHECKER).state_checker(world.instances, gold.instances)
        return {"is_right": verdict["valid"], "calls": world.calls, "results": results, "unmet": len(world.strikes)}


def _strike(action: str, peer: int) -> None:
    victims = {"kill peer": peer, "kill parent": _parent(peer)}
    if action in victims:
        os.kill(victims[action], signal.SIGKILL)
    raise ConnectionResetError


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main(path: str) -> None:
    random.seed(0)
    server = Server()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                peer = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                line = connection.makefile("rb").readline()
                if line:
                    connection.sendall(json.dumps(server.answer(json.loads(line), peer)).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
