"""What is said where a package of an extra is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from toolrun.errors import MissingExtraError, UsageError
from toolrun.extra import missing

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def without(module: str, code: str) -> str:
    """What a program prints for which that module cannot be imported."""
    program = f"import sys; sys.modules[{module!r}] = None\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_the_error_is_an_import_error_that_names_package_and_extra() -> None:
    error = missing("mcp", ImportError(name="mcp_absent.server"), "toolrun serve")
    assert isinstance(error, MissingExtraError)
    assert isinstance(error, ImportError)
    assert isinstance(error, UsageError)
    assert error.name == "mcp_absent"
    said = "toolrun serve needs the package 'mcp_absent', which is not installed. Install it with: "
    assert str(error) == said + "pip install 'toolrun[mcp]'"


def test_every_extra_that_the_sources_name_exists() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = re.findall(r"toolrun\[([a-z,]+)\]", sources) + re.findall(r"\bmissing\(\s*\"([a-z,]+)\"", sources)
    assert named
    assert {extra for it in named for extra in it.split(",")} <= EXTRAS.keys()


def test_all_has_every_other_extra() -> None:
    [everything] = EXTRAS["all"]
    assert set(everything.removeprefix("toolrun[").removesuffix("]").split(",")) == EXTRAS.keys() - {"all"}


@pytest.mark.parametrize(("package", "expression"), [("lark", "1 + 1"), ("pint", "3 inch to cm")])
def test_a_calculation_without_its_packages_names_the_extra(package: str, expression: str) -> None:
    printed = without(
        package,
        "from toolrun.builtins import BUILTINS\n"
        f"try:\n    BUILTINS['math_eval']({{'expression': {expression!r}}})\n"
        "except Exception as error:\n    print(type(error).__name__, error.side_effects, error)",
    )
    wanted = f"The calculator needs the package '{package}', which is not installed. Install it with: "
    assert printed == f"ToolError not_started {wanted}pip install 'toolrun[math]'\n"


CATALOG = """\
- name: math_eval
  description: Calculate.
  parameters: {type: object, properties: {expression: {type: string}}, required: [expression]}
  implementation: {type: builtin, handler: math_eval}
