"""The headers of scripts: the same ones for our reader, for the specification's pattern, and for uv itself."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from support.environments import LIMIT, uv_variables
from toolrun.scripts.environment import Environments, ScriptEnvironmentError, read_requirements
from toolrun.scripts.interpreter import base_interpreter
from toolrun.scripts.pep723 import find_fault, has_header, read_metadata
from toolrun.scripts.uv import find_uv

READ_BY_BOTH = {
    "plain": "# /// script\n# dependencies = []\n# ///\n",
    "no newline at the end": "# /// script\n# dependencies = []\n# ///",
    "empty comment lines": "# /// script\n#\n# dependencies = []\n#\n# ///\n",
    "a line with a space": "# /// script\n# \n# dependencies = []\n# ///\n",
    "indented content": "# /// script\n#   dependencies = []\n# ///\n",
    "no dependencies": '# /// script\n# requires-python = ">=3.9"\n# ///\n',
    "windows": "# /// script\r\n# dependencies = []\r\n# ///\r\n",
    "mixed line ends": "# /// script\r\n# dependencies = []\n# ///\r\n",
    "after a shebang": "#!/usr/bin/env python\n# /// script\n# dependencies = []\n# ///\n",
    "after a docstring": '"""doc"""\n\n# /// script\n# dependencies = []\n# ///\nx = 1\n',
    "in a docstring": '"""\n# /// script\n# dependencies = []\n# ///\n"""\n',
    "a comment follows": "# /// script\n# dependencies = []\n# ///\n# more\n",
    "closing line in a string": '# /// script\n# [tool.x]\n# t = """\n# ///\n# """\n# ///\n',
    "another type before": "# /// other\n# a = 1\n# ///\n\n# /// script\n# dependencies = []\n# ///\n",
    "a second one, not closed": "# /// script\n# dependencies = []\n# ///\n\n# /// script\n# dependencies = []\n",
    "emoji": "# /// script\n# # 🎉\n# dependencies = []\n# ///\n",
    "line separator in a comment": "# /// script\n# # a\u2028b\n# dependencies = []\n# ///\n",
    "line separator in a string": '# /// script\n# [tool.x]\n# t = "a\u2028b"\n# ///\n',
    "next line in a string": '# /// script\n# [tool.x]\n# t = "a\x85b"\n# ///\n',
    "any tool": "# /// script\n# [tool.toolrun]\n# timeout = 5\n# ///\n",
    "unknown key": "# /// script\n# bogus = 1\n# ///\n",
    "empty requires-python": '# /// script\n# requires-python = ""\n# ///\n',
}
REFUSED_BY_BOTH = {
    "nothing": "",
    "no block": "import os\n",
    "not closed": "# /// script\n# dependencies = []\n",
    "closed by code": "# /// script\n# dependencies = []\nimport os\n",
    "space after the closing line": "# /// script\n# dependencies = []\n# /// \n",
    "text after the closing line": "# /// script\n# dependencies = []\n# ///x\n",
    "closing line without a space": "# /// script\n# dependencies = []\n#///\n",
    "space after the opening line": "# /// script \n# dependencies = []\n# ///\n",
    "two spaces in the opening line": "# ///  script\n# dependencies = []\n# ///\n",
    "opening line without a space": "#/// script\n# dependencies = []\n# ///\n",
    "indented": " # /// script\n # dependencies = []\n # ///\n",
    "upper case": "# /// Script\n# dependencies = []\n# ///\n",
    "another type": "# /// pyproject\n# dependencies = []\n# ///\n",
    "two blocks": "# /// script\n# dependencies = []\n# ///\n\n# /// script\n# dependencies = []\n# ///\n",
    "two blocks in one": "# /// script\n# dependencies = []\n# ///\n# /// script\n# dependencies = []\n# ///\n",
    "two closing lines": "# /// script\n# dependencies = []\n# ///\n#\n# ///\n",
    "tab after the number sign": "# /// script\n#\tdependencies = []\n# ///\n",
    "nothing after the number sign": "# /// script\n#dependencies = []\n# ///\n",
    "blank line within": "# /// script\n\n# dependencies = []\n# ///\n",
    "code within": "# /// script\n# dependencies = []\nx = 1\n# ///\n",
    "old macintosh": "# /// script\r# dependencies = []\r# ///\r",
    "a carriage return within": "# /// script\n# dependencies = []\r# [tool.x]\n# ///\n",
    "no toml": "# /// script\n# dependencies = [\n# ///\n",
    "a key twice": "# /// script\n# dependencies = []\n# dependencies = []\n# ///\n",
    "dependencies as a string": '# /// script\n# dependencies = "six"\n# ///\n',
    "dependencies as numbers": "# /// script\n# dependencies = [1]\n# ///\n",
    "dependencies as a table": '# /// script\n# [dependencies]\n# six = "1"\n# ///\n',
    "requires-python as a number": "# /// script\n# requires-python = 3.11\n# ///\n",
    "tool as a number": "# /// script\n# tool = 1\n# ///\n",
    "nul": "# /// script\n# dependencies = []\0\n# ///\n",
    "form feed": "# /// script\n# dependencies = []\f\n# ///\n",
    "control character": "# /// script\n# # a\x1cb\n# ///\n",
    "no date": "# /// script\n# [tool.x]\n# a = 2024-13-45\n# ///\n",
    "half a surrogate pair": '# /// script\n# [tool.x]\n# a = "\\ud800"\n# ///\n',
    "nested too deeply": f"# /// script\n# x = {'[' * 5000}{']' * 5000}\n# ///\n",
    "a number of 5000 digits": f"# /// script\n# x = {'9' * 5000}\n# ///\n",
}
# What follows is explained at the top of pep723.py.
READ_BY_US = {
    "byte order mark": "\ufeff# /// script\n# dependencies = []\n# ///\n",
    "mentioned in a string before": 'x = "# /// script"\n# /// script\n# dependencies = []\n# ///\n',
}
READ_BY_UV = {
    "no line within": "# /// script\n# ///\n",
    "directly after another type": "# /// other\n# a = 1\n# ///\n# /// script\n# dependencies = []\n# ///\n",
    "inline table over lines": "# /// script\n# [tool.x]\n# t = {\n#   a = 1,\n# }\n# ///\n",
    "escape of toml 1.1": '# /// script\n# [tool.x]\n# t = "\\e"\n# ///\n',
}
LEFT_TO_UV = {
    "malformed requirement": '# /// script\n# dependencies = ["a b c"]\n# ///\n',
    "empty requirement": '# /// script\n# dependencies = [""]\n# ///\n',
    "requires-python without operator": '# /// script\n# requires-python = "3.11"\n# ///\n',
    "requires-python in words": '# /// script\n# requires-python = "three"\n# ///\n',
    "tool.uv as a number": "# /// script\n# [tool]\n# uv = 1\n# ///\n",
    "unknown setting of uv": "# /// script\n# [tool.uv]\n# bogus = 1\n# ///\n",
    "malformed source": "# /// script\n# [tool.uv.sources]\n# six = 1\n# ///\n",
}


