"""`toolrun serve --reload`: a client sees the files with tools as they are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.console import LIMIT, TOOLRUN, environment, toolrun, write_project

CODE = "from toolrun import tool\n\n@tool\ndef {name}() -> str:\n    'Answer.'\n    return {answer!r}\n"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Server:
    """`toolrun serve` on stdio, with a client of the older era."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._number = 0
        self.heard: list[str] = []
        self.ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        self.heard.append(message.get("method", ""))
        return message

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params or {}})
        while (answer := self._read()).get("id") != self._number:
            pass
        return answer["result"]

    def until_changed(self) -> list[str]:
        """The names of the tools, once the server says that they are others."""
        while self.heard[-1] != "notifications/tools/list_changed":
            self._read()
        return [it["name"] for it in self.ask("tools/list")["tools"]]

    def call(self, name: str) -> str:
        text: str = self.ask("tools/call", {"name": name, "arguments": {}})["content"][0]["text"]
        return text


def test_new_edited_and_removed_files_are_noticed_and_the_client_is_told(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    tools = project / "tools"
    tools.rmdir()  # it may appear later
    pipe = subprocess.PIPE
    command = [str(TOOLRUN), "serve", "--reload"]
    with subprocess.Popen(
        command, cwd=project, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        try:
            server = Server(process)
            tools.mkdir()
            (tools / "one.py").write_text(CODE.format(name="first", answer="1"))
            assert server.until_changed() == ["first"]
            (tools / "one.py").write_text(CODE.format(name="second", answer="2"))
            while server.until_changed() != ["second"]:  # it was told of the removal before
                pass
            assert server.call("second") == "2"
            (tools / "one.py").unlink()
            assert server.until_changed() == []
            _, noted = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "tools/one.py is new: 1 tool" in noted
    assert "tools/one.py is gone" in noted


def test_a_recording_is_not_reloaded(tmp_path: Path) -> None:
    done = toolrun("serve", "--reload", "--recording", "calls.jsonl", cwd=write_project(tmp_path))
    assert done.returncode == 2
    assert "choose either --reload or --recording" in done.stderr
