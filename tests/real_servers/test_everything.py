"""What the server `everything` has for clients to try: each kind of content, progress, names; also over HTTP."""

from __future__ import annotations

import base64
import gzip
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from faults.bench import LIMIT, is_timeout, is_unavailable, reported, tagged, until
from faults_mcp.bench import QUICK, Servers
from real_servers.servers import SERVERS, RealServer, configured, process_of
from toolrun import ErrorKind, SideEffects
from toolrun.tools.context import Progress


async def test_every_kind_of_content_arrives(servers: Servers, everything: RealServer) -> None:
    async with servers.open() as tools:
        image = await tools.call("get-tiny-image")
        assert [block["type"] for block in image.content] == ["text", "image", "text"]
        assert image.content[1]["mimeType"] == "image/png"
        assert base64.b64decode(str(image.content[1]["data"])).startswith(b"\x89PNG")
        assert "Here's the image you requested" in image.text

        structured = await tools.call("get-structured-content", location="Chicago")
        assert structured.result == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}

        links = await tools.call("get-resource-links", count=2)
        assert [block["type"] for block in links.content] == ["text", "resource_link", "resource_link"]

        zipped = await tools.call("gzip-file-as-resource", data="data:text/plain,hello", outputType="resource")
        [block] = zipped.content
        resource = block["resource"]
        assert isinstance(resource, dict)
        assert gzip.decompress(base64.b64decode(str(resource["blob"]))) == b"hello"

        annotated = await tools.call("get-annotated-message", messageType="error", includeImage=True)
        assert annotated.success  # the text only says "Error"
        assert [block["annotations"] for block in annotated.content] == [
            {"priority": 1.0, "audience": ["user", "assistant"]},
            {"priority": 0.5, "audience": ["user"]},
        ]


async def test_progress_arrives_before_the_answer(servers: Servers, everything: RealServer) -> None:
    async with servers.open() as tools:
        told: list[Progress] = []
        result = await tools.call("trigger-long-running-operation", duration=0.05, steps=5, on_progress=told.append)
        assert result.success
        assert [(it.progress, it.total) for it in told] == [(number, 5) for number in range(1, 6)]


async def test_a_call_that_takes_too_long_does_not_cost_the_server(servers: Servers, everything: RealServer) -> None:
    async with servers.open() as tools:
        before = process_of("everything", tagged(servers.tag))
        assert is_timeout(await tools.call(everything.long.tool, timeout=0.2, **everything.long.arguments))
        longer_than_its_grace = 2 * float(str(QUICK["grace"]))
        assert (await tools.call(everything.long.tool, duration=longer_than_its_grace, steps=1)).success
        assert process_of("everything", tagged(servers.tag)) == before


async def test_all_servers_at_once_and_one_of_them_twice(servers: Servers) -> None:
    with ExitStack() as stack:
        every = [stack.enter_context(configured(kind, servers)) for kind in SERVERS]
        servers.put("other", **every[0].settings())
        async with servers.open() as tools:
            assert "echo" not in tools.runtime.manager
            for name in ("everything__echo", "other__echo"):
                assert (await tools.call(name, message="hello")).text == "Echo: hello"
            for server in every[1:]:
                result = await tools.call(server.good.tool, **server.good.arguments)
                assert server.good.words in result.text


class Web:
    """`everything` as a server over HTTP."""

    def __init__(self, settings: dict[str, object], mode: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._command = [str(settings["command"]), *settings["args"], mode]  # type: ignore[misc]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        null = subprocess.DEVNULL
        environment = {"PORT": str(self.port)}
        self._process = subprocess.Popen(self._command, env=environment, stdin=null, stdout=null, stderr=null)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def is_up(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False


@contextmanager
def web(settings: dict[str, object], mode: str) -> Iterator[Web]:
    server = Web(settings, mode)
    try:
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize(("mode", "path", "transport"), [("streamableHttp", "mcp", "http"), ("sse", "sse", "sse")])
async def test_over_http_it_is_called_killed_and_called_again(
    servers: Servers, everything: RealServer, mode: str, path: str, transport: str
) -> None:
    with web(everything.settings(), mode) as server:
        server.start()
        await until(server.is_up, "the server over HTTP")
        servers.put("everything", url=f"http://127.0.0.1:{server.port}/{path}", transport=transport)
        async with servers.open() as tools, tools.bystander():
            assert tools.server("everything").version == everything.protocol
            image = await tools.call("get-tiny-image")
            assert [block["type"] for block in image.content] == ["text", "image", "text"]
            assert not (await tools.call("get-sum", a="much", b=1)).success
            assert everything.refused.words in (await tools.call("get-resource-reference", resourceId=-1)).text

            long = everything.long
            running = await reported(
                lambda told: tools.call(long.tool, timeout=4 * LIMIT, on_progress=told, **long.arguments)
            )
            server.kill()
            lost = await running
            assert (lost.error_kind, lost.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)

            server.start()
            await until(server.is_up, "the server over HTTP")
            while not (result := await tools.call("echo", message="again")).success:
                assert is_unavailable(result)  # the call that finds out that the session is not known any more
                await until(lambda: tools.server("everything").session is not None, "a new session")
            assert result.text == "Echo: again"
