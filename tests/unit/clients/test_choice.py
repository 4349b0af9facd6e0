"""Which model is used, with a real server in the place of Ollama."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from providers.base import Exchange
from providers.ollama import OllamaServer
from toolrun import ToolExecutor
from toolrun.clients import AnthropicClient, OllamaClient
from toolrun.clients.choice import ANTHROPIC_MODEL, Choice, choose, ollama_models, ollama_url, open_client, parse_model
from toolrun.config.model import ModelSettings
from toolrun.errors import ConfigError

NOBODY = "http://127.0.0.1:9"
ALONE = {"OLLAMA_HOST": NOBODY}


class Picky(OllamaServer):
    """An Ollama whose first models cannot use tools."""

    able: tuple[str, ...] = ()
    answer_to_tags: bytes | None = None

    def _answer_question(self, exchange: Exchange) -> None:
        if exchange.path == "/api/show":
            tools = ["tools"] if exchange.body["model"] in self.able else []
            exchange.send_json({"capabilities": ["completion", *tools]})
        elif self.answer_to_tags is not None:
            exchange.send_bytes(self.answer_to_tags)
        else:
            super()._answer_question(exchange)


@pytest.fixture
def ollama() -> Iterator[Picky]:
    with Picky(("embedder", "qwen3:0.6b", "big")) as server:
        server.able = ("qwen3:0.6b", "big")
        yield server


def test_the_flag_goes_before_the_settings_and_those_before_what_is_there(ollama: Picky) -> None:
    settings, environ = ModelSettings(use="ollama:qwen3:4b"), {"ANTHROPIC_API_KEY": "k", "OLLAMA_HOST": ollama.url}
    assert choose(settings, environ, "anthropic:claude-x") == Choice("anthropic", "claude-x", "--model")
    assert choose(settings, environ) == Choice("ollama", "qwen3:4b", "[model] use")
    assert choose(ModelSettings(), environ) == Choice("anthropic", ANTHROPIC_MODEL, "ANTHROPIC_API_KEY is set")
    del environ["ANTHROPIC_API_KEY"]
    assert choose(ModelSettings(), environ) == Choice("ollama", "qwen3:0.6b", f"Ollama runs at {ollama.url}")


def test_the_default_of_anthropic_is_a_model_that_its_package_knows() -> None:
    from langchain_anthropic import ChatAnthropic

    profile = ChatAnthropic(model=ANTHROPIC_MODEL, api_key=SecretStr("k")).profile  # type: ignore[call-arg]
    assert profile is not None
    assert profile.get("tool_calling")


def test_a_key_is_not_sent_to_an_address_that_may_be_somebody_elses(ollama: Picky) -> None:
    found = choose(ModelSettings(base_url=ollama.url), {"ANTHROPIC_API_KEY": "k", **ALONE})
    assert found.provider == "ollama"


async def test_address_and_key_of_the_settings_are_for_their_own_provider(
    executor: ToolExecutor, tmp_path: Path
) -> None:
    settings = ModelSettings(use="anthropic:a", base_url="http://127.0.0.1:1", api_key="secret")
    own = open_client(Choice("anthropic", "a", ""), executor, settings, ALONE, tmp_path)
    assert isinstance(own, AnthropicClient)
    assert own.about.address == "http://127.0.0.1:1"
    other = open_client(Choice("ollama", "b", ""), executor, settings, ALONE, tmp_path)
    assert isinstance(other, OllamaClient)
    assert other.about.address == NOBODY


@pytest.mark.parametrize("text", ["qwen3", "nobody:model", "ollama:", "", ":"])
def test_what_names_no_model_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ConfigError, match=r"names no model; write anthropic:MODEL, openai:MODEL, google:MODEL"):
        parse_model(text, "--model")


def test_files_of_a_flag_are_relative_to_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose(ModelSettings(), {}, "scripted:a.toml").model == str(tmp_path / "a.toml")
    assert choose(ModelSettings(use="scripted:a.toml"), {}).model == "a.toml"


async def test_files_of_the_settings_are_relative_to_the_project(executor: ToolExecutor, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[answer]]\ntext = "hello"\n')
    settings = ModelSettings(use="scripted:a.toml", system="Be brief.")
    client = open_client(choose(settings, {}), executor, settings, {}, tmp_path)
    assert (await client.query("hi")).text == "hello"
    assert client.sent([])[0].text == "Be brief."


def test_without_a_model_it_says_why_and_how_to_get_one(ollama: Picky) -> None:
    with pytest.raises(ConfigError, match=r"(?s)Ollama does not run at http://127.0.0.1:9.*`ollama pull"):
        choose(ModelSettings(), ALONE)
    ollama.able = ()
    with pytest.raises(ConfigError, match="has no model that can use tools"):
        choose(ModelSettings(), {"OLLAMA_HOST": ollama.url})


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"models": 3}', b"\xff"])
def test_another_service_at_the_address_is_no_ollama(answer: bytes, ollama: Picky) -> None:
    ollama.answer_to_tags = answer
    assert ollama_models(ollama.url) is None


def test_the_models_of_an_ollama(ollama: Picky) -> None:
    assert ollama_models(ollama.url) == ["embedder", "qwen3:0.6b", "big"]
    assert ollama_models(f"{ollama.url}/") == ["embedder", "qwen3:0.6b", "big"]
    assert ollama_models("no url") is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        (":8000", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("http://box:8000/", "http://box:8000"),
        ("https://box/ollama", "https://box/ollama"),
        ("https://me:pw@box:8000", "https://me:pw@box:8000"),
    ],
)
def test_ollama_host_in_all_its_forms(host: str, url: str) -> None:
    assert ollama_url({"OLLAMA_HOST": host}) == url


@pytest.mark.parametrize(
    ("provider", "advice"),
    [
        ("ollama", "pip install 'toolrun[ollama]'"),
        ("anthropic", "pip install 'toolrun[anthropic]'"),
        ("openai", "pip install 'toolrun[openai]'"),
        ("google", "pip install 'toolrun[google]'"),
        ("local", "pip install 'toolrun[local]'"),
        ("scripted", "pip install 'toolrun[langchain]'"),
    ],
)
def test_without_any_packages_it_says_what_to_install(provider: str, advice: str) -> None:
    code = (
        "import sys; sys.modules['langchain_core'] = None\n"
        "from pathlib import Path\n"
        "from toolrun.clients.choice import Choice, open_client\n"
        "from toolrun.errors import UsageError\n"
        "from toolrun.config.model import ModelSettings\n"
        f"try:\n    open_client(Choice({provider!r}, 'm', ''), None, ModelSettings(), {{}}, Path())\n"
        "except UsageError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert advice in done.stdout, done.stderr


def test_a_key_without_the_package_is_a_hint() -> None:
    code = (
        "import sys; sys.modules['langchain_anthropic'] = None\n"
        "from toolrun.clients.choice import choose\n"
        "from toolrun.errors import ConfigError\n"
        "from toolrun.config.model import ModelSettings\n"
        f"try:\n    choose(ModelSettings(), {{'ANTHROPIC_API_KEY': 'k', 'OLLAMA_HOST': {NOBODY!r}}})\n"
        "except ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ANTHROPIC_API_KEY is set, but 'toolrun[anthropic]' is not installed" in done.stdout, done.stderr
