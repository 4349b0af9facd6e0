"""What is said when something fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun import ErrorKind, ToolResult
from toolrun.clients import model_error
from toolrun.clients.model_error import ModelError, ModelTimeoutError, ModelUnavailableError
from toolrun.errors import ConfigError
from toolrun.voice.phrases import Phrases
from toolrun.voice.speakable import speakable


def failed(kind: ErrorKind, tool: str = "control_zwave_device") -> ToolResult:
    return ToolResult(tool, error="[Errno 111] at 10.0.0.1:1883", error_kind=kind)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "phrases.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_of_error_has_a_sentence_without_the_message(kind: ErrorKind) -> None:
    words = Phrases.load().for_tool(failed(kind))
    assert words.endswith(".")
    assert "{" not in words
    assert "Errno" not in words
    assert speakable(words) == words


def test_each_kind_has_a_sentence_of_its_own() -> None:
    phrases = Phrases.load()
    assert len({phrases.for_tool(failed(kind)) for kind in ErrorKind}) == len(ErrorKind)
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT)) == "The smart home system is taking too long to respond."
    assert phrases.for_tool(failed(ErrorKind.UNAVAILABLE, "search_web")) == (
        "The web search cannot be reached at the moment."
    )


def test_a_call_that_succeeded_needs_no_words() -> None:
    assert Phrases.load().for_tool(ToolResult("x", result=1)) == ""


def test_every_error_of_a_model_has_a_sentence() -> None:
    phrases = Phrases.load()
    kinds = [it for it in vars(model_error).values() if isinstance(it, type) and issubclass(it, ModelError)]
    concrete = [kind for kind in kinds if kind is not ModelError]
    said = {phrases.for_model(kind("secret detail")) for kind in concrete}
    assert len(said) == len(concrete) >= 8
    assert phrases.unexpected not in said
    assert phrases.for_model(ConfigError("x")) == phrases.unexpected == phrases.for_model(ModelError("x"))


def test_an_error_that_is_more_special_is_said_as_its_kind() -> None:
    class Slow(ModelTimeoutError):
        pass

    assert Phrases.load().for_model(Slow("x")) == "My language model is taking too long to respond."


def test_a_file_of_ones_own_replaces_single_sentences(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'busy = "Moment!"\n[tool]\ntimeout = "{system} schläft."\n[model]\nunavailable = "Kein Modell."\n'
        '[systems]\n"control_*" = "Das Haus"\n',
    )
    phrases = Phrases.load(path)
    assert phrases.busy == "Moment!"
    assert phrases.not_understood == Phrases.load().not_understood
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT)) == "Das Haus schläft."
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT, "search_web")) == "The web search schläft."
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT, "control_speaker_volume")) == "Das Haus schläft."
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT, "other")) == "The smart home system schläft."
    assert phrases.for_model(ModelUnavailableError("x")) == "Kein Modell."


def test_the_file_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "voice.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```toml\n")[1:]]
    [text] = [block for block in blocks if "not_understood" in block]
    phrases = Phrases.load(write(tmp_path, text))
    assert phrases.not_understood == "Pardon?"
    assert phrases.for_tool(failed(ErrorKind.TIMEOUT)) == "The house is slow today."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('bussy = "x"', "unknown key 'bussy'; did you mean 'busy'?"),
        ('[tool]\ntimeuot = "x"', "unknown key 'timeuot' in [tool]; did you mean 'timeout'?"),
        ("busy = 5", "busy must be a sentence, got 5"),
        ('[model]\nauth = " "', "[model] auth must be a sentence"),
        ("tool = 5", "unknown key 'tool'"),
        ("busy = ", "line 1"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        Phrases.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)
