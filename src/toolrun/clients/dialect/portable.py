"""The format for frameworks that pass tools on to any provider: only what all providers accept.

Names follow the strictest rule that there is, the schema stays JSON Schema: the packages of the providers simplify it.
"""

from __future__ import annotations

from typing import Final

from toolrun.clients.dialect.dialect import Dialect
from toolrun.clients.dialect.openai import OPENAI
from toolrun.tools.naming import NameRule

_NAMES: Final = NameRule("A-Za-z0-9_-", starts_with_letter=True)
_PARAMETERS: Final = NameRule("A-Za-z0-9_", starts_with_letter=True)

PORTABLE: Final = Dialect("any provider's", _NAMES, _PARAMETERS, OPENAI.adapt, OPENAI.render)
