"""Record with the real program, play in a real pytest and to a real MCP client, in a directory without a project."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from mcp_servers.rich import RESULTS
from providers.base import Asked, Step
from providers.ollama import OllamaServer
from support.brokers import BrokerProcess
from support.console import TOOLRUN, environment, run, toolrun, write_project
from support.environments import header
from support.gateway_process import open_gateway, visit
from support.raw_mcp import on_stdio, said
from support.serving import ERAS, http_client, served, text_of

SERVERS = Path(__file__).parents[1] / "mcp_servers"
FUNCTIONS = '''
    from toolrun import Content, ToolError

    open("functions.loaded", "w").close()

    @tool
    def divide(a: float, b: float) -> float:
        """Divide two numbers."""
        if b == 0:
            raise ToolError("Nobody divides by zero.")
        return a / b

    @tool
    def say(text: str) -> str:
        """Say it."""
        return text

    @tool
    def picture() -> Content:
        """A picture."""
        return Content([{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], {"width": 1})
'''
SCRIPT = '''
open("SCRIPT_LOADED", "w").close()

def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}!"
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A function, a script and an MCP server, each of which leaves a file when it is started; and two secrets."""
    root = write_project(tmp_path_factory.mktemp("project"), functions=FUNCTIONS)
    script = SCRIPT.replace("SCRIPT_LOADED", str(root / "script.loaded"))
    (root / "tools" / "greet.py").write_text(header('requires-python = ">=3.9"', "dependencies = []") + script)
    mark = f"open({str(root / 'server.loaded')!r}, 'w').close()"
    start = f"{mark}; import runpy; runpy.run_path(sys.argv[1], None, '__main__')"
    (root / "toolrun.toml").write_text(
        f"""
        [secrets]
        key = {{ env = "HOUSE_KEY" }}
        other = {{ env = "NOT_SET" }}
        [tool.divide]
        secrets = ["key"]
        [tool.picture]
        secrets = ["other"]
        [servers.zwave]
        command = "{sys.executable}"
        args = ["-c", "import sys; {start}", "{SERVERS / "devices.py"}"]
        parameters = {{ command = "action" }}
        """
    )
    return root


@pytest.fixture(scope="module")
def recording(project: Path) -> Path:
    """Calls of the three kinds of tools, recorded one after the other."""
    file = project / "recordings" / "house.jsonl"
    calls = [
        ("divide", "a=6", "b=3"),
        ("divide", "a=1", "b=0"),
        ("greet", "name=Ann"),
        ("control_zwave_device", '{"device_name": "Lamp", "command": "on"}'),
        ("control_zwave_device", "deviceName=Switch Nine"),
    ]
    for call in calls:
        done = toolrun("record", str(file), "call", *call, cwd=project, env={"HOUSE_KEY": "Hello"})
        assert "Recording calls in full into" in done.stderr
        assert "Recorded 1 call into" in done.stderr
    return file


def lines(file: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, file.read_bytes().splitlines()) if kind in line]


def played(directory: Path, test: str, file: Path, *options: str) -> tuple[int, str]:
    """pytest in a process of its own, with a test beside the recording: its exit code and output."""
    (directory / "house.jsonl").write_bytes(file.read_bytes())
    (directory / "test_house.py").write_text(dedent(test))
    done = run(
        sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", *options, cwd=directory
    )
    return done.returncode, done.stdout


@asynccontextmanager
async def client_of(*arguments: str, cwd: Path, era: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=str(TOOLRUN), args=list(arguments), cwd=cwd, env=environment())
    async with Client(parameters, mode=era) as client:
        yield client


def test_the_output_and_the_exit_code_are_those_of_the_command(project: Path, tmp_path: Path) -> None:
    file, variables = str(tmp_path / "r.jsonl"), {"HOUSE_KEY": "12345"}
    good = toolrun("record", file, "call", "divide", "a=6", "b=3", "--json", cwd=project, env=variables)
    assert (json.loads(good.stdout)["result"], good.returncode) == (2.0, 0)
    bad = toolrun("record", file, "--", "call", "divide", "a=6", "b=0", cwd=project, env=variables)
    assert (bad.stdout, bad.returncode) == ("", 1)
    unknown = toolrun("record", file, "call", "nobody", cwd=project, env=variables)
    assert unknown.returncode == 2
    assert [line["call"] for line in lines(tmp_path / "r.jsonl", "call")] == ["divide", "divide", "nobody"]


