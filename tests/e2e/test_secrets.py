"""A secret that was granted to a tool is seen by the tool and by nobody else, whatever the tool does with it.

Each way in which a text gets out of a worker, in each form, is looked for in all that a model, a client, a person or a
file gets to see.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from mcp import Client

from support.console import CACHE, toolrun
from support.environments import header
from support.serving import ERAS, http_client, served, stdio_client
from toolrun import Runtime, ToolCall
from toolrun.clients import ModelClient
from toolrun.testing import Said, ScriptedModel
from toolrun.tools.context import Progress

SECRET = 'canary/Zx81 "kQv7"+Lm3&wT9-ü\\end'
FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda text: json.dumps({"key": text}),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a login": lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
    "base64 of more": lambda text: base64.b64encode(f"me:{text}\n".encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"?>{text}".encode()).decode().rstrip("="),
    "URL": quote,
    "query": quote_plus,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}
WAYS = (
    *("result", "data", "name", "large", "blocks", "exception", "chained", "own words", "arguments"),
    *("print", "stderr", "warning", "log", "field", "last output", "rubbish", "progress"),
)
SCRIPT = r'''
import base64, fcntl, json, os, sys, warnings
from pathlib import Path
from urllib.parse import quote, quote_plus

from toolrun_sdk import ToolError, log, progress, secrets


def _protocol() -> int:
    for entry in Path("/proc/self/fd").iterdir():
        if int(entry.name) > 2 and os.readlink(entry).startswith("pipe:"):
            if fcntl.fcntl(int(entry.name), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                return int(entry.name)
    raise LookupError


FORMS = {
    "plain": str,
    "json": lambda text: json.dumps({"key": text}),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a login": lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
    "base64 of more": lambda text: base64.b64encode(f"me:{text}\n".encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"?>{text}".encode()).decode().rstrip("="),
    "URL": quote,
    "query": quote_plus,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}


def leak(way: str, form: str) -> object:
    """Give the secret away."""
    text = FORMS[form](secrets["KEY"])
    if way == "result":
        return f"it is {text}!"
    if way == "data":
        return {"deep": [{"down": [f"it is {text}"]}, 1, None], "other": "kept"}
    if way == "name":
        return {f"it is {text}": 1}
    if way == "large":
        return [f"{number} {'x' * 1000}" for number in range(600)] + [f"it is {text}"]
    if way == "blocks":
        return [{"type": "text", "text": f"it is {text}"}]
    if way == "exception":
        raise ValueError(f"no: {text}")
    if way == "chained":
        try:
            raise LookupError(f"first {text}")
        except LookupError as error:
            raise RuntimeError(f"then {text}") from error
    if way == "own words":
        raise ToolError(f"the service refused {text}")
    if way == "arguments":
        raise ConnectionError(13, text)
    if way == "print":
        print("it is", text)
    if way == "stderr":
        os.write(2, f"{'x' * 8170} {text}\n".encode())
        os.write(2, f"it is {text}\n".encode())
    if way == "warning":
        warnings.warn(f"it is {text}", stacklevel=1)
    if way == "log":
        log.warning(f"it is {text}")
    if way == "field":
        log.error("a field", token=text, nested={"a": [text]})
    if way == "last output":
        os.write(2, f"dying of {text}\n".encode())
        os._exit(3)
    if way == "rubbish":
        os.write(_protocol(), f"{'r' * 180} {text}\n".encode())
        os.write(_protocol(), f"rubbish {text}\n".encode())
        import time
        time.sleep(60)
    if way == "progress":
        progress(1, 2, f"it is {text}")
    return "nothing"
'''


def _parts(text: str) -> set[str]:
    """Pieces of what must not be seen, each long enough to be no coincidence."""
    return {text[at : at + 10] for at in range(0, len(text) - 9)}


TRACES = {trace for form in FORMS.values() for trace in _parts(form(SECRET))} - _parts('{"key": "')


def traces_in(text: str) -> list[str]:
    """What a text gives away of the secret. Escapes do not hide it."""
    return [trace for trace in TRACES if trace in text or trace in text.replace("\\\\", "\\").replace('\\"', '"')]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "tools").mkdir()
    lines = ('requires-python = ">=3.9"', "dependencies = []", "[tool.toolrun]", 'secrets = ["KEY"]')
    (root / "tools" / "leak.py").write_text(header(*lines) + SCRIPT)
    (root / "key").write_text(SECRET)
    (root / "toolrun.toml").write_text(
        f'[secrets]\nKEY = {{ file = "key" }}\n[tool.leak]\nsecrets = ["KEY"]\n'
        f'[workers]\ncache = "{CACHE}"\n[log]\nlevel = "debug"\n[journal]\nanswers = "all"\n'
    )
    return root


def journal_bytes(project: Path) -> str:
    files = [file for file in (project / ".toolrun").rglob("*") if file.is_file()]
    assert files, "there is a journal"
    return "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)


def everything_in(record: logging.LogRecord) -> str:
    return f"{logging.Formatter('%(message)s').format(record)}\n{vars(record)!r}"


@pytest.mark.parametrize("way", WAYS)
async def test_neither_a_model_nor_a_log_nor_the_journal_sees_a_granted_secret(
    project: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Progress] = []
    caplog.set_level(logging.DEBUG)
    # One for each form where workers die: toolrun lets a script rest whose workers keep dying.
    rounds = [[form] for form in FORMS] if way in ("last output", "rubbish") else [list(FORMS)]
    for forms in rounds:
        async with Runtime.open(project / "toolrun.toml") as runtime:
            for form in forms:
                asked = {"way": way, "form": form}
                model = ScriptedModel(script=[Said(calls=[ToolCall("1", "leak", asked)]), "Done."])
                await ModelClient(model, runtime.executor).query("Do it.")
                seen = "\n".join(repr(message) for request in model.requests for message in request)
                assert "ToolMessage" in seen
                assert not traces_in(seen), (form, seen)
                result = await runtime.executor.execute("leak", asked, on_progress=told.append, key=f"{way} {form}")
                shown = f"{result.text}\n{result.to_dict(full=True)}\n{result.error}\n{result.detail}\n{result.content}"
                assert not traces_in(shown), (form, shown)
                for record in caplog.records:
                    assert not traces_in(everything_in(record)), (form, record)
                caplog.clear()
    assert not traces_in(repr(told))
    assert len(told) == (len(FORMS) if way == "progress" else 0)
    assert not traces_in(journal_bytes(project))


async def test_the_program_that_calls_gets_what_the_tool_returned(project: Path) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        text = await runtime.executor.execute("leak", {"way": "result", "form": "plain"})
        assert (text.result, text.shown, text.text) == (f"it is {SECRET}!", "it is ***!", "it is ***!")
        data = await runtime.executor.execute("leak", {"way": "data", "form": "hex"})
        assert data.result == {"deep": [{"down": [f"it is {SECRET.encode().hex()}"]}, 1, None], "other": "kept"}
        assert data.shown == {"deep": [{"down": ["it is ***"]}, 1, None], "other": "kept"}
        large = await runtime.executor.execute("leak", {"way": "large", "form": "plain"})
        assert isinstance(large.result, list)
        assert isinstance(large.shown, list)
        assert (large.result[-1], large.shown[-1]) == (f"it is {SECRET}", "it is ***")
        assert large.result[:-1] == large.shown[:-1]


async def ask_all(client: Client, ways: tuple[str, ...]) -> list[str]:
    told: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(str(message))

    for way in ways:
        for form in FORMS:
            answer: Any = await client.call_tool("leak", {"way": way, "form": form}, progress_callback=on_progress)
            told.append(answer.model_dump_json())
    return told


@pytest.mark.parametrize("era", ERAS)
async def test_no_client_sees_a_granted_secret_over_a_pipe(project: Path, era: str) -> None:
    async with stdio_client(project, era) as client:
        told = await ask_all(client, WAYS)
    assert len(told) >= len(WAYS) * len(FORMS)
    assert [text for text in told if traces_in(text)] == []


@pytest.mark.parametrize("era", ERAS)
async def test_no_client_sees_a_granted_secret_over_http_nor_does_the_log_of_the_server(
    project: Path, era: str
) -> None:
    with served(cwd=project) as server:
        async with http_client(server.url, era) as client:
            told = await ask_all(client, WAYS)
        server.process.terminate()
        await asyncio.to_thread(server.end)
    assert [text for text in told if traces_in(text)] == []
    assert any("dying of ***" in line for line in server.log)
    assert [line for line in server.log if traces_in(line)] == []


@pytest.mark.parametrize("way", WAYS)
def test_the_command_line_does_not_show_a_granted_secret(project: Path, way: str) -> None:
    done = toolrun("-v", "call", "leak", f"way={way}", "form=plain", "--json", cwd=project)
    assert json.loads(done.stdout)["tool_name"] == "leak"
    assert not traces_in(done.stdout)
    assert not traces_in(done.stderr)
    plain = toolrun("call", "leak", f"way={way}", "form=URL", cwd=project)
    assert not traces_in(plain.stdout + plain.stderr)
