"""Mistakes in permissions: the message names the word and the entry that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolrun.config.load import load_config
from toolrun.errors import ConfigError
from toolrun.scripts.script_version import read_version

MISTAKES = {
    "network = true": 'the unknown permission "network" (known are env, net, read, run, write)',
    "reads = ['x']": "the unknown permission \"reads\" (did you mean 'read'?)",
    "files = ['x']": 'the unknown permission "files" (known are env, net, read, run, write)',
    "net = 'api.example.com'": 'net = "api.example.com"',
    "net = ['good.example', 'http://x/y']": 'net = "http://x/y", which is no host,',
    "net = [1]": "net = 1, which is no host,",
    "run = 'git'": 'run = "git"',
    "run = ['']": 'run = "", which is no path or program,',
    "read = true": "read = true",
    "write = ['out', '']": 'write = "", which is no path or program,',
    "env = ['A=B']": 'env = "A=B", which is no variable,',
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_in_toolrun_toml_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "toolrun.toml"
    for section in ("tool.x", "servers.x"):
        file.write_text(f"[servers.x]\ncommand = 'x'\n[{section}.permissions]\n{line}\n")
        with pytest.raises(ConfigError) as failure:
            load_config(file, environ=os.environ)
        assert f"[{section}] permissions must be a table of permissions: " in str(failure.value)
        assert f", got {MISTAKES[line]} in " in str(failure.value)


def test_what_permissions_may_be_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "toolrun.toml"
    file.write_text(
        "[tool.x.permissions]\nnet = ['a.example', '*.b.example:443']\nread = ['~/a b']\nwrite = ['.']\nrun = false\n"
        "env = ['A', 'a.b-c']\n[tool.y.permissions]\nnet = true\nrun = ['git', './bin/x']\n"
    )
    found = load_config(file, environ=os.environ).tool
    assert found["x"].permissions.net == ("a.example", "*.b.example:443")
    assert (found["x"].permissions.run, found["y"].permissions.run) == (False, ("git", "./bin/x"))


def test_a_mistake_in_the_header_of_a_script_is_named(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    config = load_config(None, environ=os.environ)
    for line, wrong in MISTAKES.items():
        script.write_text(f"# /// script\n# dependencies = []\n# [tool.toolrun.permissions]\n# {line}\n# ///\n")
        with pytest.raises(ConfigError) as failure:
            read_version(script, config)
        assert str(failure.value).endswith(f", got {wrong.removesuffix(',')}")