"""


def test_the_calculator_is_listed_without_its_packages_and_doctor_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "catalog.yaml").write_text(CATALOG)
    file = tmp_path / "toolrun.toml"
    file.write_text("")
    command = "from toolrun.cli import main; sys.exit(main({!r}))"
    assert "math_eval" in without("lark", command.format(["list", "--config", str(file)]))
    checked = without("lark", command.format(["doctor", "--config", str(file)]))
    said = r"warning +tools +tool 'math_eval': The calculator needs the package 'lark', which is not installed\n"
    assert re.search(said + r" +→ Install it with: pip install 'toolrun\[math\]'", checked), checked


ON_A_CLUSTER = "from toolrun.processes.ray.ray_engine import RayEngine; RayEngine(None, {})"

MADE_HEAD = (
    "import tempfile; from pathlib import Path; from toolrun.cluster.credentials import make_head_credentials; "
    "make_head_credentials(Path(tempfile.mkdtemp()) / 'made', '10.0.0.1')"
)


@pytest.mark.parametrize(
    ("module", "statement", "extra"),
    [
        ("langchain_core", "from toolrun.testing import ScriptedModel", "langchain"),
        ("langchain_core", "from toolrun.voice import run_gateway", "langchain"),
        ("aiomqtt", "from toolrun.voice.mqtt import _require_aiomqtt; _require_aiomqtt()", "voice"),
        ("opentelemetry", "from toolrun.telemetry import Telemetry", "otel"),
        ("opentelemetry", "from toolrun.telemetry import open_telemetry", "otel"),
        ("ray", ON_A_CLUSTER, "ray"),
        ("cryptography", ON_A_CLUSTER, "ray"),
        ("cryptography", MADE_HEAD, "ray"),
        ("mcp", "from toolrun.server import serving", "mcp"),
        ("uvicorn", "from toolrun.server import serving", "mcp"),
    ],
)
def test_a_name_that_needs_a_package_names_the_extra(module: str, statement: str, extra: str) -> None:
    caught = f"try:\n    {statement}\nexcept ImportError as error:\n    print(error)"
    assert f"pip install 'toolrun[{extra}]'" in without(module, caught)


@pytest.mark.parametrize(
    ("package", "name", "install"),
    [
        ("fastapi", "runtime_lifespan", None),  # which is Starlette's
        ("starlette", "runtime_lifespan", "fastapi"),
        ("langchain_core", "langchain_tools", "'toolrun[langchain]'"),
        ("langchain", "ToolrunMiddleware", "'toolrun[langchain]'"),
        ("langgraph", "ToolrunNode", "'toolrun[langchain]'"),
        ("agents", "ToolrunAgent", "openai-agents"),
        ("pydantic_ai", "ToolrunToolset", "pydantic-ai-slim"),
        ("langchain_core", "AnthropicTools", None),
        ("langchain_core", "OpenAITools", None),
    ],
)
def test_an_adapter_whose_framework_is_missing_names_what_to_install(
    package: str, name: str, install: str | None
) -> None:
    printed = without(
        package,
        f"try:\n    from toolrun.adapters import {name}\n    print('imported')\n"
        "except ImportError as error:\n    print(type(error).__name__, error.name, error)",
    )
    if install is None:
        assert printed == "imported\n"
        return
    assert printed.startswith(f"MissingExtraError {package} toolrun.adapters."), printed
    said = f" needs the package '{package}', which is not installed. Install it with: pip install {install}\n"
    assert printed.endswith(said), printed


def test_a_framework_that_is_too_old_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "pydantic_ai").mkdir()
    (tmp_path / "pydantic_ai" / "__init__.py").write_text("RunContext = None\n")
    printed = without(
        "nothing",
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    from toolrun.adapters import ToolrunToolset\nexcept ImportError as error:\n    print(error)",
    )
    assert printed == (
        "toolrun.adapters.pydantic_ai needs the package 'pydantic_ai', which is installed in a version without "
        "'pydantic_ai.messages'. Install another one with: pip install pydantic-ai-slim\n"
    )


@pytest.mark.parametrize(
    ("module", "setting", "extra"),
    [("opentelemetry", "[telemetry]\nenabled = true\n", "otel"), ("ray", '[workers]\nengine = "ray"\n', "ray")],
)
def test_a_project_whose_settings_need_an_extra_names_it(module: str, setting: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text(setting)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "where.py").write_text(
        '# /// script\n# dependencies = []\n# ///\ndef where() -> str:\n    "Say."\n    return "here"\n'
    )
    code = f"""
import asyncio
from toolrun import Runtime
async def main():
    async with Runtime.open({str(tmp_path / "toolrun.toml")!r}):
        pass
try:
    asyncio.run(main())
except ImportError as error:
    print(error.name, error)
"""
    printed = without(module, code)
    wanted = f" needs the package '{module}', which is not installed. Install it with: pip install 'toolrun[{extra}]'\n"
    assert printed.startswith(f"{module} ["), printed
    assert printed.endswith(wanted), printed


def test_doctor_says_what_a_project_lacks_that_cannot_be_opened_without_it(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "where.py").write_text(
        '# /// script\n# dependencies = []\n# ///\ndef where() -> str:\n    "Say."\n    return "here"\n'
    )
    (tmp_path / "toolrun.toml").write_text('[workers]\nengine = "ray"\naddress = "10.0.0.1:6379"\n')
    path = str(tmp_path / "toolrun.toml")
    command = f"import sys\nfrom toolrun.cli import main\nsys.argv[1:] = ['doctor', '--config', {path!r}]\nmain()"
    checked = without("ray", command)
    assert re.search(r"^ok +python ", checked, re.MULTILINE), checked
    assert re.search(r"^problem +packages +\[workers\] engine = \"ray\" needs the package 'ray'", checked, re.MULTILINE)
    assert "→ Install it with: pip install 'toolrun[ray]'" in checked
