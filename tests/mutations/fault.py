"""Deliberate faults: small changes of the sources that break a promise. The TOML files here list them.

A fault names the scenarios of the specification that it breaks, or tests, where the promise is none of the
specification's. It is caught if each of these tests fails. One that survives shows a clause that nobody checks.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Fault:
    """One change, and what it breaks."""

    number: int
    """Its place in the list."""
    scenarios: tuple[str, ...]
    tests: tuple[str, ...]
    """`unit/journal/test_ledger.py::test_…`, relative to `tests/`."""
    file: str
    """Relative to the root of the repository."""
    old: str
    new: str
    why: str
    listed_in: str
    """The file with the list, relative to the root as well."""

    def __str__(self) -> str:
        return f"{self.number:3} {', '.join(self.scenarios) or self.list_name}: {self.why} ({self.file})"

    @property
    def list_name(self) -> str:
        """The name of its list, without the ending."""
        return Path(self.listed_in).stem

    def apply(self, text: str) -> str:
        """The text of the file with the fault. Raises ValueError if the old text is not there exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.listed_in}: {self.old!r} stands {count} times in {self.file}; it must stand once")
        return text.replace(self.old, self.new)


def load_faults() -> list[Fault]:
    """All faults, in the order of the files."""
    faults: list[Fault] = []
    for path in sorted(HERE.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            faults.append(
                Fault(
                    number=len(faults) + 1,
                    scenarios=tuple(entry.get("scenarios", ())),
                    tests=tuple(entry.get("tests", ())),
                    file=_path(entry["file"]),
                    old=entry["old"],
                    new=entry["new"],
                    why=entry["why"],
                    listed_in=str(path.relative_to(ROOT)),
                )
            )
    return faults


def _path(file: str) -> str:
    return file if file.startswith(("examples/", "tests/")) else f"src/toolrun/{file}"
