"""JSON Schema for arguments: compile, repair, validate, explain. Pure: knows nothing of tools and calls."""

from __future__ import annotations

from toolrun.schema.arguments import ArgumentSchema, Checked
from toolrun.schema.explain import Problem, explain
from toolrun.schema.repair import Repair

__all__ = ["ArgumentSchema", "Checked", "Problem", "Repair", "explain"]
