"""A project on disk becomes tools that can be called."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolrun import ConfigError, ErrorKind, Observer, Runtime, SideEffects, ToolResult
from toolrun.config.model import Config, FileSettings, ToolSettings
from toolrun.journal.history import PastCall, open_history
from toolrun.tools.context import Call

Write = Callable[..., Path]

ADD = '''
from toolrun import tool

@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b
'''
SECRETS = '''
from toolrun import ToolContext, tool

@tool
async def reveal(context: ToolContext) -> dict[str, str]:
    """Show the secrets."""
    return dict(context.secrets)
'''


def entry(name: str, **implementation: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "implementation": implementation}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a file of the project. What opening it adds to the interpreter is taken back at the end."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name: str, content: Any = "") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    write("toolrun.toml")
    yield write
    for name in [name for name in sys.modules if name.startswith("toolrun_tools.")]:
        del sys.modules[name]


def names(runtime: Runtime) -> list[str]:
    return [tool.name for tool in runtime.manager]


async def test_a_project_is_opened_by_the_path_of_its_file(write: Write) -> None:
    path = write("toolrun.toml", "[executor]\ntimeout = 7\n")
    write("tools/sums.py", ADD)
    write("tools/more.json", [entry("ping", type="mock", mock_response="pong")])
    for source in (path, str(path)):
        async with Runtime.open(source) as runtime:
            assert names(runtime) == ["add", "ping"]
            assert (await runtime.executor.execute("add", {"a": "40", "b": 2})).result == 42
            assert (await runtime.executor.execute("ping")).text == "pong"
            assert (runtime.config.timeout, runtime.executor.timeout, runtime.problems) == (7, 7, [])


async def test_without_a_source_the_nearest_file_upwards_is_used(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("tools/sums.py", ADD)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    async with Runtime.open() as runtime:
        assert (runtime.config.root, names(runtime)) == (tmp_path, ["add"])


async def test_without_any_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Runtime.open() as runtime:
        assert (runtime.config.path, names(runtime), runtime.problems) == (None, [], [])


async def test_a_project_is_opened_by_a_configuration(write: Write, tmp_path: Path) -> None:
    write("elsewhere/sums.py", ADD)
    write("tools/ignored.py", ADD.replace("add", "ignored"))
    config = Config(None, tmp_path, timeout=3, files=FileSettings(python=("elsewhere/*.py",)))
    async with Runtime.open(config) as runtime:
        assert (names(runtime), runtime.executor.timeout) == (["add"], 3)


async def test_overrides_go_before_the_file(write: Write) -> None:
    path = write("toolrun.toml", "[executor]\ntimeout = 7\n")
    async with Runtime.open(path, overrides={"executor.timeout": 2}) as runtime:
        assert runtime.executor.timeout == 2


async def test_a_configuration_that_cannot_be_used_is_raised(write: Write, tmp_path: Path) -> None:
    for source in (write("toolrun.toml", "[executer]\n"), tmp_path / "none.toml"):
        with pytest.raises(ConfigError, match=str(source)):
            async with Runtime.open(source):
                pass


async def test_what_cannot_be_loaded_is_a_problem_and_the_others_load(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("tools/a_good.py", ADD)
    write("tools/b_broken.py", "import missing_module_x\n")
    write("tools/c_syntax.py", "def f(:\n")
    write("tools/d.json", [entry("good", type="mock", mock_response=1), entry("bad", type="mok")])
    write("tools/e.yaml", "- [")
    schema = {"type": "object", "properties": {"x": {"type": "whole"}}}
    write("tools/f.json", [entry("odd", type="mock", mock_response=1) | {"parameters": schema}])
    path = write("toolrun.toml")
    async with Runtime.open(path) as runtime:
        assert names(runtime) == ["add", "good"]
        found = [(problem.file.name, problem.name) for problem in runtime.problems]
        assert found == [("b_broken.py", ""), ("c_syntax.py", ""), ("d.json", "bad"), ("f.json", "odd"), ("e.yaml", "")]
        logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert logged == [str(problem) for problem in runtime.problems]
    assert "No module named 'missing_module_x' (line 1)" in logged[0]


async def test_what_is_not_a_regular_file_of_a_sensible_size_is_a_problem_and_the_others_load(
    write: Write, tmp_path: Path
) -> None:
    for name in ("pipe.py", "pipe.json", "tools.toml"):
        path = write(f"tools/{name}")
        path.unlink()
        os.mkfifo(path)
    for name in ("sparse.py", "sparse.json"):
        with write(f"tools/{name}").open("r+b") as file:
            file.truncate(8 << 30)
    (tmp_path / "tools" / "device.py").symlink_to("/dev/zero")
    (tmp_path / "tools" / "dangling.py").symlink_to("nowhere")
    (tmp_path / "tools" / "directory.py").mkdir()
    write("tools/sums.py", ADD)
    async with Runtime.open(write("toolrun.toml")) as runtime:
        assert names(runtime) == ["add"]
        assert {problem.file.name: problem.message.partition(":")[0] for problem in runtime.problems} == {
            "dangling.py": "cannot be imported",
            "device.py": "cannot be imported",
            "pipe.json": "is a named pipe, not a regular file",
            "pipe.py": "cannot be imported",
            "sparse.json": "is larger than 1,000,000 bytes",
            "sparse.py": "cannot be imported",
            "tools.toml": "is a named pipe, not a regular file",
        }
        assert "it is a named pipe, not a regular file" in next(
            problem.message for problem in runtime.problems if problem.file.name == "pipe.py"
        )


async def test_files_that_begin_with_an_underscore_or_a_dot_are_no_tools(write: Write) -> None:
    write("tools/_shared.py", "raise RuntimeError\n")
    write("tools/.hidden.py", "raise RuntimeError\n")
    write("tools/sums.py", ADD)
    async with Runtime.open(write("toolrun.toml")) as runtime:
        assert (names(runtime), runtime.problems) == (["add"], [])


async def test_a_file_may_import_the_modules_of_its_project(write: Write) -> None:
    write("helpers_of_the_project.py", "N = 5\n")
    write("tools/sums.py", f"from helpers_of_the_project import N\n{ADD}".replace("= 1", "= N"))
    async with Runtime.open(write("toolrun.toml")) as runtime:
        assert (await runtime.executor.execute("add", {"a": 1})).result == 6


async def test_a_file_whose_metadata_is_malformed_is_reported_and_never_run_here(write: Write, tmp_path: Path) -> None:
    header = "# /// script\n# dependencies = = []\n# ///\n"
    write("tools/script.py", f"{header}open({str(tmp_path / 'ran')!r}, 'w').close()\n{ADD}")
    write("tools/good.py", ADD.replace("add", "good"))
    async with Runtime.open(write("toolrun.toml")) as runtime:
        assert names(runtime) == ["good"]
        assert [problem.file.name for problem in runtime.problems] == ["script.py"]
    assert not (tmp_path / "ran").exists()


async def test_a_tool_that_is_switched_off_is_not_there(write: Write) -> None:
    write("tools/sums.py", ADD)
    write("tools/more.json", [entry("ping", type="mock", mock_response="pong")])
    path = write("toolrun.toml", "[tool.add]\nenabled = false\n")
    async with Runtime.open(path) as runtime:
        assert names(runtime) == ["ping"]
        assert (await runtime.executor.execute("add", {"a": 1})).error_kind is ErrorKind.UNKNOWN_TOOL


async def test_of_two_tools_of_one_name_the_later_wins_with_a_warning(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("tools/sums.py", ADD)
    write("tools/sums.json", [entry("add", type="mock", mock_response="declared")])
    async with Runtime.open(write("toolrun.toml")) as runtime:
        assert names(runtime) == ["add"]
        assert (await runtime.executor.execute("add")).result == "declared"
    assert "tool 'add' was registered before" in caplog.text


async def test_an_internal_service_may_be_registered_after_the_tools_are_loaded(write: Write) -> None:
    write("tools/lamps.json", [entry("lamp", type="internal", handler="lamps.switch")])
    async with Runtime.open(write("toolrun.toml")) as runtime:
        missing = await runtime.executor.execute("lamp", {"on": True})
        assert missing.error == "Internal handler 'lamps.switch' not found"

        async def switch(arguments: dict[str, Any]) -> object:
            await asyncio.sleep(0)
            return {"now": arguments}

        runtime.register_internal("lamps.switch", switch)
        result = await runtime.executor.execute("lamp", {"on": True})
        assert result.success
        runtime.register_internal("lamps.switch", lambda arguments: "replaced")
        assert (await runtime.executor.execute("lamp", {"on": True})).result == "replaced"


async def test_a_tool_gets_the_secrets_it_was_granted_and_a_missing_one_concerns_nobody_else(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_TEST", "s3cr3t-value")
    write("tools/secrets.py", SECRETS)
    write("tools/sums.py", ADD)
    path = write(
        "toolrun.toml",
        """
