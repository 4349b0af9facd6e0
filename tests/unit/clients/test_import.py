"""The package is light, and says what is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

import toolrun.clients
import toolrun.testing


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_by(code: str) -> set[str]:
    printed = run(f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})")
    return set(printed.split())


def test_importing_the_package_loads_no_provider() -> None:
    heavy = {"anthropic", "httpx", "httpx2", "langchain_anthropic", "langchain_core", "langchain_ollama", "ollama"}
    assert not loaded_by("import toolrun.clients, toolrun.testing") & heavy


def test_a_client_loads_only_its_own_provider() -> None:
    assert not loaded_by("from toolrun.clients import OllamaClient") & {"anthropic", "langchain_anthropic"}
    assert not loaded_by("from toolrun.clients import AnthropicClient") & {"ollama", "langchain_ollama"}
    assert not loaded_by("from toolrun.clients import ModelClient") & {"langchain_ollama", "langchain_anthropic"}


@pytest.mark.parametrize(
    ("name", "module", "client"),
    [
        ("anthropic", "langchain_anthropic", "AnthropicClient"),
        ("ollama", "langchain_ollama", "OllamaClient"),
        ("openai", "langchain_openai", "OpenAIClient"),
        ("google", "langchain_google_genai", "GoogleClient"),
        ("local", "xllamacpp", "LocalClient"),
        ("anthropic", "langchain_core", "AnthropicClient"),
        ("ollama", "langchain_core", "OllamaClient"),
        ("langchain", "langchain_core", "ModelClient"),
        ("local", "langchain_core", "LocalClient"),
    ],
)
def test_a_missing_package_names_the_extra(name: str, module: str, client: str) -> None:
    said = run(
        f"import sys; sys.modules['{module}'] = None\n"
        f"try:\n    from toolrun.clients import {client}\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    assert said.startswith("MissingExtraError")
    assert f"pip install 'toolrun[{name}]'" in said


@pytest.mark.parametrize("package", [toolrun.clients, toolrun.testing], ids=lambda it: it.__name__)
def test_all_public_names_are_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        if name.startswith("Local") and find_spec("xllamacpp") is None:
            continue
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = package.nonsense  # type: ignore[attr-defined]
