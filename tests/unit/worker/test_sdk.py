"""What scripts may import, in a worker and on their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worker_process import LIMIT, PYTHON, WORKER, WorkerProcess, worker_of, write_script

SCRIPT = """
    import threading
    from toolrun_sdk import config, idempotency_key, log, progress, secrets

    def read(name: str):
        return [config.get("url"), "url" in config, len(config), list(config), secrets[name]]

    def write():
        config["url"] = 1

    def shown():
        return [repr(config), repr(secrets)]

    def speak(message: str):
        log.debug(message)
        log.info(message, message=message, n=1, thing=object)
        log.warning(7)
        log.error("a\\nb")

    def work(steps: int):
        for step in range(steps):
            progress(step, steps, f"step {step}")
        progress(1.5)
        return "done"

    def in_thread():
        found = []
        def look():
            found.append(dict(config))
            progress(1)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return found

    def lazy():
        import toolrun_sdk
        return dict(toolrun_sdk.config)

    def key():
        found = [idempotency_key()]
        thread = threading.Thread(target=lambda: found.append(idempotency_key()))
        thread.start()
        thread.join()
        return found + [idempotency_key()]

    if __name__ == "__main__":
        assert len({idempotency_key() for _ in range(3)}) == 3
        speak("hello")
        print(work(2), dict(config), dict(secrets), shown())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SCRIPT)


@pytest.fixture
def worker(script: Path) -> Iterator[WorkerProcess]:
    with worker_of(script) as worker:
        yield worker


def test_the_idempotency_key_is_that_of_the_request_also_in_a_thread(worker: WorkerProcess) -> None:
    for key in ("5f0c", "a1b2"):
        worker.request(1, "key", key=key)
        assert worker.answer()["result"] == [key] * 3


def test_a_host_that_sends_no_key_gets_calls_with_one_each(worker: WorkerProcess) -> None:
    keys = []
    for number in range(2):
        worker.request(number, "key")
        keys += worker.answer()["result"]
    assert (len(keys), len(set(keys)), {len(key) for key in keys}) == (6, 2, {32})


def test_config_and_secrets_are_those_of_the_request(worker: WorkerProcess) -> None:
    for url in ("http://a", "http://b"):
        worker.request(1, "read", kwargs={"name": "key"}, config={"url": url}, secrets={"key": "s3cret"})
        assert worker.answer()["result"] == [url, True, 1, ["url"], "s3cret"]


def test_a_thread_of_the_tool_sees_the_running_call(worker: WorkerProcess) -> None:
    worker.request(1, "in_thread", config={"url": "here"})
    assert worker.receive() == {"id": 1, "progress": {"progress": 1, "total": None, "message": ""}}
    assert worker.answer()["result"] == [{"url": "here"}]


def test_the_module_may_be_imported_while_a_call_runs(worker: WorkerProcess) -> None:
    worker.request(1, "lazy", config={"url": "here"})
    assert worker.answer()["result"] == {"url": "here"}


def test_a_secret_that_was_not_granted_is_an_error_that_says_what_to_do(worker: WorkerProcess) -> None:
    worker.request(1, "read", kwargs={"name": "key"})
    raised, message = worker.failure()
    assert "builtins.KeyError" in raised
    assert message == (
        "'key' was not granted: declare it in [tool.toolrun] of the script, and grant it in toolrun.toml"
    )


def test_they_cannot_be_written_and_do_not_show_their_values(worker: WorkerProcess) -> None:
    worker.request(1, "write")
    assert worker.failure()[0][0] == "builtins.TypeError"
    worker.request(2, "shown", config={"url": "x"}, secrets={"a": "hidden", "b": "hidden"})
    assert worker.answer()["result"] == ["<config: url>", "<secrets: a, b>"]


def test_log_records_are_json_lines(worker: WorkerProcess) -> None:
    worker.request(5, "speak", kwargs={"message": "hel\nlo"})
    assert worker.answer()["result"] is None
    fields = {"message": "hel\nlo", "n": 1, "thing": "<class 'object'>"}
    assert [json.loads(line) for line in worker.end()[1].splitlines()] == [
        {"level": "debug", "message": "hel\nlo", "fields": {}, "call": 5},
        {"level": "info", "message": "hel\nlo", "fields": fields, "call": 5},
        {"level": "warning", "message": "7", "fields": {}, "call": 5},
        {"level": "error", "message": "a\nb", "fields": {}, "call": 5},
    ]


def test_progress_comes_before_the_answer(worker: WorkerProcess) -> None:
    worker.request(5, "work", kwargs={"steps": 2})
    assert [worker.receive()["progress"] for _ in range(3)] == [
        {"progress": 0, "total": 2, "message": "step 0"},
        {"progress": 1, "total": 2, "message": "step 1"},
        {"progress": 1.5, "total": None, "message": ""},
    ]
    assert worker.answer() == {"id": 5, "result": "done", "error": None}


def test_a_script_that_runs_on_its_own_can_use_all_of_it(script: Path) -> None:
    program = subprocess.run(
        [PYTHON, str(script)], env={"PYTHONPATH": str(WORKER / "sdk")}, capture_output=True, text=True, timeout=LIMIT
    )
    assert program.stdout == "done {} {} ['<config: empty>', '<secrets: empty>']\n"
    assert program.stderr.startswith("DEBUG hello\nINFO hello message='hello' n=1 thing=<class 'object'>\nWARNING 7\n")
