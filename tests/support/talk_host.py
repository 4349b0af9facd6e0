"""Talks with a model in processes that a test can let die: one line of JSON is one process, its answer one line.

    {"project": …, "provider": "ollama", "url": …, "question": … or null, "die": ["before" | "after", n] or null}
    {"signal": 9}, or what the process said: {"text": …, "calls": {id: [text, error kind]}} or {"error": …}

Each is forked from a process that has imported everything, so that they start at once. `die` kills it before or after
the n-th transaction of its journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolrun import Runtime, ToolExecutor, UsageError
from toolrun.clients import AnthropicClient, ModelClient, OllamaClient
from toolrun.journal.writer import Item, Writer


def die_at(when: str, number: int) -> None:
    write, count = Writer._write, 0

    def counted(self: Writer, batch: Sequence[Item]) -> None:
        nonlocal count
        count += 1
        if (when, number) == ("before", count):
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, batch)
        if (when, number) == ("after", count):
            os.kill(os.getpid(), signal.SIGKILL)

    Writer._write = counted  # type: ignore[method-assign]


def make_client(executor: ToolExecutor, order: dict[str, Any]) -> ModelClient:
    if order["provider"] == "anthropic":
        return AnthropicClient(executor, "claude-sonnet-5-5", "key", order["url"], max_retries=0)
    return OllamaClient(executor, "qwen3:0.6b", order["url"])


async def talk(order: dict[str, Any]) -> dict[str, Any]:
    async with Runtime.open(Path(order["project"]) / "toolrun.toml", consumer="test") as runtime:
        client = make_client(runtime.executor, order)
        try:
            if order["question"] is None:
                reply = await client.resume("talk")
            else:
                reply = await client.query(order["question"], conversation="talk")
        except UsageError as error:
            return {"error": str(error)}
        calls = {it.call.id: [it.result.text, str(it.result.error_kind or "")] for it in reply.calls}
        return {"text": reply.text, "calls": calls}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if order["die"] is not None:
                    die_at(*order["die"])
                os.chdir(order["project"])
                said = json.dumps(asyncio.run(talk(order)))
                os.write(writing, said.encode())
            except BaseException:  # noqa: BLE001  nothing may come back into the parent's loop
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"signal": os.WTERMSIG(status)}) if os.WIFSIGNALED(status) else said, flush=True)


if __name__ == "__main__":
    main()
