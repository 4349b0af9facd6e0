"""Tools for `bind_tools` of a chat model: LangChain's own, which its adapter turns into the form of the wire."""

from __future__ import annotations

from typing import Any, NoReturn

from langchain_core.tools import StructuredTool

from toolrun.clients.dialect import Offer


def bindable(offer: Offer) -> list[StructuredTool]:
    """A LangChain tool for each tool of the offer, under the name and with the schema that the provider accepts.

    They are only shown to the model. Calls of it run through the executor.
    """
    return [
        StructuredTool(name=it.name, description=it.description, args_schema=dict(it.parameters), func=_not_run)
        for it in offer.definitions
    ]


def _not_run(**_: Any) -> NoReturn:
    raise RuntimeError("the executor runs the tools")
