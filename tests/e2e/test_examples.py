"""The examples and the pages use what users can use: the public names, and no internal module."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC = {
    name: frozenset(import_module(name).__all__)
    for name in (
        "toolrun",
        "toolrun.adapters",
        "toolrun.clients",
        "toolrun.cluster",
        "toolrun.server",
        "toolrun.testing",
        "toolrun.voice",
    )
}

DOCUMENTED = {
    "toolrun.clients.dialect.for_provider",
    "toolrun.journal.journal.Journal",
    "toolrun.journal.recorder.CallRecorder",
    "toolrun.sources.catalog.declared_tool",
    "toolrun.sources.catalog.read_catalog",
    "toolrun.voice.phrases.Phrases",
    "toolrun.voice.speakable.speakable",
    "toolrun.voice.speech.grammar.default_commands",
    "toolrun.voice.speech.microphone.microphone",
    "toolrun.voice.speech.segment.Segments",
    "toolrun.voice.speech.segment.silero",
    "toolrun.voice.speech.speech_engine.sentences",
    "toolrun.voice.speech.sphinx.SphinxRecogniser",
    "toolrun.voice.speech.wav.read_wav",
}
"""Parts for programs that put something together themselves. A guide shows each of them where it is."""


def internal_imports(source: str) -> list[str]:
    """What a file imports of toolrun that is not public."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [it.name for it in node.names if _is_ours(it.name) and it.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and _is_ours(node.module):
            public = PUBLIC.get(node.module, frozenset())
            found += [f"{node.module}.{it.name}" for it in node.names if it.name not in public]
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "toolrun"


TELEMETRY = "toolrun.telemetry."
"""A package with a page to itself."""


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: str(path.relative_to(EXAMPLES).with_suffix(""))
)
def test_an_example_imports_public_names_only(path: Path) -> None:
    assert internal_imports(path.read_text(encoding="utf-8")) == []


def test_a_page_imports_public_names_and_the_parts_that_it_documents() -> None:
    blocks = [it for page in PAGES for it in re.findall(r"^```python.*?\n(.*?)^```$", page.read_text(), re.M | re.S)]
    imports = [line for it in blocks for line in re.findall(r"^\s*((?:from|import) toolrun\b.*)", it, re.M)]
    assert {name for line in imports for name in internal_imports(line) if not name.startswith(TELEMETRY)} == DOCUMENTED


@pytest.mark.parametrize(
    "line",
    [
        "import toolrun.runtime",
        "from toolrun.runtime import Runtime",
        "from toolrun import runtime",
        "from toolrun.voice import mqtt",
        "def later():\n    from toolrun.scripts.source import ScriptTool",
    ],
)
def test_an_internal_import_is_noticed(line: str) -> None:
    assert len(internal_imports(line)) == 1