def test_secrets_are_hidden_unless_they_are_wanted(project: Path, recording: Path, tmp_path: Path) -> None:
    [greeting] = [line for line in lines(recording, "call") if line["call"] == "greet"]
    assert greeting["result"] == "*** Ann!"
    assert "Hello" not in recording.read_text()
    with_secrets = toolrun(
        "record",
        "--with-secrets",
        str(tmp_path / "r"),
        "call",
        "greet",
        "name=Ann",
        cwd=project,
        env={"HOUSE_KEY": "Hello"},
    )
    assert "with secrets" in with_secrets.stderr
    assert lines(tmp_path / "r", "call")[0]["result"] == "Hello Ann!"


def test_a_recording_is_played_by_the_fixture_without_the_tools(recording: Path, tmp_path: Path) -> None:
    code, output = played(
        tmp_path,
        """
        import pytest
        from toolrun import ErrorKind

        pytestmark = pytest.mark.recording("house.jsonl")

        def test_all(recording):
            executor = recording.executor()
            assert executor.execute_sync("divide", {"b": 3, "a": "6"}).result == 2.0
            failed = executor.execute_sync("divide", {"a": 1, "b": 0})
            assert (failed.error_kind, failed.error) == (ErrorKind.TOOL_ERROR, "Nobody divides by zero.")
            assert executor.execute_sync("greet", {"name": "Ann"}).result == "*** Ann!"
            sent = {"device_name": "Lamp", "command": "on"}
            assert '"deviceName": "Lamp"' in executor.execute_sync("control_zwave_device", sent).text
            assert not executor.execute_sync("control_zwave_device", {"deviceName": "Switch Nine"}).success
            recording.assert_all_played()

        def test_each_test_has_its_own(recording):
            assert len(recording.unplayed) == 5
        """,
        recording,
    )
    assert code == 0, output
    assert "2 passed" in output


def test_a_strict_test_fails_at_calls_that_were_not_recorded_and_a_lenient_one_does_not(
    recording: Path, tmp_path: Path
) -> None:
    code, output = played(
        tmp_path,
        """
        import pytest

        @pytest.mark.recording("house.jsonl")
        def test_strict(recording):
            recording.executor().execute_sync("greet", {"name": "Bob"})

        @pytest.mark.recording("house.jsonl", lenient=True)
        def test_lenient(recording):
            assert recording.executor().execute_sync("greet", {"name": "Bob"}).result == "*** Ann!"

        @pytest.mark.recording("house.jsonl")
        def test_unplayed(recording):
            recording.assert_all_played()
        """,
        recording,
    )
    assert code == 1
    assert 'name is "Bob", recorded "Ann"' in output
    assert "house.jsonl:" in output
    assert "5 recorded calls not played" in output
    assert "ERROR test_house.py::test_strict" in output
    assert "FAILED test_house.py::test_unplayed" in output
    assert "test_lenient" not in output


def test_an_agent_is_tested_with_a_recording(recording: Path, tmp_path: Path) -> None:
    code, output = played(
        tmp_path,
        """
        import asyncio
        import pytest
        from toolrun.clients import ModelClient
        from toolrun.result import ToolCall
        from toolrun.testing import ScriptedModel

        @pytest.mark.recording("house.jsonl")
        def test_agent(recording):
            model = ScriptedModel([ToolCall("1", "divide", {"a": 6, "b": 3}), "It is {result}."])
            reply = asyncio.run(ModelClient(model, recording.executor()).query("6 / 3?"))
            assert reply.text == "It is 2.0."
        """,
        recording,
    )
    assert code == 0, output


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("", 'needs @pytest.mark.recording("FILE"'),
        ("@pytest.mark.recording()", 'needs @pytest.mark.recording("FILE"'),
        ('@pytest.mark.recording("house.jsonl", lenint=True)', 'needs @pytest.mark.recording("FILE"'),
        ('@pytest.mark.recording("none.jsonl")', "none.jsonl cannot be read: No such file or directory"),
        ('@pytest.mark.recording("test_house.py")', "test_house.py is not a recording"),
    ],
)
def test_a_marker_that_names_no_recording_fails_the_test(
    mark: str, words: str, recording: Path, tmp_path: Path
) -> None:
    code, output = played(tmp_path, f"import pytest\n\n{mark}\ndef test_it(recording):\n    pass\n", recording)
    assert code == 1
    assert words in output


