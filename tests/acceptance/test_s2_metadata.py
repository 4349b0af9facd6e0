"""S2.3: scripts declare what they need in PEP 723 metadata."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from acceptance.project import Project
from support.environments import make_wheel
from toolrun import ErrorKind, SideEffects
from toolrun.scripts.pep723 import read_metadata


@pytest.mark.scenario("S2.3.1")
async def test_s2_3_1_tool_with_dependencies(project: Project) -> None:
    """A script's dependencies are read from its header, and installed in an environment that nobody else sees."""
    requirement = make_wheel(project.root, "acceptance_package", "1.2")
    project.write(
        "tools/needy.py",
        f'''
        # /// script
        # dependencies = [
        #     "{requirement}",
        # ]
        # ///
        from importlib.metadata import version

        import acceptance_package

        def needy() -> list[str]:
            """Tell what is installed."""
            return [version("acceptance_package"), acceptance_package.__file__]
        ''',
    )
    source = (project.root / "tools/needy.py").read_text()
    assert read_metadata(source) == {"dependencies": [requirement]}
    async with project.open() as runtime:
        assert not runtime.problems
        result = await runtime.executor.execute("needy")
        assert result.success, result.text
        assert isinstance(result.result, list)
        version, file = result.result
        assert version == "1.2"
        environment = Path(str(runtime.scripts[0].environment)).parents[1]
        assert Path(str(file)).is_relative_to(environment)
        assert "\nuv = " in (environment / "pyvenv.cfg").read_text(), "uv has made it"
    assert importlib.util.find_spec("acceptance_package") is None, "the host does not have it"


@pytest.mark.scenario("S2.3.2")
async def test_s2_3_2_toml_parsing_compliance(project: Project) -> None:
    """The block is TOML behind comment signs: all of TOML is read, and what is none gives None and is not run."""
    toml = dedent(
        '''
        # a comment
        requires-python = ">=3.11"

        dependencies = [
            "one<2",  # with a comment
            'two ; python_version > "3"',
        ]

        [tool.toolrun]
        timeout = 2.5
        secrets = ["KEY # not a comment"]
        [tool.other]
        text = """
        # two
        lines"""
        big = 0xff
        '''
    )
    header = "".join(f"# {line}\n" if line else "#\n" for line in toml.splitlines())
    source = f'"""A script."""\n\n# /// script\n{header}# ///\n\nimport os\n'
    found = read_metadata(source)
    assert found == tomllib.loads(toml)
    assert found["dependencies"] == ["one<2", 'two ; python_version > "3"']
    assert found["tool"]["other"] == {"text": "# two\nlines", "big": 255}

    malformed = ["dependencies = [", "dependencies", "= 1", "a = 1\n# a = 2", "dependencies = [1]"]
    for content in malformed:
        assert read_metadata(f"# /// script\n# {content}\n# ///\n") is None, content
    assert read_metadata("# /// script\n# a = 1\n") is None, "a block without an end"
    assert read_metadata("import os\n") is None

    project.write(
        "tools/malformed.py",
        f'''
        # /// script
        # dependencies = [
        # ///
        from pathlib import Path

        from toolrun import tool

        Path("{project.root}/ran").touch()

        @tool
        def malformed() -> str:
            """A tool whose header nobody can read."""
            return "ran"
        ''',
    )
    async with project.open() as runtime:
        [problem] = runtime.problems
        assert problem.file == project.root / "tools/malformed.py"
        assert "not valid TOML" in problem.message
        refused = await runtime.executor.execute("malformed")
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
        assert "not valid TOML" in str(refused.error)
    assert not (project.root / "ran").exists(), "it is not run in this process instead"
