"""Names for the tools of several servers. Pure: sets of names in, a table out.

A tool keeps its name if no other tool has it and every provider accepts it. Otherwise it gets another one; the table
leads back to the server and to the name that the server knows. The table depends on the set of names, not their order.
A name that is in use stays with its tool: a tool of another server that comes later gets the prefix, and only that one.

A name that begins with `server__` belongs to that server, also if it is disabled or cannot be started: a tool of
another server that is called so becomes `other__server__tool`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from toolrun.tools.naming import NameRule, fit_names

PROVIDERS: Final = NameRule("A-Za-z0-9_-", 64)
"""What Anthropic and OpenAI accept. Our own names may also have dots, and be twice as long."""


def name_tools(
    tools: Mapping[str, Iterable[str]],
    taken: Collection[str] = (),
    owners: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> dict[str, tuple[str, str]]:
    """The tools of all servers by the names that they have here: {name: (server, its name there)}.

    `tools` has every server that is configured, also those that have not listed any yet: their prefixes are reserved.
    `taken` are the names of other tools. Of a name that two servers have, or that is taken, all become `server__tool`.
    `owners` has names that are in use for a tool of a server: whatever others list, they stay with it, also while it
    is not connected.
    """
    every = sorted({(server, tool) for server, names in tools.items() for tool in names})
    owners = {
        name: (server, tool)
        for name, (server, tool) in owners.items()
        if server in tools and name == PROVIDERS.fit(tool) and owner_of(name, tools) in (None, server)
    }
    claims = [
        (server, tool)
        for server, tool in every
        if owner_of(name := PROVIDERS.fit(tool), tools) in (None, server)
        and owners.get(name, (server, tool)) == (server, tool)
    ]
    as_they_are = Counter(tool for _, tool in claims)
    as_fitted = Counter(PROVIDERS.fit(tool) for _, tool in claims)
    table: dict[str, tuple[str, str]] = {}
    for server, tool in claims:
        name = PROVIDERS.fit(tool)
        is_alone = (as_they_are if name == tool else as_fitted)[name] == 1
        if is_alone and name not in taken:
            table[name] = (server, tool)
    used = {*table, *taken, *as_fitted, *owners}
    for server, tool in sorted(set(every) - set(table.values())):
        name = PROVIDERS.free(f"{server}__{tool}", used)
        if owner_of(name, tools) not in (None, server):  # of servers `a` and `a__b` the prefix of `a` is not its own
            name = PROVIDERS.free(f"{PROVIDERS.marked(server)}__{tool}", used)
        table[name] = (server, tool)
        used.add(name)
    return table


def settings_names(server: str, tool: str, servers: Iterable[str]) -> tuple[str, ...]:
    """The NAMEs of `[tool.NAME]` that mean this tool of this server, the most specific first.

    They do not depend on which servers are connected and what they list, so no server can make a setting void.
    """
    known = list(servers)
    qualified = [it for it in _forms(f"{server}__{tool}") if owner_of(it, known) == server]
    own = [it for it in _forms(tool) if owner_of(it, known) in (None, server)]
    return tuple(dict.fromkeys([*(qualified or _forms(f"{PROVIDERS.marked(server)}__{tool}")), *own]))


def _forms(name: str) -> tuple[str, str]:
    return name, PROVIDERS.fit(name)


def owner_of(name: str, servers: Iterable[str]) -> str | None:
    """The server for which a name is reserved, because it begins with `server__`: the longest of them."""
    owners = [server for server in servers if server and name.startswith(tuple(f"{it}__" for it in _forms(server)))]
    return max(owners, key=lambda server: (len(server), server), default=None)


def provider_names(names: Iterable[str]) -> dict[str, str]:
    """Names that every provider takes for tools of any origin: {name for the provider: name here}."""
    return {fitted: name for name, fitted in fit_names(names, PROVIDERS).items()}
