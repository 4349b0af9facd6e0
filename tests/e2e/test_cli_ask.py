"""`toolrun ask`, through the real packages to provider servers, and with scripts."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from providers.anthropic import AnthropicServer
from providers.base import Asked, Step
from providers.ollama import OllamaServer
from support.console import LIMIT, TOOLRUN, on_terminal, started, toolrun, write_project

TOOLS = '''
    import sys, threading

    @tool
    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    @tool
    def pour(litres: int, password: str = "") -> None:
        """Pour water."""
        raise RuntimeError("the tank is empty")

    @tool
    def hang() -> None:
        """Never ends."""
        print("hanging", file=sys.stderr, flush=True)
        threading.Event().wait()
'''
NOBODY = {"OLLAMA_HOST": "127.0.0.1:9", "ANTHROPIC_API_KEY": ""}
STEPS = (Step(text="Let me see. ", calls=[Asked("add", {"a": 2, "b": 3})]), Step(text="It is five."))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


def ask(project: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return toolrun("ask", *arguments, cwd=project, env={**NOBODY, **env})


def write_script(project: Path, *answers: object) -> str:
    (project / "script.json").write_text(json.dumps({"answer": answers}), encoding="utf-8")
    return "scripted:script.json"


def test_an_ollama_that_is_there_is_used_and_only_the_answer_is_on_stdout(project: Path) -> None:
    with OllamaServer() as server:
        server.play(*STEPS)
        done = ask(project, "What is 2 + 3?", OLLAMA_HOST=server.url)
    assert (done.returncode, done.stdout) == (0, "It is five.\n")
    called, returned = done.stderr.splitlines()
    assert called == '  add {"a": 2, "b": 3}'
    assert returned.startswith("  add → 5 (")
    assert server.bodies[0]["model"] == "qwen3:0.6b"
    assert server.violations == []


def test_anthropic_is_used_with_the_address_the_key_and_the_system_of_the_configuration(project: Path) -> None:
    with AnthropicServer() as server:
        server.play(*STEPS)
        config = f"""
