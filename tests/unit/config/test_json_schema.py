"""The JSON Schema of toolrun.toml: it is that of the sources, and it accepts what toolrun accepts."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from runpy import run_path
from typing import Any

import jsonschema_rs
import pytest

from toolrun.config.load import load_config
from toolrun.errors import ConfigError

ROOT = Path(__file__).parents[3]
FILE = ROOT / "src" / "toolrun" / "config" / "toolrun.schema.json"
VALIDATOR = jsonschema_rs.validator_for(json.loads(FILE.read_text(encoding="utf-8")))


def test_the_file_is_what_the_sources_say() -> None:
    generated: Any = run_path(str(ROOT / "script" / "generate" / "config_schema.py"))
    assert FILE.read_text(encoding="utf-8") == generated["written"](), "run: python script/generate/config_schema.py"


def test_the_complete_example_of_the_page_is_valid() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^## A complete example\n\n```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    document = tomllib.loads(example)
    VALIDATOR.validate(document)
    properties = json.loads(FILE.read_text(encoding="utf-8"))["properties"]
    assert document.keys() == properties.keys()


OTHER_FILES = {"answer", "not_understood"}
"""Keys of the TOML files that are no configuration: scripts of models, phrases. A catalog has a list of `tools`."""


def test_the_configurations_of_all_pages_are_valid() -> None:
    checked = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            document = tomllib.loads(block)
            if not OTHER_FILES & document.keys() and not isinstance(document.get("tools"), list):
                assert not [error.message for error in VALIDATOR.iter_errors(document)], f"{page.name}: {block}"
                checked += 1
    assert checked > 20


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("toolrun.toml")), ids=lambda path: path.parent.name)
def test_the_configurations_of_the_examples_are_valid(path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("[executor]\ntimeout = 5", True),
        ("[executor]\ntimeout = 0", False),
        ("[executor]\ntimout = 5", False),
        ("[executer]\ntimeout = 5", False),
        ("[executor]\nmax_queue = 0", True),
        ("[executor]\nmax_concurrency = 0", False),
        ("[executor]\nstrict = 'yes'", False),
        ("[tool.weather]\neffects = 'none'", True),
        ("[tool.weather]\neffects = 'nothing'", False),
        ("[tool.weather.permissions]\nnet = ['example.com:443']", True),
        ("[tool.weather.permissions]\nnetwork = true", False),
        ("[tool.weather]\nsandbox = '${LEVEL:-strict}'", True),
        ("[approval]\nrules = [{ action = 'allow', tool = 'get_*' }]", True),
        ("[approval]\nrules = [{ tool = 'get_*' }]", False),
        ("[secrets]\nKEY = { env = 'KEY' }", True),
        ("[secrets]\nKEY = { environment = 'KEY' }", False),
        ("[mcp]\ndelays = []", False),
        ("[tools]\npython = ['/etc/*.py']", False),
    ],
)
def test_schema_and_reader_agree(text: str, is_valid: bool, tmp_path: Path) -> None:
    file = tmp_path / "toolrun.toml"
    file.write_text(text)
    assert VALIDATOR.is_valid(tomllib.loads(text)) is is_valid
    if is_valid:
        load_config(file, environ={})
    else:
        with pytest.raises(ConfigError):
            load_config(file, environ={})
