"""Servers that cannot be started, or do not begin to speak: the others work, and they are tried again."""

from __future__ import annotations

import asyncio
import os
import sys
from textwrap import dedent

import pytest

from faults.bench import LIMIT, TAG, until
from faults_mcp.bench import Servers
from toolrun import ErrorKind, Runtime

NEVER = "time.sleep(300)"


@pytest.mark.parametrize(
    ("at_start", "words"),
    [
        ("sys.exit('the bridge is missing')", "it ended with exit code 1"),
        ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL"),
        (NEVER, "it was not ready within 0.5 s"),
        ("os.close(1); time.sleep(300)", "it was not ready within 0.5 s"),
        ("write(b'Starting...\\n' * 1000); time.sleep(300)", "it was not ready within 0.5 s"),
    ],
    ids=["exits", "killed", "never answers", "closes stdout", "only rubbish"],
)
async def test_a_server_that_does_not_start_costs_only_its_own_tools(
    servers: Servers, at_start: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    servers.add("subject", start_timeout=0.5)
    servers.at_start("subject", at_start)
    async with servers.open() as tools:
        assert words in tools.server().error
        assert f"failed after 3 attempts: {words}" in caplog.text
        async with tools.bystander():
            result = await tools.call("subject__run", code="")
        assert result.error_kind is ErrorKind.UNKNOWN_TOOL

        servers.at_start("subject", "")
        await tools.has("subject__run")
        assert "run" in tools.runtime.manager  # which has been the name of the other server's tool all the time
        await tools.works()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": "no-such-program"}, "its program 'no-such-program' was not found on the PATH"),
        ({"command": "./no-such-program"}, "its program './no-such-program' was not found"),
        ({"command": sys.executable, "cwd": "nowhere"}, "nowhere' does not exist; correct 'cwd'"),
    ],
)
async def test_a_program_that_is_not_there(servers: Servers, settings: dict[str, str], words: str) -> None:
    servers.put("subject", **settings)
    async with servers.open() as tools:
        assert words in tools.server().error
        await tools.works("run")  # the bystander has the name for itself


async def test_a_program_that_may_not_be_run(servers: Servers) -> None:
    (servers.root / "server.sh").write_text("#!/no/such/interpreter\n")
    (servers.root / "server.sh").chmod(0o755)
    servers.put("subject", command="./server.sh")
    async with servers.open() as tools:
        assert "'./server.sh' cannot be started" in tools.server().error


async def test_nothing_waits_for_a_slow_server_but_calls_of_its_tools(servers: Servers) -> None:
    gate = servers.root / "gate"
    servers.at_start("subject", f"while not Path({str(gate)!r}).exists(): time.sleep(0.005)")
    async with Runtime.open(servers.configure()) as runtime:
        slow = asyncio.create_task(runtime.executor.execute("subject__run", {"code": ""}))
        await until(lambda: "run" in runtime.manager, "the tools of the other server")
        assert (await runtime.executor.execute("run", {"code": ""})).success
        assert not slow.done()
        gate.touch()
        async with asyncio.timeout(LIMIT):
            result = await slow
        assert result.result == str(servers.starts()[0])


async def test_a_call_does_not_wait_for_a_server_beyond_its_deadline(servers: Servers) -> None:
    servers.at_start("subject", NEVER)
    async with Runtime.open(servers.configure()) as runtime:
        result = await runtime.executor.execute("subject__run", {"code": ""}, timeout=0.05)
        assert result.error_kind is ErrorKind.UNKNOWN_TOOL


async def test_an_unknown_tool_waits_only_for_servers_that_may_have_it(servers: Servers) -> None:
    servers.at_start("subject", NEVER)
    servers.add("subject", start_timeout=600)
    servers.add("sub", start_timeout=600)
    servers.at_start("sub", NEVER)

    async with Runtime.open(servers.configure()) as runtime:
        await until(lambda: "run" in runtime.manager, "the tools of the other server")

        def awaited(tool: str) -> list[str]:
            return [it.name for it in runtime.awaited(tool)]

        assert awaited("subject__run") == ["subject"]
        assert awaited("sub__ject__run") == ["sub"]
        assert awaited("bystander__other") == []
        assert awaited("run") == []
        assert awaited("walk") == ["subject", "sub"]
        assert awaited("subject_run") == ["subject", "sub"]
        async with asyncio.timeout(LIMIT):
            result = await runtime.executor.execute("bystander__other", timeout=100 * LIMIT)
        assert result.error_kind is ErrorKind.UNKNOWN_TOOL
        assert "'subject' (still connecting); 'sub' (still connecting)" in result.detail


