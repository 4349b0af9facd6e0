"""Chooses the model, by name or from what is available, and opens the client for it.

Knows the settings and the environment, as arguments; knows no configuration file.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolrun.clients.turn_limits import TurnLimits
from toolrun.config.model import ModelSettings
from toolrun.errors import ConfigError, MissingExtraError
from toolrun.extra import is_installed, missing
from toolrun.json import JSON

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient
    from toolrun.execution.executor import ToolExecutor

PROVIDERS: Final = ("anthropic", "openai", "google", "ollama", "local", "scripted")
ANTHROPIC_MODEL: Final = "claude-haiku-5-5"
"""The default with an API key: the smallest current model, which uses tools well."""
OLLAMA_PORT: Final = 11434
_FILE_PROVIDERS: Final = ("local", "scripted")
_OLLAMA_TIMEOUT: Final = 1.0
"""Seconds for one request to Ollama."""
_MAX_PROBED_MODELS: Final = 10
"""How many models Ollama is asked about: whether they can use tools."""
_MODEL_SYNTAX: Final = "anthropic:MODEL, openai:MODEL, google:MODEL, ollama:MODEL, local:FILE.gguf or scripted:FILE"
_SETUP_ADVICE: Final = """\
Any one of these will do:
- Ollama: install it from ollama.com, then `ollama serve` and `ollama pull qwen3:0.6b`; pip install 'toolrun[ollama]'
- Anthropic: set ANTHROPIC_API_KEY; pip install 'toolrun[anthropic]'
- OpenAI, or a server with its protocol ([model] base_url): --model openai:MODEL; pip install 'toolrun[openai]'
- Gemini: set GOOGLE_API_KEY, and --model google:MODEL; pip install 'toolrun[google]'
- a GGUF file: --model local:FILE.gguf; pip install 'toolrun[local]'
- without a model: --model scripted:FILE plays a script"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider and one of its models."""

    provider: str
    model: str
    """The provider's name for it, or the path of its file, which may be relative to the configuration file."""
    why: str
    """The reason for the choice, for people."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def choose(settings: ModelSettings, environ: Mapping[str, str], named: str | None = None) -> Choice:
    """The model named by a flag or in the settings, or the first one available. Raises ConfigError.

    May block for seconds: it asks Ollama for its models.
    """
    if named:
        return parse_model(named, "--model")
    if settings.use:
        return _parse(settings.use, "[model] use")
    hints: list[str] = []
    found = _find_anthropic(settings, environ, hints) or _find_ollama(settings, environ, hints)
    if found is None:
        reasons = "; ".join(hints)
        raise ConfigError(f"There is no model{f' ({reasons})' if reasons else ''}. {_SETUP_ADVICE}")
    return found


def parse_model(text: str, source: str) -> Choice:
    """The model in a text `provider:name`; files are relative to the current directory. Raises ConfigError."""
    choice = _parse(text, source)
    if choice.provider not in _FILE_PROVIDERS:
        return choice
    return replace(choice, model=str(Path.cwd() / Path(choice.model).expanduser()))


def _parse(text: str, source: str) -> Choice:
    provider, _, model = text.strip().partition(":")
    if provider not in PROVIDERS or not model:
        raise ConfigError(f"{source} is '{text}', which names no model; write {_MODEL_SYNTAX}")
    return Choice(provider, model, source)


def _find_anthropic(settings: ModelSettings, environ: Mapping[str, str], hints: list[str]) -> Choice | None:
    if settings.base_url:
        return None  # it may be any server, and the key must not go to just any server
    where = "[model] api_key" if settings.api_key else "ANTHROPIC_API_KEY"
    if not (settings.api_key or environ.get("ANTHROPIC_API_KEY")):
        return None
    if not is_installed("langchain_anthropic"):
        hints.append(f"{where} is set, but 'toolrun[anthropic]' is not installed")
        return None
    return Choice("anthropic", ANTHROPIC_MODEL, f"{where} is set")


def _find_ollama(settings: ModelSettings, environ: Mapping[str, str], hints: list[str]) -> Choice | None:
    url = settings.base_url or ollama_url(environ)
    models = ollama_models(url)
    if models is None:
        hints.append(f"Ollama does not run at {url}")
        return None
    if not is_installed("langchain_ollama"):
        hints.append(f"Ollama runs at {url}, but 'toolrun[ollama]' is not installed")
        return None
    able = next((model for model in models[:_MAX_PROBED_MODELS] if _can_use_tools(url, model)), None)
    if able is None:
        hints.append(f"Ollama runs at {url}, but has no model that can use tools")
        return None
    return Choice("ollama", able, f"Ollama runs at {url}")


def open_client(
    choice: Choice, executor: ToolExecutor, settings: ModelSettings, environ: Mapping[str, str], root: Path
) -> ModelClient:
    """The client for a model. Raises ToolrunError, which says what to do."""
    try:
        client = _open(choice, executor, settings, environ, root)
    except MissingExtraError:
        raise
    except ImportError as error:  # of langchain-core, which all clients need
        raise missing("langchain" if choice.provider == "scripted" else choice.provider, error) from error
    client.name = str(choice)
    return client


def _open(
    choice: Choice, executor: ToolExecutor, settings: ModelSettings, environ: Mapping[str, str], root: Path
) -> ModelClient:
    limits = TurnLimits(
        rounds=settings.rounds, calls=settings.calls, time=settings.time, answer_time=settings.answer_time
    )
    wording = root / settings.wording if settings.wording else None
    more: dict[str, Any] = {"system": settings.system or None, "limits": limits, "wording": wording}
    # The address and the key in the settings belong to the provider named there.
    is_theirs = not settings.use or settings.use.strip().partition(":")[0] == choice.provider
    url, key = (settings.base_url, settings.api_key) if is_theirs else ("", "")
    path = root / Path(choice.model).expanduser()
    match choice.provider:
        case "anthropic":
            from toolrun.clients.anthropic import AnthropicClient

            return AnthropicClient(executor, choice.model, key or None, url or None, **more)
        case "openai":
            from toolrun.clients.openai import OpenAIClient

            return OpenAIClient(executor, choice.model, key or None, url or None, **more)
        case "google":
            from toolrun.clients.google import GoogleClient

            return GoogleClient(executor, choice.model, key or None, url or None, **more)
        case "ollama":
            from toolrun.clients.ollama import OllamaClient

            return OllamaClient(executor, choice.model, url or ollama_url(environ), **more)
        case "local":
            from toolrun.clients.local.local_client import LocalClient

            return LocalClient(executor, path, **more)
    from toolrun.clients.model_client import ModelClient
    from toolrun.testing import ScriptedModel

    return ModelClient(ScriptedModel.from_file(path), executor, **more)


def ollama_url(environ: Mapping[str, str]) -> str:
    """The URL of Ollama from OLLAMA_HOST, which may be a host, a port after a colon, or a URL."""
    given = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    address = urlsplit(given if "://" in given else f"http://{given}")
    port = address.netloc.rpartition("]")[2].rpartition(":")[2] if ":" in address.netloc.rpartition("]")[2] else ""
    host = address.netloc.removesuffix(f":{port}") if port else address.netloc
    if host in ("", "0.0.0.0"):  # an address to listen on, not one to connect to
        host = "127.0.0.1"
    if not port and "://" not in given:
        port = str(OLLAMA_PORT)
    return f"{address.scheme}://{host}{f':{port}' if port else ''}{address.path}"


def ollama_models(url: str) -> list[str] | None:
    """The models of an Ollama, the most recently changed first; None if it cannot be reached."""
    answer = _ask_ollama(f"{url.rstrip('/')}/api/tags")
    models = answer.get("models") if answer is not None else None
    if not isinstance(models, list):
        return None
    return [str(model["name"]) for model in models if isinstance(model, dict) and "name" in model]


def _can_use_tools(url: str, model: str) -> bool:
    """Whether a model can use tools. Old versions of Ollama do not say: then it counts as able."""
    about = _ask_ollama(f"{url.rstrip('/')}/api/show", {"model": model}) or {}
    capabilities = about.get("capabilities", ["tools"])
    return isinstance(capabilities, list) and "tools" in capabilities


def _ask_ollama(url: str, body: Mapping[str, str] | None = None) -> dict[str, JSON] | None:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=_OLLAMA_TIMEOUT) as response:
            answer = json.load(response)
    except (OSError, ValueError, HTTPException):
        return None
    return answer if isinstance(answer, dict) else None
