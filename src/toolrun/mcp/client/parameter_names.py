"""Names of parameters: what a model calls them, and what the server of an MCP tool calls them. Pure.

Models that have seen much Python write `device_name` for a parameter that the server declares as `deviceName`: that is
true of every tool, and `schema/names.py` does it for all. What models call `command` and a server `action` is a
mapping, and belongs to the server's tool: it is here, and goes first. A name is changed only if the schema does not
know it and does know the new one, so a server that wants snake_case is left alone.

Whether this is needed at all was measured (S3.14), with a server that declares `deviceName` and is called with
`device_name`. Decision: the renaming stays, because nothing below us does it.

| called through | what the server gets |
|---|---|
| the SDK's own `Client`, mcp 2.3.0 | `device_name`: passed on as it is |
| `langchain-mcp-adapters` 0.3.2 on mcp 1.30.0 | `device_name`: passed on as it is |
| `langchain.mcp.MCPAdapter` of langchain 1.4.7, on FastMCP 4.1.2 | `device_name`: passed on as it is |

A server that checks its arguments then refuses the call. One that does not check acts without a device name. The test
of S3.14.1 repeats the first two, each against a server in a process of its own; should one of them begin to convert, it
fails, and the renaming can go. The third was measured once, with the same server: it is a beta, and brings 97 packages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolrun.json import JSON


def rename(
    arguments: Mapping[str, JSON], known: Collection[str], mapping: Mapping[str, str]
) -> tuple[dict[str, JSON], dict[str, str]]:
    """The arguments under the names that the schema knows, and {old: new} of those that were renamed.

    What was given under the new name as well is never overwritten.
    """
    renamed: dict[str, str] = {}
    taken = set(arguments)
    for name in arguments:
        if name in known:
            continue
        new = mapping.get(name)
        if new is not None and new in known and new not in taken:
            renamed[name] = new
            taken.add(new)
    return {renamed.get(name, name): value for name, value in arguments.items()}, renamed
