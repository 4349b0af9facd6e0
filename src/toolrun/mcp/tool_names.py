"""Names for the tools of several servers. Pure: sets of names in, a table out.

A tool keeps its name if no other tool has it and every provider accepts it. Otherwise it gets another one; the table
leads back to the server and to the name that the server knows. The table depends on the set of names, not their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from toolrun.tools.naming import NameRule, fit_names

PROVIDERS: Final = NameRule("A-Za-z0-9_-", 64)
"""What Anthropic and OpenAI accept. Our own names may also have dots, and be twice as long."""


def name_tools(tools: Mapping[str, Iterable[str]], taken: Collection[str] = ()) -> dict[str, tuple[str, str]]:
    """The tools of all servers by the names that they have here: {name: (server, its name there)}.

    `taken` are the names of other tools. Of a name that two servers have, or that is taken, all become `server__tool`.
    """
    every = sorted({(server, tool) for server, names in tools.items() for tool in names})
    as_they_are = Counter(tool for _, tool in every)
    as_fitted = Counter(PROVIDERS.fit(tool) for _, tool in every)
    table: dict[str, tuple[str, str]] = {}
    others = []
    for server, tool in every:
        name = PROVIDERS.fit(tool)
        is_alone = (as_they_are if name == tool else as_fitted)[name] == 1
        if is_alone and name not in taken:
            table[name] = (server, tool)
        else:
            others.append((server, tool))
    used = {*table, *taken, *as_fitted}
    for server, tool in others:
        name = PROVIDERS.free(f"{server}__{tool}", used)
        table[name] = (server, tool)
        used.add(name)
    return table


def provider_names(names: Iterable[str]) -> dict[str, str]:
    """Names that every provider takes for tools of any origin: {name for the provider: name here}."""
    return {fitted: name for name, fitted in fit_names(names, PROVIDERS).items()}
