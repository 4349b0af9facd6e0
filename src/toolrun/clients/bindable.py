"""Tools for `bind_tools` of a chat model: LangChain's own, which its adapter turns into the form of the wire."""

from __future__ import annotations

from typing import Any, NoReturn

from langchain_core.tools import StructuredTool

from toolrun.clients.dialect import Offer
from toolrun.clients.dialect.offer import Definition


def bindable(offer: Offer) -> list[StructuredTool]:
    """A LangChain tool for each tool of the offer, under the name and with the schema that the provider accepts.

    They are only shown to the model. Calls of it run through the executor.
    """
    return [
        StructuredTool(name=it.name, description=_description(it), args_schema=dict(it.parameters), func=_not_run)
        for it in offer.definitions
    ]


def _description(definition: Definition) -> str:
    """The description of the tool, and that of its schema, which LangChain leaves out."""
    more = definition.parameters.get("description")
    is_new = isinstance(more, str) and more.strip() not in definition.description
    return f"{definition.description}\n{more}".strip() if is_new else definition.description


def _not_run(**_: Any) -> NoReturn:
    raise RuntimeError("the executor runs the tools")
