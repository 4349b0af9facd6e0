"""The guide names what the programs have."""

from __future__ import annotations

import re
from typing import get_args

from devices import Kind
from zwave_mcp_server import OFFERS
from zwave_topics import CLASS_NAMES

from brokers import HOME, ROOT

GUIDE = (ROOT / "docs/guides/home.md").read_text()


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_tables_have_the_tools_the_variables_and_the_behaviours() -> None:
    rows = first_column(GUIDE)
    assert [row for row in rows if row.endswith(("_devices", "_device", "_data", "_health"))] == list(OFFERS)
    source = (HOME / "zwave_mcp_server.py").read_text()
    read = list(dict.fromkeys(re.findall(r'environment\.get\("([A-Z_]+)"', source)))
    assert [row for row in rows if row.isupper()] == read
    assert [row for row in rows if row in get_args(Kind)] == list(get_args(Kind))


def test_every_command_class_that_is_understood_is_named() -> None:
    [sentence] = re.findall(r"The server understands (.*?)\.", GUIDE, re.DOTALL)
    assert {int(number) for number in re.findall(r"\d+", sentence)} == set(CLASS_NAMES)