async def test_an_unknown_tool_waits_for_one_start_of_a_server_and_not_for_all_its_attempts(servers: Servers) -> None:
    servers.at_start("subject", NEVER)
    servers.add("subject", start_timeout=0.3)
    async with Runtime.open(servers.configure(delays=[0, 600])) as runtime:
        async with asyncio.timeout(LIMIT):
            for name in ("walk", "subject__run"):
                result = await runtime.executor.execute(name, timeout=100 * LIMIT)
                assert result.error_kind is ErrorKind.UNKNOWN_TOOL
        assert "'subject' (still connecting" in result.detail
        assert runtime.awaited("subject__run") == []


async def test_a_server_gets_a_clean_environment(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    monkeypatch.setenv("LC_TIME", "C")
    servers.add("subject", env={"OWN": "1"})
    async with servers.open() as tools:
        result = await tools.run("answer = json.dumps(sorted(os.environ))")
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE"} & set(os.environ)
    allowed |= {name for name in os.environ if name.startswith("LC_")}
    assert set(eval(str(result.result))) - {"LC_CTYPE"} == (  # which Python sets for itself
        allowed | {"OWN", TAG, "TOOLRUN_WORKER", "TOOLRUN_LABEL"}
    ) - {"LC_CTYPE"}


async def test_a_server_that_dies_of_the_question_for_its_era_is_not_asked_again(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        _answer = answer
        def answer(message):
            if message["method"] == "server/discover":
                sys.exit("what is that?")
            _answer(message)
        """,
    )
    async with servers.open() as tools:
        await tools.works()
        assert tools.server().version == "2025-11-25"
    assert servers.methods().count("server/discover") == 1


IGNORES = """
    _answer = answer
    def answer(message):
        if message["method"] != "server/discover":
            _answer(message)
"""


async def test_nothing_waits_for_a_server_that_ignores_the_question_for_its_era(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.mcp.client.supervisor._PATIENCE", 100 * LIMIT)
    servers.at_start("subject", IGNORES)
    servers.add("subject", start_timeout=600)
    async with servers.open() as tools:
        await tools.works()
        assert tools.server().version == "2025-11-25"
        await tools.run("os._exit(1)")
        await tools.works()
    asked = [it for it in servers.methods() if it in ("server/discover", "initialize")]
    assert asked == ["server/discover", "initialize", "initialize"]


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_start_that_fails_for_its_own_reasons_does_not_make_the_next_one_wait(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, is_remembered: bool
) -> None:
    monkeypatch.setattr("toolrun.mcp.client.supervisor._PATIENCE", 100 * LIMIT)
    servers.add("subject", start_timeout=600)
    servers.at_start("subject", IGNORES)
    if is_remembered:
        async with servers.open() as tools:
            await tools.works()
    failing = "if not os.path.exists('failed'): open('failed', 'w').close(); sys.exit('the port is taken')\n"
    servers.at_start("subject", failing + dedent(IGNORES))
    async with servers.open() as tools:
        await tools.works()
        assert tools.server().version == "2025-11-25"


async def test_a_server_that_answers_for_its_era_late_is_asked_once(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        ERA = "modern"
        _answer, _waiting = answer, []
        def answer(message):
            if message["method"] == "server/discover" and not _waiting:
                _waiting.append(message)
            else:
                _answer(message)
                if message["method"] == "initialize":
                    _answer(_waiting[0])
        """,
    )
    async with servers.open() as tools:
        await tools.works()
        assert tools.server().version == "2026-07-28"
    asked = [it for it in servers.methods() if it in ("server/discover", "initialize")]
    assert asked == ["server/discover", "initialize"]


async def test_a_server_that_dies_of_the_older_handshake_is_asked_without_it(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        ERA = "modern"
        _answer = answer
        def answer(message):
            if message["method"] == "initialize":
                sys.exit("what is that?")
            if message["method"] == "server/discover":
                time.sleep(0.05)  # it may not die of the next message before this is answered
            _answer(message)
        """,
    )
    servers.add("subject", start_timeout=600)
    async with servers.open() as tools:
        await tools.works()
        assert tools.server().version == "2026-07-28"


async def test_the_era_is_remembered(servers: Servers) -> None:
    servers.add("modern", "modern")
    async with servers.open() as tools:
        for name in ("subject", "modern"):
            await tools.run("os._exit(1)", f"{name}__run")
            await tools.works(f"{name}__run")
    assert servers.methods().count("server/discover") == 1
    assert servers.methods().count("initialize") == 2
    assert servers.methods("modern").count("server/discover") == 2
    assert servers.methods("modern").count("initialize") == 1  # when nothing was known of it


async def test_a_version_that_is_not_known_is_named(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        _answer = answer
        def answer(message):
            if message["method"] == "initialize":
                message["params"]["protocolVersion"] = "1999-01-01"
            _answer(message)
        """,
    )
    async with servers.open() as tools:
        assert "'1999-01-01'" in tools.server().error


async def test_a_server_without_tools_is_connected_all_the_same(servers: Servers) -> None:
    servers.at_start(
        "subject",
        """
        _answer = answer
        def answer(message):
            if message["method"] == "tools/list":
                message["method"] = "unknown"
            _answer(message)
        """,
    )
    async with servers.open() as tools:
        assert tools.server().session is not None
        assert {tool.name for tool in tools.runtime.manager} == {"run", "wait_for"}


LOGS = """
    _answer = answer
    def answer(message):
        if message["method"] in ("server/discover", "initialize"):
            sys.stderr.write(f"Failed to validate request\\n  input_value='{message['method']}'\\n  see the docs\\n")
            sys.stderr.flush()
        _answer(message)
"""


async def test_the_era_is_remembered_for_the_next_program(servers: Servers) -> None:
    for _ in range(2):
        async with servers.open() as tools:
            await tools.works()
    assert len(servers.starts()) == 2
    assert servers.methods().count("server/discover") == 1


async def test_a_program_that_ends_before_the_server_has_answered_forgets_nothing(servers: Servers) -> None:
    async with servers.open() as tools:
        await tools.works()
    servers.at_start("subject", NEVER)
    async with Runtime.open(servers.configure()):
        await until(lambda: len(servers.starts()) == 2, "the server")
    servers.at_start("subject", "")
    async with servers.open() as tools:
        await tools.works()
    assert servers.methods().count("server/discover") == 1


async def test_another_version_of_a_server_is_asked_again_the_time_after(servers: Servers) -> None:
    for version in (1, 2, 2, 2):
        servers.at_start(
            "subject",
            f"""
            _say = say
            def say(message):
                if "serverInfo" in message.get("result", {{}}):
                    message["result"]["serverInfo"]["version"] = "{version}"
                _say(message)
            """,
        )
        async with servers.open() as tools:
            await tools.works()
    handshakes = [it for it in servers.methods() if it in ("server/discover", "initialize")]
    assert handshakes == ["server/discover", "initialize", "initialize", "server/discover", "initialize", "initialize"]


async def test_a_remembered_era_that_is_wrong_is_forgotten(servers: Servers) -> None:
    async with servers.open() as tools:
        await tools.works()
    servers.at_start("subject", "ERA = 'modern'")
    for _ in range(2):
        async with servers.open() as tools:
            await tools.works()
            assert tools.server().version == "2026-07-28"
    assert len(servers.starts()) == 3
    handshakes = [it for it in servers.methods() if it in ("server/discover", "initialize")]
    assert handshakes == ["server/discover", "initialize", "initialize", "server/discover", "server/discover"]


@pytest.mark.parametrize("content", ["{}", "[]", "not JSON", '{"x": 5}', ""])
async def test_a_memory_that_is_broken_is_no_memory(servers: Servers, content: str) -> None:
    (servers.root / "cache").mkdir()
    (servers.root / "cache" / "mcp-eras.json").write_text(content)
    async with servers.open() as tools:
        await tools.works()
    assert servers.methods().count("server/discover") == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_complaints_about_the_question_for_its_era_are_not_last_words(servers: Servers, era: str) -> None:
    servers.add("subject", era)
    servers.at_start("subject", LOGS)
    async with servers.open() as tools:
        await tools.works()
        result = await tools.fault("sys.stderr.write('no bridge\\n'); sys.stderr.flush(); os._exit(1)")
        assert result.detail == "Its last output on stderr:\nno bridge"


async def test_a_server_that_dies_at_its_start_is_quoted_without_our_question(servers: Servers) -> None:
    servers.at_start("subject", "sys.stderr.write('no key\\nunknown: server/discover\\n'); sys.exit('bye')")
    async with servers.open() as tools:
        assert tools.server().tail == "no key\nbye"