[secrets]
KEY = { env = "KEY_OF_THE_TEST" }
GONE = { env = "NOT_SET_ANYWHERE" }
OTHER = "not granted"
[tool.reveal]
secrets = ["KEY", "GONE"]
""",
    )
    async with Runtime.open(path) as runtime:
        refused = await runtime.executor.execute("reveal")
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
        assert refused.error == (
            "Tool 'reveal' needs the secret 'GONE', which is not set: the variable NOT_SET_ANYWHERE is not set"
        )
        assert "remove 'GONE' from the secrets of [tool.reveal]" in refused.text
        assert runtime.config.missing_secrets == {"GONE": "the variable NOT_SET_ANYWHERE is not set"}
        assert (await runtime.executor.execute("add", {"a": 1})).result == 2
    path.write_text(path.read_text().replace('"KEY", "GONE"', '"KEY"'))
    async with Runtime.open(path) as runtime:
        assert (await runtime.executor.execute("reveal")).result == {"KEY": "s3cr3t-value"}


async def test_every_call_is_logged_without_secrets_and_told_to_the_observers(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[ToolResult] = []

    class Watcher(Observer):
        def call_finished(self, call: Call, result: ToolResult) -> None:
            seen.append(result)

    write("tools/secrets.py", SECRETS)
    settings = {"reveal": ToolSettings(secrets=("KEY",))}
    config = Config(None, tmp_path, tool=settings, secrets={"KEY": "s3cr3t-value"})
    with caplog.at_level(logging.INFO, "toolrun.call"):
        async with Runtime.open(config, observers=(Watcher(),)) as runtime:
            result = await runtime.executor.execute("reveal")
    assert seen == [result]
    [line] = [record.getMessage() for record in caplog.records if record.name == "toolrun.call"]
    assert 'result={"KEY":"***"}' in line


async def test_leaving_cancels_what_still_runs_also_after_an_error(write: Write) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()
    calls: list[asyncio.Task[ToolResult]] = []

    async def hangs() -> None:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fail_while_it_hangs() -> None:
        async with Runtime.open(write("toolrun.toml")) as runtime:
            runtime.manager.add(hangs)
            calls.append(asyncio.create_task(runtime.executor.execute("hangs")))
            await asyncio.wait_for(started.wait(), 5)
            raise LookupError

    with pytest.raises(LookupError):
        await fail_while_it_hangs()
    assert cancelled.is_set()
    assert (await asyncio.wait_for(calls[0], 5)).error_kind is ErrorKind.CANCELLED


# The journal of a project.


async def recorded(root: Path, calls: Callable[[Runtime], Any], path: str = ".toolrun/journal.db") -> list[PastCall]:
    """The calls that are on record after `calls` made them, the oldest first."""
    async with Runtime.open(root / "toolrun.toml") as runtime:
        await calls(runtime)
    with open_history(root / path) as history:
        return history.calls()[::-1]


async def add_twice(runtime: Runtime) -> list[ToolResult]:
    return [await runtime.executor.execute("add", {"a": 41}, key="k") for _ in range(2)]


async def test_a_project_remembers_its_calls_where_it_says(write: Write, tmp_path: Path) -> None:
    write("tools/add.py", ADD)
    assert [call.tool for call in await recorded(tmp_path, add_twice)] == ["add"]
    write("toolrun.toml", '[journal]\npath = "elsewhere/calls.db"\n')
    assert [call.result for call in await recorded(tmp_path, add_twice, "elsewhere/calls.db")] == ["42"]


async def test_a_project_that_does_not_want_it_has_no_journal(write: Write, tmp_path: Path) -> None:
    write("tools/add.py", ADD)
    async with Runtime.open(write("toolrun.toml", "[journal]\nenabled = false\n")) as runtime:
        assert (await runtime.executor.execute("add", {"a": 1})).result == 2
        assert (runtime.journal, runtime.executor.recorder) == (None, None)
    assert not (tmp_path / ".toolrun").exists()


@pytest.mark.parametrize(("settings", "synchronous"), [("", 1), ('durability = "power"', 2)])
async def test_what_is_recorded_survives_a_power_failure_if_the_project_wants_that(
    write: Write, settings: str, synchronous: int
) -> None:
    async with Runtime.open(write("toolrun.toml", f"[journal]\n{settings}\n")) as runtime:
        assert runtime.journal is not None
        asked = runtime.journal.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0])
        assert await asyncio.wrap_future(asked) == synchronous


async def test_the_journal_keeps_what_the_project_wants_to_keep(write: Write, tmp_path: Path) -> None:
    write("tools/add.py", ADD)
    journal = '[journal]\nanswers = "none"\nmax_chars = 5\nconversations = false\n'
    write("toolrun.toml", f'{journal}[tool.add]\neffects = "once"\n')
    results: list[ToolResult] = []

    async def calls(runtime: Runtime) -> None:
        results.extend(await add_twice(runtime))
        assert runtime.journal is not None
        assert not runtime.journal.keeps_conversations

    call, repeated = await recorded(tmp_path, calls)
    assert (repeated.state, repeated.has_key) == ("refused", 0)
    assert (call.arguments, call.withheld, call.has_answer) == ('{"a":…', "cut", 0)
    assert (results[0].result, results[1].side_effects) == (42, SideEffects.DONE)
    assert "its answer was not kept" in str(results[1].error)


async def test_secrets_of_the_project_are_not_in_its_journal(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "sesame-17")
    write(
        "tools/say.py", 'from toolrun import tool\n\n@tool\ndef say(text: str) -> str:\n    "Say."\n    return text\n'
    )
    write("toolrun.toml", '[secrets]\nkey = { env = "HOUSE_KEY" }\n[tool.say]\nsecrets = ["key"]\n')

    async def calls(runtime: Runtime) -> None:
        assert (await runtime.executor.execute("say", {"text": "it is sesame-17"}, key="k")).result == "it is sesame-17"

    (call,) = await recorded(tmp_path, calls)
    assert (call.arguments, call.result, call.withheld) == ('{"text":"it is ***"}', '"it is ***"', "hidden")
    assert not any(b"sesame-17" in file.read_bytes() for file in (tmp_path / ".toolrun").iterdir())


async def test_the_variables_of_the_file_that_the_configuration_names_are_those_of_the_process(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_A_MODEL", "")  # so that it is restored
    monkeypatch.delenv("KEY_OF_A_MODEL")
    path = write("toolrun.toml", '[environment]\nfile = ".env"\n')
    (tmp_path / ".env").write_text("KEY_OF_A_MODEL=k-1\n")
    async with Runtime.open(path):
        assert os.environ["KEY_OF_A_MODEL"] == "k-1"
