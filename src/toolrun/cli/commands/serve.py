"""`toolrun serve`."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import inform
from toolrun.cli.session import run_with_tools
from toolrun.errors import ConfigError
from toolrun.runtime import Runtime
from toolrun.text import plural

if TYPE_CHECKING:
    from toolrun.mcp.server.mcp_server import McpServer


@click.command(name="serve")
@click.option("--http", metavar="[HOST:]PORT", help="Serve streamable HTTP on this address, instead of stdio.")
@click.option(
    "--token",
    envvar="TOOLRUN_SERVE_TOKEN",
    help="The bearer token that HTTP clients must send. Better set as $TOOLRUN_SERVE_TOKEN.",
)
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
@shared_options()
@click.pass_obj
def command(
    options: Options,
    http: str | None,
    token: str | None,
    allowed_hosts: tuple[str, ...],
    allow_origins: tuple[str, ...],
) -> None:
    """Offer the tools to MCP clients.

    Without --http it speaks MCP on stdin and stdout, for a client that starts it; 'toolrun install' configures a
    client to do so. Messages for people go to stderr. It ends at the end of its input, at SIGTERM and at Ctrl-C.

    With --http it serves any number of clients at http://HOST:PORT/mcp. Without HOST, only this machine can reach it;
    a HOST that other machines can reach needs a token.
    """
    try:
        for module in ("mcp.server",) if http is None else ("mcp.server", "uvicorn"):
            import_module(module)
    except ImportError as error:
        raise ConfigError(f"toolrun serve needs more packages ({error}): pip install 'toolrun[mcp]'") from None
    if http is not None:
        _serve_http(options, http, token or "", allowed_hosts, allow_origins)
        return
    context = click.get_current_context()
    for option in ("token", "allowed_hosts", "allow_origins"):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option.removesuffix('s').replace('_', '-')} is for --http only", context)
    _serve_stdio(options)


def _serve_stdio(options: Options) -> None:
    from toolrun.mcp.server.stdio_server import serve_stdio, take_stdio

    is_for_people = sys.stdin is not None and sys.stdin.isatty()
    incoming, outgoing = take_stdio()

    async def serve(runtime: Runtime) -> None:
        _announce(runtime, "on stdin and stdout")
        if is_for_people:
            inform("MCP clients start this command themselves. To let running clients connect, use --http PORT")
        server = _server(runtime)
        async with server.announcing():
            await serve_stdio(server.sdk, incoming, outgoing)

    run_with_tools(options, serve, ends_on_sigterm=True)


def _serve_http(
    options: Options, http: str, token: str, allowed_hosts: tuple[str, ...], allow_origins: tuple[str, ...]
) -> None:
    from toolrun.cli.output import claim_stdout
    from toolrun.mcp.server.http_address import listen, read_address
    from toolrun.mcp.server.http_server import serve_http

    read_address(http, token, allowed_hosts, allow_origins)  # before anything is started
    claim_stdout()

    async def serve(runtime: Runtime) -> None:
        origins = (*runtime.config.serve.allow_origins, *allow_origins)
        address = read_address(http, token, allowed_hosts, origins)
        with listen(address) as listening:
            _announce(runtime, f"at {address.url(listening.getsockname()[1])}")
            await serve_http(_server(runtime), address, listening)

    run_with_tools(options, serve, ends_on_sigterm=True)


def _server(runtime: Runtime) -> McpServer:
    from toolrun.mcp.client.resource_reader import ResourceReader
    from toolrun.mcp.server.mcp_server import McpServer

    reader = ResourceReader(runtime.servers) if runtime.servers else None
    return McpServer(runtime.manager, runtime.executor, runtime.ready, runtime.config.serve, reader)


def _announce(runtime: Runtime, where: str) -> None:
    logging.getLogger("toolrun.call").setLevel(logging.NOTSET)  # nothing else reports how calls ended
    served = f"Serving {plural(len(runtime.manager), 'tool')} {where}"
    if runtime.servers:
        served += f"; connecting to {plural(len(runtime.servers), 'server')}"
    if runtime.problems:
        served += f"; {plural(len(runtime.problems), 'problem')}, see above"
    inform(served)
