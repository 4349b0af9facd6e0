"""A tool of the voice gateway, and a real Qwen model that is asked about it where there is one."""

from __future__ import annotations

import json
import os
import urllib.request
from contextlib import closing
from typing import Any

from langchain_core.messages import AIMessage
from langchain_ollama import ChatOllama

from providers.offered import ServerTool
from toolrun.clients.dialect import to_qwen

MODEL = "qwen3:0.6b"
SWITCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "deviceName": {"type": "string", "description": "The name of the device."},
        "action": {"type": "string", "enum": ["on", "off"], "description": "What to do with it."},
    },
    "required": ["deviceName", "action"],
}


def switch() -> ServerTool:
    return ServerTool("control_switch", "Switch a device on or off.", SWITCH, lc_name="zwave__control_switch")


def ask(url: str, question: str) -> AIMessage:
    """What the model says to a question, with the tool offered."""
    model = ChatOllama(base_url=url, model=MODEL, temperature=0)
    with closing(model._client):
        return model.bind_tools(to_qwen([switch()])).invoke(question)


def real_server() -> str | None:
    """The address of an Ollama server that has the model, if there is one: `OLLAMA_HOST`, or on this machine."""
    host = os.environ.get("OLLAMA_HOST") or "127.0.0.1:11434"
    url = host if "://" in host else f"http://{host}"
    try:
        with urllib.request.urlopen(f"{url}/api/tags", timeout=2) as answer:
            models = json.load(answer)["models"]
    except (OSError, ValueError, KeyError):
        return None
    return url if any(it["name"] == MODEL for it in models) else None


def prove_with_a_model(url: str) -> None:
    """It can say what the tool is for, and calls it with the names of its parameters."""
    described = ask(url, "Which tools do you have, and what for? Answer in one sentence, call none.")
    assert "switch" in str(described.content).lower()
    called = ask(url, "Turn on the device that is called Lamp.")
    assert [it["name"] for it in called.tool_calls] == ["zwave__control_switch"]
    assert called.tool_calls[0]["args"].keys() == {"deviceName", "action"}