def test_the_plugin_costs_a_pytest_that_does_not_use_it_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, toolrun.testing.pytest_plugin; print(*(it for it in sys.modules if it.startswith('toolrun.')))"
    )
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    loaded = {"toolrun._lazy", "toolrun.version", "toolrun.testing", "toolrun.testing.pytest_plugin"}
    assert set(done.stdout.split()) == loaded


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_recording_is_served_in_a_directory_without_a_project(
    transport: str, era: str, recording: Path, tmp_path: Path
) -> None:
    if transport == "stdio":
        async with client_of("serve", "--recording", str(recording), cwd=tmp_path, era=era) as client:
            await use(client)
        return
    with served("--recording", str(recording), cwd=tmp_path) as server:
        async with http_client(server.url, era) as client:
            await use(client)
        assert any(line.endswith(f"; playing {recording}") for line in server.log)


async def use(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"divide", "say", "picture", "greet", "control_zwave_device", "lax_device"} == tools.keys()
    assert tools["divide"].description == "Divide two numbers."
    assert tools["divide"].input_schema["required"] == ["a", "b"]
    assert text_of(await client.call_tool("divide", {"a": "6", "b": 3})) == "2.0"
    failed = await client.call_tool("divide", {"a": 1, "b": 0})
    assert (failed.is_error, text_of(failed)) == (True, "Nobody divides by zero.")
    assert text_of(await client.call_tool("greet", {"name": "Ann"})) == "*** Ann!"
    unrecorded = await client.call_tool("greet", {"name": "Bob"})
    assert unrecorded.is_error
    assert "The nearest call is at" in text_of(unrecorded)
    assert 'name is "Bob", recorded "Ann"' in text_of(unrecorded)
    invalid = await client.call_tool("greet", {})
    assert "missing 'name'" in text_of(invalid)


async def test_lenient_serving_plays_the_calls_in_order(recording: Path, tmp_path: Path) -> None:
    async with client_of("serve", "--recording", str(recording), "--lenient", cwd=tmp_path, era=ERAS[1]) as client:
        answers: list[CallToolResult] = [await client.call_tool("divide", {"a": n, "b": 1}) for n in (7, 8, 9)]
    assert [answer.is_error for answer in answers] == [False, True, True]


