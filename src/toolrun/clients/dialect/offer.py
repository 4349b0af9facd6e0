"""Tools as a provider gets them, and the way back from what its model sends. Pure, but for one line of the log.

The tools themselves are not touched. Arguments are judged by the executor, with the original schema, whatever was
simplified here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from toolrun.clients.dialect.anthropic import ANTHROPIC
from toolrun.clients.dialect.dialect import Dialect
from toolrun.clients.dialect.gemini import GEMINI
from toolrun.clients.dialect.mcp import MCP
from toolrun.clients.dialect.openai import OPENAI
from toolrun.clients.dialect.qwen import QWEN
from toolrun.clients.dialect.unparse import restore
from toolrun.errors import DefinitionError
from toolrun.json import JSON, Schema
from toolrun.schema.value import join
from toolrun.tools.naming import NameRule, fit_names
from toolrun.tools.protocol import schema_of

logger = logging.getLogger("toolrun.dialect")

PROVIDERS: Final[Mapping[str, Dialect]] = {
    "ollama": QWEN,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "gemini": GEMINI,
    "mcp": MCP,
}


@dataclass(frozen=True, slots=True)
class Simplification:
    """Something that the provider does not get as the tool says it."""

    tool: str
    path: str
    """The parameter, such as `filter.tags[]`; empty for the tool itself."""
    what: str
    where: str
    """What became of it: `description`, or `left out` and why."""

    def to_dict(self) -> dict[str, JSON]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools for one request."""

    tools: list[dict[str, JSON]] = field(default_factory=list)
    """In the form of the provider, as `bind_tools` of its chat model takes them."""
    report: list[Simplification] = field(default_factory=list)
    _sent: dict[str, _Sent] = field(default_factory=dict)

    def name_of(self, sent_name: str) -> str:
        """The tool's own name; an unknown one as it is, for the executor to refuse."""
        sent = self._sent.get(sent_name)
        return sent.name if sent else sent_name

    def tool(self, name: str) -> dict[str, JSON]:
        """What is sent of the tool that has this name of its own."""
        return next(tool for sent, tool in zip(self._sent.values(), self.tools, strict=True) if sent.name == name)

    def arguments_of(self, sent_name: str, arguments: dict[str, JSON]) -> dict[str, JSON]:
        """The arguments under their own names, and text again where the provider's client has parsed it."""
        sent = self._sent.get(sent_name)
        if sent is None:
            return arguments
        if sent.parameters:
            arguments = {sent.parameters.get(name, name): value for name, value in arguments.items()}
        return restore(arguments, sent.schema) if sent.parses_text else arguments


@dataclass(frozen=True, slots=True)
class _Sent:
    """What stands behind a name that was sent."""

    name: str
    schema: Mapping[str, JSON]
    parameters: Mapping[str, str]
    """The own names of parameters that were sent under others."""
    parses_text: bool


def for_provider(tools: Iterable[Any] | None, provider: str) -> Offer:
    """The tools as the provider takes them. Raises DefinitionError for a tool without a schema."""
    if provider not in PROVIDERS:
        raise ValueError(f"there is no dialect for '{provider}'; there are {', '.join(PROVIDERS)}")
    dialect = PROVIDERS[provider]
    given = {_public_name(tool): tool for tool in tools or ()}
    offer = Offer()
    for public, sent_name in fit_names(given, dialect.names).items():
        _add(offer, given[public], public, sent_name, dialect)
    if given:
        logger.debug("🔧 Converted %d tools from LangChain to %s format", len(given), dialect.title)
    return offer


def to_qwen(tools: Iterable[Any] | None) -> list[dict[str, JSON]]:
    """The tools in the format that Qwen documents and Ollama takes."""
    return for_provider(tools, "ollama").tools


def _public_name(tool: Any) -> str:
    """What LangChain calls a tool of MCP, or else its name."""
    name = getattr(tool, "lc_name", None)
    return name if isinstance(name, str) else str(tool.name)


def _add(offer: Offer, tool: Any, public: str, sent_name: str, dialect: Dialect) -> None:
    def note(path: str, what: str, where: str) -> None:
        offer.report.append(Simplification(tool.name, path, what, where))

    try:
        schema = schema_of(tool)
    except DefinitionError as error:
        raise DefinitionError(f"Tool '{tool.name}': {error}") from error
    if sent_name != public:
        note("", f"name {public}", f"sent as {sent_name}")
    adapted, words = dialect.adapt(schema, note)
    renamed = _rename(adapted, dialect.parameters) if dialect.parameters else {}
    for name, own in renamed.items():
        note(join("", own), f"name {own}", f"sent as {name}")
    description = str(getattr(tool, "description", "") or "").strip()
    if words:
        description = f"{description}\nArguments: {'; '.join(words)}.".lstrip()
    offer.tools.append(dialect.render(sent_name, description, adapted))
    offer._sent[sent_name] = _Sent(tool.name, schema, renamed, dialect.parses_text)


def _rename(schema: Schema, rule: NameRule) -> dict[str, str]:
    """Gives the parameters names that the rule accepts, and returns what those stand for."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or all(map(rule.accepts, properties)):
        return {}
    names = fit_names(properties, rule)
    schema["properties"] = {names[name]: part for name, part in properties.items()}
    if isinstance(required, list):
        schema["required"] = [names.get(name, name) if isinstance(name, str) else name for name in required]
    return {new: name for name, new in names.items() if new != name}
