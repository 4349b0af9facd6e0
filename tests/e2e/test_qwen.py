"""A real Qwen model. It runs where Ollama does and `ollama pull qwen3:0.6b` was done; CI has neither."""

from __future__ import annotations

import pytest

from providers.qwen import MODEL, prove_with_a_model, real_server


def test_a_real_model_describes_the_tool_and_calls_it() -> None:
    url = real_server()
    if url is None:
        pytest.skip(f"no Ollama server with {MODEL} is reachable (OLLAMA_HOST)")
    prove_with_a_model(url)
