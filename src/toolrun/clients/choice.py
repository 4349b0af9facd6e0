"""Which model is used: the one that is named, or whichever is there; and the client for it.

Knows the settings and the environment, as arguments; knows no configuration file.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolrun.clients.limits import TurnLimits
from toolrun.errors import ConfigError
from toolrun.settings import ModelSettings

if TYPE_CHECKING:
    from toolrun.clients.client import ModelClient
    from toolrun.executor import ToolExecutor

PROVIDERS: Final = ("anthropic", "ollama", "local", "scripted")
ANTHROPIC_MODEL: Final = "claude-haiku-4-5"
"""Used with an API key when no model is named: the cheapest that uses tools well."""
OLLAMA_URL: Final = "http://127.0.0.1:11434"
_PATIENCE: Final = 1.0
"""Seconds that an Ollama on this machine has to say which models it has."""
_FORMS: Final = "anthropic:MODEL, ollama:MODEL, local:FILE.gguf or scripted:FILE"
_HOW_TO_GET_ONE: Final = """\
There is no model. Any one of these will do:
- Ollama: install it from ollama.com, then `ollama pull qwen3:0.6b` and `ollama serve`; pip install 'toolrun[ollama]'
- Anthropic: set ANTHROPIC_API_KEY; pip install 'toolrun[anthropic]'
- a GGUF file: --model local:FILE.gguf; pip install 'toolrun[local]'
- no model at all: --model scripted:FILE plays a script"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider and one of its models."""

    provider: str
    model: str
    why: str
    """Where it comes from, for people."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def choose(settings: ModelSettings, environ: Mapping[str, str], named: str | None = None) -> Choice:
    """The model that was named, by a flag or in the settings, or the first that is there. Raises ConfigError."""
    if named:
        return _read(named, "--model")
    if settings.use:
        return _read(settings.use, "[model] use")
    if environ.get("ANTHROPIC_API_KEY") and _is_installed("langchain_anthropic"):
        return Choice("anthropic", ANTHROPIC_MODEL, "ANTHROPIC_API_KEY is set")
    if _is_installed("langchain_ollama"):
        url = settings.base_url or ollama_url(environ)
        models = ollama_models(url)
        if models:
            return Choice("ollama", models[0], f"Ollama runs at {url}")
    raise ConfigError(_HOW_TO_GET_ONE)


def open_client(
    choice: Choice, executor: ToolExecutor, settings: ModelSettings, environ: Mapping[str, str], root: Path
) -> ModelClient:
    """The client for a model. Raises ToolrunError with what to do if it cannot be made."""
    limits = TurnLimits(
        rounds=settings.rounds, calls=settings.calls, time=settings.time, answer_time=settings.answer_time
    )
    wording = root / settings.wording if settings.wording else None
    system = settings.system or None
    match choice.provider:
        case "anthropic":
            from toolrun.clients.anthropic import AnthropicClient

            key, url = settings.api_key or None, settings.base_url or None
            return AnthropicClient(executor, choice.model, key, url, system=system, limits=limits, wording=wording)
        case "ollama":
            from toolrun.clients.ollama import OllamaClient

            url = settings.base_url or ollama_url(environ)
            return OllamaClient(executor, choice.model, url, system=system, limits=limits, wording=wording)
        case "local":
            from toolrun.clients.local import LocalClient

            return LocalClient(executor, root / choice.model, system=system, limits=limits, wording=wording)
    from toolrun.clients.client import ModelClient
    from toolrun.testing import ScriptedModel

    model = ScriptedModel.from_file(root / choice.model)
    return ModelClient(model, executor, system=system, limits=limits, wording=wording)


def ollama_url(environ: Mapping[str, str]) -> str:
    """Where OLLAMA_HOST says that Ollama is: it may be a host, a port or a URL."""
    host = environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return OLLAMA_URL
    if "://" not in host:
        host = f"http://{host if not host.startswith(':') else f'127.0.0.1{host}'}"
    has_port = ":" in host.rpartition("@")[2].partition("://")[2].rpartition("]")[2]
    return host if has_port or not host.startswith("http://") else f"{host.rstrip('/')}:11434"


def ollama_models(url: str) -> list[str]:
    """The models that an Ollama has, the ones that were used last first; none if it cannot be reached."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/tags", timeout=_PATIENCE) as response:
            return [str(model["name"]) for model in json.load(response)["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _read(text: str, source: str) -> Choice:
    provider, _, model = text.partition(":")
    if provider not in PROVIDERS or not model:
        raise ConfigError(f"{source} is '{text}', which names no model; write {_FORMS}")
    return Choice(provider, model, source)


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None
