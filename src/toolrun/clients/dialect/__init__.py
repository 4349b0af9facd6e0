"""Tools in the format of each provider: the names, schemas and envelopes that it accepts. Pure."""

from __future__ import annotations

from toolrun.clients.dialect.offer import PROVIDERS, Offer, Simplification, for_provider, to_qwen
from toolrun.clients.dialect.unparse import unparse

__all__ = ["PROVIDERS", "Offer", "Simplification", "for_provider", "to_qwen", "unparse"]
