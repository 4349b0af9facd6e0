"""The tools of a request in a provider's format, and the way back from a call to the tool. Pure, but for a log line.

The tools themselves do not change. Whatever is simplified here, the executor validates arguments with the original
schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, cast

from toolrun.clients.dialect.anthropic import ANTHROPIC
from toolrun.clients.dialect.dialect import Dialect
from toolrun.clients.dialect.gemini import GEMINI
from toolrun.clients.dialect.mcp import MCP
from toolrun.clients.dialect.openai import OPENAI
from toolrun.clients.dialect.portable import PORTABLE
from toolrun.clients.dialect.qwen import QWEN
from toolrun.clients.dialect.unparse import unparse
from toolrun.clients.sendable import sendable_json, sendable_text
from toolrun.errors import DefinitionError, UsageError
from toolrun.hidden_characters import without_hidden
from toolrun.json import JSON, Schema
from toolrun.logger import get_logger
from toolrun.result import ToolCall
from toolrun.schema.value import join
from toolrun.text import suggestion
from toolrun.tools.naming import NameRule, fit_names
from toolrun.tools.protocol import Tool, schema_of
from toolrun.trust.definition_text import UNLIMITED, clean_schema

logger = get_logger("toolrun.dialect")

PROVIDERS: Final[Mapping[str, Dialect]] = {
    "ollama": QWEN,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "gemini": GEMINI,
    "mcp": MCP,
    "portable": PORTABLE,
}


@dataclass(frozen=True, slots=True)
class Simplification:
    """A part of a tool that the provider gets in another form, or not at all."""

    tool: str
    path: str
    """The parameter, such as `filter.tags[]`; empty for the tool itself."""
    what: str
    where: str
    """Where it went: `description`, or `left out` and the reason."""

    def to_dict(self) -> dict[str, JSON]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Schema


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools for one request."""

    definitions: list[Definition] = field(default_factory=list)
    tools: list[dict[str, JSON]] = field(default_factory=list)
    """The definitions in the format of the provider, as they are on the wire."""
    report: list[Simplification] = field(default_factory=list)
    _sent: dict[str, _SentTool] = field(default_factory=dict)

    @property
    def sent_names(self) -> Collection[str]:
        return self._sent.keys()

    def name_of(self, sent_name: str) -> str:
        """The name of the tool that was sent under this one. Unknown names are returned: the executor refuses them."""
        sent = self._sent.get(sent_name)
        return sent.name if sent else sent_name

    def sent_name_of(self, name: str) -> str:
        """The name under which the tool is sent. Raises UsageError if it is not there."""
        for sent_name, sent in self._sent.items():
            if sent.name == name:
                return sent_name
        raise UsageError(f"There is no tool '{name}'; {suggestion(name, [it.name for it in self._sent.values()])}.")

    def renames(self, sent_name: str) -> bool:
        """Whether the arguments of a call are not yet those of the tool: see `arguments_of`."""
        sent = self._sent.get(sent_name)
        return sent is not None and (bool(sent.parameters) or sent.parses_text)

    def tool(self, name: str) -> dict[str, JSON]:
        """What is sent for the tool with this (original) name."""
        return next(tool for sent, tool in zip(self._sent.values(), self.tools, strict=True) if sent.name == name)

    def arguments_of(self, sent_name: str, arguments: dict[str, JSON]) -> dict[str, JSON]:
        """The arguments under the tool's names of its parameters, and unparsed where a client library parsed them."""
        sent = self._sent.get(sent_name)
        if sent is None:
            return arguments
        if sent.parameters:
            arguments = {sent.parameters.get(name, name): value for name, value in arguments.items()}
        return unparse(arguments, sent.schema) if sent.parses_text else arguments

    def call_of(self, call: ToolCall) -> ToolCall:
        """The call with the tool's original names, which the executor knows."""
        arguments = call.arguments
        if isinstance(arguments, dict):
            arguments = self.arguments_of(call.name, arguments)
        return ToolCall(call.id, self.name_of(call.name), arguments)


@dataclass(frozen=True, slots=True)
class _SentTool:
    """The tool behind a name that was sent."""

    name: str
    schema: Mapping[str, JSON]
    parameters: Mapping[str, str]
    """Names of parameters, as sent → as the tool has them; only those that differ."""
    parses_text: bool


def for_provider(tools: Iterable[Tool] | None, provider: str) -> Offer:
    """The tools in the format of the provider. Raises DefinitionError for a tool without a schema."""
    if provider not in PROVIDERS:
        raise ValueError(f"there is no dialect for '{provider}'; there are {', '.join(PROVIDERS)}")
    dialect = PROVIDERS[provider]
    given = {_public_name(tool): tool for tool in tools or ()}
    offer = Offer()
    for public, sent_name in fit_names(given, dialect.name_rule).items():
        _add(offer, given[public], public, sent_name, dialect)
    if given:
        logger.debug("🔧 Converted %d tools from LangChain to %s format", len(given), dialect.title)
    return offer


def to_qwen(tools: Iterable[Tool] | None) -> list[dict[str, JSON]]:
    """The tools in the format that Qwen documents and Ollama accepts."""
    return for_provider(tools, "ollama").tools


def _public_name(tool: Tool) -> str:
    """The name that LangChain gives an MCP tool, or the tool's name."""
    name = getattr(tool, "lc_name", None)
    return name if isinstance(name, str) else str(tool.name)


def _add(offer: Offer, tool: Tool, public: str, sent_name: str, dialect: Dialect) -> None:
    def note(path: str, what: str, where: str) -> None:
        offer.report.append(Simplification(tool.name, path, what, where))

    try:
        schema = schema_of(tool)
    except DefinitionError as error:
        raise DefinitionError(f"Tool '{tool.name}': {error}") from error
    if sent_name != public:
        note("", f"name {public}", f"sent as {sent_name}")
    adapted, phrases = dialect.adapt(schema, note)
    renamed = _rename(adapted, dialect.parameter_rule) if dialect.parameter_rule else {}
    for sent, original in renamed.items():
        note(join("", original), f"name {original}", f"sent as {sent}")
    description = str(getattr(tool, "description", "") or "").strip()
    if phrases:
        description = f"{description}\nArguments: {'; '.join(phrases)}.".lstrip()
    parameters, _ = clean_schema(cast(Schema, sendable_json(adapted)), UNLIMITED)
    definition = Definition(sent_name, without_hidden(sendable_text(description)), parameters)
    offer.definitions.append(definition)
    offer.tools.append(dialect.render(definition.name, definition.description, definition.parameters))
    offer._sent[sent_name] = _SentTool(tool.name, schema, renamed, dialect.parses_text)


def _rename(schema: Schema, rule: NameRule) -> dict[str, str]:
    """Rename parameters that break the rule, in place. Returns the original name of each new one."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or all(map(rule.accepts, properties)):
        return {}
    names = fit_names(properties, rule)
    schema["properties"] = {names[name]: part for name, part in properties.items()}
    if isinstance(required, list):
        schema["required"] = [names.get(name, name) if isinstance(name, str) else name for name in required]
    return {new: name for name, new in names.items() if new != name}
