"""How tools are told to the providers of models: names, schemas and forms that each of them takes. Pure."""

from __future__ import annotations

from toolrun.clients.dialect.offer import PROVIDERS, Offer, Simplification, for_provider, to_qwen
from toolrun.clients.dialect.unparse import restore

__all__ = ["PROVIDERS", "Offer", "Simplification", "for_provider", "restore", "to_qwen"]