async def test_serving_a_recording_starts_nothing_of_the_project(project: Path, recording: Path) -> None:
    marks = [project / f"{kind}.loaded" for kind in ("functions", "script", "server")]
    assert all(mark.exists() for mark in marks)
    for mark in marks:
        mark.unlink()
    async with client_of("serve", "--recording", str(recording), cwd=project, era=ERAS[1]) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"divide", "say", "picture", "greet", "control_zwave_device", "lax_device"}
        assert text_of(await client.call_tool("divide", {"a": 6, "b": 3})) == "2.0"  # its secret is not there
    assert not any(mark.exists() for mark in marks)


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("era", ERAS)
def test_a_client_gets_the_recorded_answers_of_a_server_as_they_were(upstream: str, era: str, tmp_path: Path) -> None:
    """The recorder is killed at the end, and has written all calls nevertheless."""
    root, elsewhere = write_project(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    settings = f'[servers.rich]\ncommand = "{sys.executable}"\nargs = ["{SERVERS / "rich.py"}", "{upstream}"]\n'
    settings += "[journal]\nenabled = false\n"  # or a refusal names its record, which playback does not have
    (root / "toolrun.toml").write_text(settings)
    names = [*RESULTS, *(("listing", "word") if upstream == "modern" else ())]
    with on_stdio(
        [str(TOOLRUN), "record", "../r.jsonl", "serve", "--config", str(root / "toolrun.toml")], elsewhere, era
    ) as real:
        tools = said(real("tools/list"))
        answers = {name: said(real("tools/call", name=name, arguments={"b": 1})) for name in names}
    with on_stdio([str(TOOLRUN), "serve", "--recording", "../r.jsonl"], elsewhere, era) as recorded:
        assert said(recorded("tools/list")) == tools
        for name in names:
            assert said(recorded("tools/call", name=name, arguments={"b": 1})) == answers[name], name


WORK = '''
    import asyncio
    from toolrun import Content, ToolContext, ToolError

    @tool
    async def work(steps: int, context: ToolContext, fails: bool = False) -> Content:
        """Work."""
        for step in range(steps):
            context.progress(step, steps, f"step {step}")
            await asyncio.sleep(0)
        if fails:
            raise ToolError("It broke.")
        blocks = [
            {"type": "text", "text": "done"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "a"}},
            {"type": "resource_link", "uri": "file:///b.txt", "name": "b"},
        ]
        return Content(blocks, {"steps": steps})
'''


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_hears_the_recorded_progress_before_the_recorded_content(era: str, tmp_path: Path) -> None:
    root = write_project(tmp_path, tools=WORK)
    (root / "toolrun.toml").write_text("[journal]\nenabled = false\n")  # or an error names its record
    calls: list[dict[str, Any]] = [{"steps": 3}, {"steps": 0}, {"steps": 2, "fails": True}, {"steps": "600"}]

    async def ask(client: Client) -> list[Any]:
        heard: list[Any] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        for arguments in calls:
            answer = await client.call_tool("work", arguments, progress_callback=hear)
            heard.append(answer.model_dump(exclude={"meta"}))
        return heard

    async with client_of("record", "r.jsonl", "serve", cwd=root, era=era) as client:
        real = await ask(client)
    async with client_of("serve", "--recording", "r.jsonl", cwd=root, era=era) as client:
        played = await ask(client)
    assert real[:3] == [(step, 3, f"step {step}") for step in range(3)]
    assert [block["type"] for block in real[3]["content"]] == ["text", "image", "resource", "resource_link"]
    assert played == real
    assert len(played) == 3 + 0 + 2 + 600 + len(calls)


async def test_what_is_said_over_mqtt_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    broker = BrokerProcess("mosquitto", tmp_path / "broker")
    root = write_project(tmp_path, tools=WORK)
    broker.start()
    try:
        with OllamaServer() as provider:
            provider.play(Step(calls=[Asked("work", {"steps": "2"})]), Step(text="Done."))
            model = f'[model]\nuse = "ollama:qwen3:0.6b"\nbase_url = "{provider.url}"\n'
            (root / "toolrun.toml").write_text(f'{model}[voice]\nmqtt = "{broker.url}"\n')
            async with visit(broker) as visitor, open_gateway(root, prefix=("record", "voice.jsonl")) as gateway:
                await visitor.is_online()
                await visitor.say("go to work", "1")
                assert (await visitor.answer("1"))["text"] == "Done."
                assert await gateway.next_answer() == "Done."
                assert await gateway.end(signal.SIGTERM) == 0
                await gateway.has_said("Recorded 1 call into voice.jsonl")
    finally:
        broker.kill()
    [call] = lines(root / "voice.jsonl", "call")
    assert (call["arguments"], call["sent"]) == ({"steps": 2}, {"steps": "2"})
    assert call["result"] == {"steps": 2}
    assert [it["progress"] for it in call["progress"]] == [0, 1]
    async with client_of("serve", "--recording", "voice.jsonl", cwd=root, era=ERAS[1]) as client:
        assert (await client.call_tool("work", {"steps": 2})).structured_content == {"steps": 2}


def test_ask_and_chat_are_recorded(tmp_path: Path) -> None:
    root = write_project(tmp_path, tools='@tool\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n')
    script = {"answer": [{"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}, {"text": "It is {result}."}]}
    (root / "script.json").write_text(json.dumps(script))
    model = ("--model", "scripted:script.json")
    asked = toolrun("record", "ask.jsonl", "ask", "2 + 3?", *model, cwd=root)
    assert (asked.stdout, asked.returncode) == ("It is 5.\n", 0)
    chatted = toolrun("record", "chat.jsonl", "chat", *model, cwd=root, stdin="2 + 3?\n")
    assert (chatted.stdout, chatted.returncode) == ("It is 5.\n", 0)
    for name in ("ask.jsonl", "chat.jsonl"):
        [call] = lines(root / name, "call")
        assert (call["arguments"], call["result"]) == ({"a": 2, "b": 3}, 5)
        assert [line["tool"] for line in lines(root / name, "tool")] == ["add"]
    assert "Recorded 1 call into chat.jsonl" in chatted.stderr


def test_a_second_recording_extends_the_first_or_overwrites_it(project: Path, tmp_path: Path) -> None:
    file, call = tmp_path / "r.jsonl", ("call", "greet", "name=Ann")
    for options, count in ((), 1), ((), 2), (("--overwrite",), 1):
        toolrun("record", *options, str(file), *call, cwd=project)
        assert len(lines(file, "call")) == count
    assert len(lines(file, "toolrun_recording")) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("record",), "missing argument 'FILE'"),
        (("record", "r.jsonl"), "missing argument"),
        (("record", "r.jsonl", "--"), "record runs call, ask, chat, voice, serve; got nothing"),
        (("record", "r.jsonl", "list"), "record runs call, ask, chat, voice, serve; got 'list'"),
        (("record", "r.jsonl", "--overwrite", "call", "x"), "options of record come before FILE"),
        (("record", "/dev/full", "call", "x"), "The recording /dev/full cannot be written: it is a device"),
        (("record", "toolrun.toml/r.jsonl", "call", "x"), "toolrun.toml/r.jsonl cannot be written: "),
        (("record", "/proc/r.jsonl", "call", "x"), "The recording /proc/r.jsonl cannot be written: "),
        (("record", "work.py", "call", "x"), "work.py is not a recording, so toolrun does not write into it"),
        (("record", "--overwrite", "work.py", "call", "x"), "work.py is not a recording"),
        (("record", "newer.jsonl", "call", "x"), "newer.jsonl:1: the recording has version 9"),
        (("serve", "--recording", "none.jsonl"), "The recording none.jsonl cannot be read: No such file or directory"),
        (("serve", "--recording", "work.py"), "work.py is not a recording: its first line"),
        (("serve", "--recording", "newer.jsonl"), "newer.jsonl:1: the recording has version 9"),
        (("serve", "--recording", "two.jsonl"), "two.jsonl:3: the input schema of the tool 'add' is not the one"),
        (("serve", "--recording", "."), "The recording . cannot be read: Is a directory"),
        (("serve", "--recording", "/dev/zero"), "The recording /dev/zero cannot be read: it is a device"),
        (("serve", "--lenient"), "--lenient is for --recording only"),
    ],
)
def test_what_cannot_be_recorded_or_played_is_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    root = write_project(tmp_path)
    (root / "work.py").write_text("print('my work')\n")
    (root / "newer.jsonl").write_text('{"toolrun_recording":9}\n')
    tool = '{"tool":"add","description":"Add.","inputSchema":%s}\n'
    (root / "two.jsonl").write_text('{"toolrun_recording":1}\n' + tool % "{}" + tool % '{"type":"object"}')
    done = toolrun(*arguments, cwd=root)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert (root / "work.py").read_text() == "print('my work')\n"


def test_a_cut_off_recording_is_told_and_served(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_bytes(recording.read_bytes()[:-20])
    done = toolrun("serve", "--recording", "cut.jsonl", cwd=tmp_path)
    assert done.returncode == 0
    assert "cut.jsonl: the last line is cut off, and is not played" in done.stderr


def test_a_disk_that_is_full_is_told_at_the_end_and_the_call_goes_on(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    assert toolrun("record", str(file), "call", "say", "text=hello", cwd=project).returncode == 0
    before = file.read_bytes()
    command = f"ulimit -f {len(before) // 1024 + 1}; exec {TOOLRUN} record {file} call say text={'x' * 2000}"
    done = run("bash", "-c", command, cwd=project)
    assert (done.stdout, done.returncode) == (f"{'x' * 2000}\n", 1)
    assert f"{file} lacks 1 line: File too large" in done.stderr
    assert file.read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_told_before_the_call(project: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = toolrun("record", str(tmp_path / "r.jsonl"), "call", "greet", "name=Ann", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written: Permission denied" in done.stderr