def read_by_uv(source: str, directory: Path) -> bool:
    script = directory / "script.py"
    script.write_bytes(source.encode())
    command = [
        find_uv(),
        "sync",
        "--script",
        str(script),
        "--active",
        "--dry-run",
        "--offline",
        "--python",
        str(base_interpreter()),
    ]
    variables = uv_variables(directory) | {"VIRTUAL_ENV": str(directory / "venv")}
    return subprocess.run(command, env=variables, cwd=directory, capture_output=True, timeout=LIMIT).returncode == 0


@pytest_asyncio.fixture
async def environments(tmp_path: Path) -> AsyncIterator[Environments]:
    made = Environments(tmp_path / "cache", variables=uv_variables(tmp_path), offline=True)
    yield made
    await made.close()


@pytest.mark.parametrize("source", READ_BY_BOTH.values(), ids=READ_BY_BOTH)
def test_both_read_it(source: str, tmp_path: Path) -> None:
    assert read_metadata(source) is not None
    assert find_fault(source) is None
    assert has_header(source)
    assert read_by_uv(source, tmp_path)


@pytest.mark.parametrize("source", REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
def test_both_refuse_it(source: str, tmp_path: Path) -> None:
    assert read_metadata(source) is None
    assert find_fault(source)
    assert not read_by_uv(source, tmp_path)


@pytest.mark.parametrize("source", READ_BY_US.values(), ids=READ_BY_US)
async def test_we_read_it_and_uv_reads_the_copy(source: str, tmp_path: Path, environments: Environments) -> None:
    assert not read_by_uv(source, tmp_path)
    requirements = read_requirements(source, None)
    assert requirements is not None
    assert (await environments.interpreter(requirements)).exists()


@pytest.mark.parametrize("source", READ_BY_UV.values(), ids=READ_BY_UV)
def test_only_uv_reads_it_and_it_still_counts_as_a_script(source: str, tmp_path: Path) -> None:
    assert read_by_uv(source, tmp_path)
    assert read_metadata(source) is None
    assert has_header(source)


@pytest.mark.parametrize("source", LEFT_TO_UV.values(), ids=LEFT_TO_UV)
async def test_what_we_leave_to_uv_is_refused_with_its_explanation(
    source: str, tmp_path: Path, environments: Environments
) -> None:
    assert not read_by_uv(source, tmp_path)
    requirements = read_requirements(source, None)
    assert requirements is not None
    with pytest.raises(ScriptEnvironmentError, match="uv refuses its header"):
        await environments.interpreter(requirements)


REFERENCE = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
LINES = ["# /// script", "# ///", "# /// other", "#", "# x = 1", "# y = 2", "#z", "", "code", "# ///x", "# /// script "]


@given(st.lists(st.sampled_from(LINES), max_size=14), st.sampled_from(["", "\n"]))
def test_a_block_is_what_the_pattern_of_the_specification_finds(lines: list[str], end: str) -> None:
    source = "\n".join(lines) + end
    found = [it["content"] for it in REFERENCE.finditer(source) if it["type"] == "script"]
    one = found[0] if len(found) == 1 else ""
    readable = one.count("x = 1") <= 1 and one.count("y = 2") <= 1 and "///" not in one
    expected = {key: value for key, value in (("x", 1), ("y", 2)) if f"# {key} =" in one}
    assert read_metadata(source) == (expected if len(found) == 1 and readable else None)
