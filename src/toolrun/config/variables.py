"""`${VAR}` and `${VAR:-default}` in text: text and variables in, text out. Knows neither file nor key."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)\}?")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its references replaced, and the problems with those that could not be.

    As in a shell, the default stands in for a variable that is unset or empty. `$${` is a literal `${`.
    """
    problems: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match["body"] is None:
            return "${"
        body = _BODY.fullmatch(match["body"])
        if body is None or not match[0].endswith("}") or "${" in match["body"]:
            # Not the text itself: it may be part of a secret.
            place = f"has a '${{' at character {match.start() + 1} that starts no variable"
            problems.append(f"{place}; write ${{NAME}} or ${{NAME:-default}}, or $${{ for a literal ${{")
            return match[0]
        name, default = body["name"], body["default"]
        value = environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            problems.append(f"needs the variable {name}, which is not set; set it, or write ${{{name}:-default}}")
            return match[0]
        return value

    return _REFERENCE.sub(replace, text), problems
