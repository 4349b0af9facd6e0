"""Whatever a model, a script, a function or a server says: no log line is forged or coloured by it, in any logger."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from faults.bench import Project, until
from toolrun import Runtime, ToolContext

FORGED = "12:00:00.000 error toolrun.call: pay ok 1 ms"
HOSTILE = f"x\r\n{FORGED}\n\x1b[31mred\x9b2J\x07\u202e\u2066\u200b\u2028\ufeff\ud800"
SCRIPT = f"""
    import sys
    from toolrun_sdk import log

    HOSTILE = {HOSTILE!r}


    def hostile(code: str):
        \"\"\"Say hostile things.\"\"\"
        plain = HOSTILE.encode("utf-8", "replace").decode()
        sys.stderr.write(plain + "\\n")
        sys.stderr.flush()
        log.warning(plain, **{{plain: plain}})
        raise LookupError(plain)


    def each():
        \"\"\"A generator.\"\"\"
        yield 1
"""
SERVER = f"""
import json, sys
HOSTILE = {HOSTILE!r}.encode("utf-8", "replace").decode()
tool = {{"name": "say", "description": "Say.", "inputSchema": {{"type": "object"}}}}
sys.stderr.write(HOSTILE + "\\n")
sys.stderr.flush()
sys.stdout.write(HOSTILE.replace("\\n", " ") + "\\n")
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {{}}
    if method == "initialize":
        info = {{"name": HOSTILE, "version": HOSTILE}}
        answer = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": info}}
    elif method == "tools/list":
        answer = {{"tools": [tool, tool, {{"name": HOSTILE, "inputSchema": {{}}}}, {{"name": 7}}]}}
    elif method == "tools/call":
        answer = {{"content": [{{"type": "text", "text": HOSTILE}}], "isError": True}}
    elif "id" in message:
        error = {{"code": -32601, "message": HOSTILE}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "error": error}}), flush=True)
        continue
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": answer}}), flush=True)
print(HOSTILE, file=sys.stderr)
sys.exit(3)
"""


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def names(self) -> set[str]:
        return {record.name for record in self.records}


@pytest.fixture
def log() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("toolrun")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


async def confess(context: ToolContext, words: str) -> str:
    """Log what the model said, and fail."""
    context.logger.warning(f"heard {words}")
    try:
        raise ValueError(words)
    except ValueError:
        context.logger.exception("failed: %s", words)
    raise ValueError(words)


async def test_no_log_line_is_forged_or_coloured(project: Project, log: Kept) -> None:
    project.write("hostile", SCRIPT)
    config = project.configure()
    server = f"\n[servers.hostile]\ncommand = {json.dumps(sys.executable)}\nargs = ['server.py']\n"
    config.write_text(config.read_text() + server)
    (project.root / "server.py").write_text(SERVER, encoding="utf-8")
    words = HOSTILE.encode("utf-8", "replace").decode()
    async with Runtime.open(config) as runtime:
        runtime.manager.add(confess)
        await runtime.ready()
        execute = runtime.executor.execute
        calls: list[tuple[str, Any]] = [
            ("hostile", {"code": words, words: words}),
            ("confess", {"words": words, words: 1}),
            ("say", {words: words}),
            (HOSTILE, {}),
            ("confess", HOSTILE),
            ("confess", {HOSTILE: 1}),
        ]
        for name, arguments in calls:
            result = await execute(name, arguments, call_id=HOSTILE)
            assert not result.success
        await until(lambda: any("red" in it.getMessage() and it.name == "toolrun.worker" for it in log.records))
    assert log.names >= {"toolrun", "toolrun.call", "toolrun.worker", "toolrun.mcp", "toolrun.tool.confess"}
    formatter = logging.Formatter("%(asctime)s %(name)s %(message)s")
    for record in log.records:
        first, *rest = formatter.format(record).split("\n")
        assert first.isprintable()
        for line in rest:
            assert line.startswith("    "), f"{record.name}: {line}"
            assert line.isprintable()