[model]
use = "anthropic:claude-haiku-5-5"
base_url = "{server.url}"
api_key = "${{MY_KEY}}"
system = "Be brief."
"""
        (project / "toolrun.toml").write_text(config)
        done = ask(project, "What is 2 + 3?", MY_KEY="a-secret-key")
        server.play(Step(text="Yes."))
        other = ask(project, "Really?", "--system", "Be long.", MY_KEY="a-secret-key")
    assert (done.returncode, done.stdout) == (0, "It is five.\n"), done.stderr
    assert (other.returncode, other.stdout) == (0, "Yes.\n"), other.stderr
    assert [body["model"] for body in server.bodies] == ["claude-haiku-5-5"] * 3
    assert "Be brief." in json.dumps(server.bodies[0]["system"])
    assert "Be long." in json.dumps(server.bodies[2]["system"])
    assert "a-secret-key" in str(server.requests[0].headers)
    assert server.violations == []


def test_json_has_text_calls_usage_and_end(project: Path) -> None:
    with OllamaServer() as server:
        server.play(*STEPS)
        done = ask(project, "What is 2 + 3?", "--model", "ollama:qwen3:0.6b", "--json", OLLAMA_HOST=server.url)
    answer = json.loads(done.stdout)
    [call] = answer.pop("calls")
    assert call.pop("execution_time_ms") >= 0
    assert call.pop("call_id")
    assert call == {
        "arguments": {"a": 2, "b": 3},
        "success": True,
        "result": 5,
        "tool_name": "add",
        "error_kind": None,
        "side_effects": None,
        "repairs": [],
        "dropped": [],
        "edited": None,
        "recorded_as": call["recorded_as"],
        "key": None,
        "replayed": False,
    }
    assert answer.pop("usage").keys() == {
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    }
    assert answer == {"text": "It is five.", "ended": "answer", "model": "ollama:qwen3:0.6b"}


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "called"),
    [
        (["Hello", "--model", "ollama:qwen3:0.6b"], 1, "ModelUnavailableError", 0),
        (["Add", "--model", "scripted:script.json"], 2, "UsageError", 1),
        (["Hello", "--model", "gpt-9"], 2, "ConfigError", 0),
        (["Hello"], 2, "ConfigError", 0),
        ([" "], 2, "UsageError", 0),
        (["Hello", "--config", "nothing.toml"], 2, "ConfigError", 0),
        (["Hello", "--model", "anthropic:claude-haiku-5-5"], 2, "ModelAuthError", 0),
    ],
)
def test_json_is_one_object_also_when_there_is_no_answer(
    project: Path, arguments: list[str], code: int, kind: str, called: int
) -> None:
    write_script(project, {"calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]})
    done = ask(project, *arguments, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == code, done.stderr
    assert answer.keys() == {"text", "calls", "usage", "ended", "model", "error"}
    assert (answer["ended"], answer["text"], len(answer["calls"])) == ("error", "", called)
    assert answer["error"]["message"].splitlines()[0] in done.stderr or kind == "UsageError"
    assert answer["error"]["kind"] == kind


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_can_be_read_whatever_the_model_says_and_the_terminal_writes(project: Path, encoding: str) -> None:
    calls = [{"name": "add", "raw": '{"a": NaN, "b": "\\ud800", "c": "é"}'}]
    model = write_script(project, {"calls": calls}, {"text": 'é "quoted"\n\x1b[31m \ud800'})
    done = ask(project, "Héllo", "--model", model, "--json", PYTHONIOENCODING=encoding)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    answer = json.loads(done.stdout, parse_constant=refuse)
    assert answer["text"] == 'é "quoted"\n\x1b[31m \ufffd'
    assert answer["calls"][0]["arguments"] == {"a": None, "b": "\ufffd", "c": "é"}


@pytest.mark.parametrize(
    ("answers", "ended", "note"),
    [
        ([{"text": "No.", "stop": "refusal"}], "refused", "refused"),
        ([{"text": "I", "stop": "content_filter"}], "filtered", "filter"),
        ([{"text": ""}, {"text": " "}], "empty", "returned an empty answer twice"),
        ([{"stop": "MALFORMED_FUNCTION_CALL"}] * 2, "malformed", "could not be read, twice"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_reply_that_is_no_answer_is_exit_code_1(
    project: Path, answers: list[object], ended: str, note: str, flags: list[str]
) -> None:
    done = ask(project, "Hello", "--model", write_script(project, *answers), *flags)
    assert done.returncode == 1
    assert note in done.stderr
    if flags:
        assert json.loads(done.stdout)["ended"] == ended
    else:
        assert done.stdout in ("", "No.\n", "I\n")


def test_on_a_terminal_the_answer_is_shown_as_it_comes_with_the_calls_in_between(project: Path) -> None:
    answers = [{"text": "Let me see.", "calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}, {"text": "Five."}]
    command = [str(TOOLRUN), "ask", "What is 2 + 3?", "--model", write_script(project, *answers)]
    code, written = on_terminal(*command, cwd=project, env={"NO_COLOR": "1"})
    said, called, returned, answer = written.splitlines()
    assert (code, said, called, answer) == (0, "Let me see.", '  add {"a": 2, "b": 3}', "Five.")
    assert returned.startswith("  add → 5 (")


def test_failures_and_secrets_of_a_call(project: Path) -> None:
    calls = [
        {"name": "pour", "arguments": {"litres": 1, "password": "hunter2"}},
        {"name": "pour", "arguments": {"litres": "many"}},
        {"name": "nothing"},
    ]
    done = ask(project, "Pour", "--model", write_script(project, {"calls": calls}, {"text": "Sorry."}))
    assert (done.returncode, done.stdout) == (0, "Sorry.\n")
    assert "  pour failed: the tank is empty (" in done.stderr
    assert "  pour was not run: Invalid parameters" in done.stderr
    assert "  nothing was not run: Tool 'nothing' not found" in done.stderr
    assert "hunter2" not in done.stderr


def test_a_limit_is_told(project: Path) -> None:
    (project / "toolrun.toml").write_text("[model]\nrounds = 1\n")
    call = {"calls": [{"name": "add", "arguments": {"a": 1, "b": 1}}]}
    done = ask(project, "Go on", "--model", write_script(project, call, {"text": "Two, so far."}))
    assert (done.returncode, done.stdout) == (0, "Two, so far.\n")
    assert "reached its limit on rounds ([model] rounds)" in done.stderr


def test_the_question_can_come_from_stdin(project: Path) -> None:
    model = write_script(project, {"text": "You said: {question}"})
    done = toolrun("ask", "-", "--model", model, cwd=project, stdin="one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "You said: one\ntwo\n")
    empty = toolrun("ask", "-", "--model", model, cwd=project, stdin=" \n")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "the question is empty" in empty.stderr


def test_ctrl_c_ends_it(project: Path) -> None:
    model = write_script(project, {"calls": [{"name": "hang"}]})
    with started("ask", "Wait", "--model", model, cwd=project) as process:
        assert process.stderr is not None
        while process.stderr.readline() != "hanging\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (130, "")
    [call] = json.loads(toolrun("effects", "--json", cwd=project).stdout)
    assert stderr.splitlines()[-2] == "toolrun: interrupted"
    assert stderr.splitlines()[-1].startswith(f"Call {call['id']} of 'hang' may have acted.")


def test_a_model_that_gives_no_answer_is_one_line_and_exit_code_1(project: Path) -> None:
    done = ask(project, "Hello", "--model", "ollama:qwen3:0.6b")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("toolrun: Ollama at http://127.0.0.1:9 cannot be reached")
    assert "ollama serve" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("gpt-9", "--model is 'gpt-9', which names no model"),
        ("scripted:nothing.toml", "nothing.toml cannot be read"),
        ("anthropic:claude-haiku-5-5", "There is no API key for Anthropic."),
    ],
)
def test_a_model_that_cannot_be_used_is_exit_code_2(model: str, reason: str, project: Path) -> None:
    done = ask(project, "Hello", "--model", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_without_a_model_it_says_how_to_get_one(project: Path) -> None:
    done = ask(project, "Hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "toolrun: There is no model (Ollama does not run at http://127.0.0.1:9)." in done.stderr
