"""The outcome of one check of `toolrun doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """What was checked, and what to do about it."""

    status: str
    subject: str
    message: str
    advice: str = ""
