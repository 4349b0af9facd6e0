"""`toolrun serve`: offers the tools to MCP clients, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import inform, near
from toolrun.cli.running_server import without_tools
from toolrun.extra import missing
from toolrun.runtime import Runtime, read_config
from toolrun.text import plural

if TYPE_CHECKING:
    from toolrun.mcp.http_token import ServerToken
    from toolrun.recording.playback import Recording


@click.command(name="serve")
@click.option("--http", metavar="[HOST:]PORT", help="Serve streamable HTTP on this address, instead of stdio.")
@click.option(
    "--unix",
    metavar="PATH",
    type=click.Path(),
    help="Serve HTTP on a UNIX socket that only you can use, without a token.",
)
@click.option(
    "--token",
    envvar="TOOLRUN_SERVE_TOKEN",
    help="The bearer token that HTTP clients must send. Better set as $TOOLRUN_SERVE_TOKEN. "
    "Default: one that is made once and kept in .toolrun/token.",
)
@click.option("--no-token", is_flag=True, help="Let every user of this machine call the tools over HTTP.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="A host name that HTTP clients may use for this server. Repeatable.",
)
@click.option(
    "--allow-origin",
    "allow_origins",
    metavar="ORIGIN",
    multiple=True,
    help="An origin such as https://app.example whose web pages may call the server over HTTP. Repeatable.",
)
@click.option(
    "--recording",
    "recordings",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Offer the tools of this recording instead, and play its calls. Repeatable.",
)
@click.option("--reload", "reloads", is_flag=True, help="Notice new, edited and removed files with tools.")
@click.option("--lenient", is_flag=True, help="With --recording: answer calls with other arguments, too.")
@shared_options()
@click.pass_obj
def command(
    options: Options,
    http: str | None,
    unix: str | None,
    token: str | None,
    no_token: bool,
    allowed_hosts: tuple[str, ...],
    allow_origins: tuple[str, ...],
    recordings: tuple[str, ...],
    reloads: bool,
    lenient: bool,
) -> None:
    """Offer the tools to MCP clients.

    Without --http it speaks MCP on stdin and stdout, for a client that starts it; 'toolrun install' configures a
    client to do so. Messages for people go to stderr. It ends at the end of its input, at SIGTERM and at Ctrl-C.

    With --http it serves any number of clients at http://HOST:PORT/mcp. Without HOST, only this machine can reach it.
    Clients must send a token, which is in .toolrun/token of the project.

    With --reload it loads files with tools again when they change; toolrun.toml is read once.

    With --recording it starts none of the project's tools and servers, and plays what 'toolrun record' has recorded.
    """
    try:
        for module in ("mcp.server",) if http is None and unix is None else ("mcp.server", "uvicorn"):
            import_module(module)
    except ImportError as error:
        raise missing("mcp", error, "toolrun serve") from None
    if lenient and not recordings:
        raise click.UsageError("--lenient is for --recording only", click.get_current_context())
    if reloads and recordings:
        raise click.UsageError("choose either --reload or --recording", click.get_current_context())
    source = _Source(options, recordings, lenient=lenient, reloads=reloads)
    _check_usage(click.get_current_context(), http, unix, no_token=no_token)
    if unix is not None:
        _serve_unix(source, Path(unix).absolute())
    elif http is not None:
        given = "" if no_token else token or None
        _serve_http(source, http, given, allowed_hosts, allow_origins)
    else:
        _serve_stdio(source)


def _check_usage(context: click.Context, http: str | None, unix: str | None, *, no_token: bool) -> None:
    """Raises UsageError for options that do not go together."""

    def is_given(option: str) -> bool:
        return context.get_parameter_source(option) is ParameterSource.COMMANDLINE

    if http is not None and unix is not None:
        raise click.UsageError("choose either --http or --unix", context)
    if no_token and is_given("token"):
        raise click.UsageError("choose either --token or --no-token", context)
    for option in ("token", "no_token", "allowed_hosts", "allow_origins"):
        if is_given(option) and http is None:
            raise click.UsageError(f"--{option.removesuffix('s').replace('_', '-')} is for --http only", context)


class _Source:
    """Where the tools come from: the project, or recordings, which need no project."""

    def __init__(self, options: Options, recordings: tuple[str, ...], *, lenient: bool, reloads: bool) -> None:
        self.options = options
        self._reloads = reloads
        self._names = ", ".join(recordings)
        self._recording: Recording | None = None
        if recordings:
            from toolrun.recording.playback import Recording

            self._recording = Recording.load(*recordings, lenient=lenient)

    def run(self, serve: Callable[[Runtime], Awaitable[None]]) -> None:
        recording = self._recording
        if recording is None:
            run_with_tools(self.options, _following(serve) if self._reloads else serve, is_server=True)
            return

        async def play(runtime: Runtime) -> None:
            for tool in recording.tools():
                runtime.manager.add(tool)
            runtime.executor.ignores_keys = True
            await serve(runtime)

        config = without_tools(read_config(self.options.config))
        run_with_tools(self.options, play, is_server=True, config=config)

    def announce(self, runtime: Runtime, where: str) -> None:
        logging.getLogger("toolrun.call").setLevel(logging.NOTSET)  # nothing else reports how calls ended
        served = f"Serving {plural(len(runtime.manager), 'tool')} {where}"
        if self._recording is not None:
            served += f"; playing {self._names}"
        if runtime.servers:
            served += f"; connecting to {plural(len(runtime.servers), 'server')}"
        if runtime.problems:
            served += f"; {plural(len(runtime.problems), 'problem')}, see above"
        inform(served)


def _following(serve: Callable[[Runtime], Awaitable[None]]) -> Callable[[Runtime], Awaitable[None]]:
    """Serve, and load files again when they change. Clients are told that the list of tools has changed."""

    async def follow_and_serve(runtime: Runtime) -> None:
        following = asyncio.create_task(runtime.follow_files(inform))
        try:
            await serve(runtime)
        finally:
            following.cancel()
            await asyncio.wait({following})

    return follow_and_serve


def _serve_stdio(source: _Source) -> None:
    from toolrun.mcp.server.stdio_server import redirect_stdio, serve_stdio
    from toolrun.server.from_runtime import mcp_server

    is_for_people = sys.stdin is not None and sys.stdin.isatty()
    incoming, outgoing = redirect_stdio()

    async def serve(runtime: Runtime) -> None:
        source.announce(runtime, "on stdin and stdout")
        if is_for_people:
            inform("MCP clients start this command themselves. To let running clients connect, use --http PORT")
        server = mcp_server(runtime)
        async with server.announcing():
            await serve_stdio(server.sdk, incoming, outgoing)

    source.run(serve)


def _serve_http(
    source: _Source, http: str, token: str | None, allowed_hosts: tuple[str, ...], allow_origins: tuple[str, ...]
) -> None:
    """`token`: None for the one of the project, empty for none."""
    from toolrun.cli.output import claim_stdout
    from toolrun.cli.served_address import announced_at
    from toolrun.mcp.http_token import ServerToken, keep_token
    from toolrun.mcp.server.http_address import listen, read_address
    from toolrun.mcp.server.http_server import serve_http
    from toolrun.server.api import HttpApi
    from toolrun.server.from_runtime import mcp_server

    read_address(http, "any" if token is None else token, allowed_hosts, allow_origins)  # before anything is started
    config = read_config(source.options.config)
    # Before the tools are loaded: what is there then is hidden from scripts.
    kept = keep_token(None if config.path is None else config.root) if token is None else ServerToken(token)
    claim_stdout()

    async def serve(runtime: Runtime) -> None:
        origins = (*runtime.config.serve.allow_origins, *allow_origins)
        address = read_address(http, kept.value, allowed_hosts, origins)
        with listen(address) as listening:
            port = listening.getsockname()[1]
            page = address.page(port)
            with announced_at(None if config.path is None else config.root, page):
                if not kept.value:
                    inform("There is no token: every user of this machine can call these tools")
                source.announce(runtime, f"at {address.url(port)}")
                if token is None:
                    _show_token(kept, page)
                else:
                    inform(f"Open {page} in a browser")
                await serve_http(mcp_server(runtime), address, listening, HttpApi(runtime))

    source.run(serve)


def _show_token(token: ServerToken, page: str) -> None:
    """A terminal shows the token; whatever else stderr is may be a log, which more people can read."""
    is_for_people = sys.stderr is not None and sys.stderr.isatty()
    inform(f"Open {page}{f'#token={token.value}' if is_for_people else ''} in a browser")
    if token.file is None:
        inform(f"Clients send the header 'Authorization: Bearer {token.value}'")
        inform(f"This token is for this run only: {token.reason}")
    elif is_for_people:
        inform(f"Clients send the header 'Authorization: Bearer {token.value}', which is kept in {near(token.file)}")
    else:
        inform(f"Clients send the header 'Authorization: Bearer TOKEN'; the token is in {token.file}")


def _serve_unix(source: _Source, path: Path) -> None:
    from toolrun.cli.output import claim_stdout
    from toolrun.mcp.server.http_address import Address
    from toolrun.mcp.server.http_server import serve_http
    from toolrun.mcp.server.unix_socket import listen_unix
    from toolrun.server.api import HttpApi
    from toolrun.server.from_runtime import mcp_server

    claim_stdout()

    async def serve(runtime: Runtime) -> None:
        with listen_unix(path) as listening:
            source.announce(runtime, f"at unix:{path}")
            await serve_http(mcp_server(runtime), Address("localhost", 0), listening, HttpApi(runtime))

    source.run(serve)
