"""JSON Schema for arguments: compile, repair, validate, explain. Pure: knows nothing of tools and calls.

The names below are imported when they are first asked for: `Repair` is a value, and needs no validator.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.schema.arguments import ArgumentSchema as ArgumentSchema
    from toolrun.schema.arguments import Checked as Checked
    from toolrun.schema.explain import Problem as Problem
    from toolrun.schema.repair_record import Repair as Repair

__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "arguments": ["ArgumentSchema", "Checked"],
        "explain": ["Problem"],
        "repair_record": ["Repair"],
    },
)
