"""What somebody has who installs toolrun: what is in the distributions, and the first commands on every Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from support.console import ROOT, environment, run
from support.installed import installed, sdist, wheel

PACKAGE = ROOT / "src" / "toolrun"


def names_in_wheel() -> set[str]:
    with zipfile.ZipFile(wheel()) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_file_of_the_package_and_nothing_else() -> None:
    sources = {f"toolrun/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*") if path.is_file()}
    wanted = {name for name in sources if "__pycache__" not in name and not name.endswith("/.sum")}
    found = {name for name in names_in_wheel() if ".dist-info/" not in name and not name.endswith("/.sum")}
    assert found == wanted
    kinds = {Path(name).suffix for name in found}
    assert {".py", ".sql", ".toml", ".txt", ".lark", ".typed"} <= kinds
    assert "toolrun/py.typed" in found


def test_the_wheel_says_what_it_needs_and_where_its_pages_are() -> None:
    with zipfile.ZipFile(wheel()) as archive:
        [name] = [it for it in archive.namelist() if it.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    base = {it for it in re.findall(r"^Requires-Dist: ([\w.-]+)", metadata, re.M) if f"{it}; extra" not in metadata}
    needed = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", metadata, re.M)
    wanted = {"click", "jsonschema-rs", "orjson", "platformdirs", "pydantic", "python-dotenv", "pyyaml", "rich", "uv"}
    assert set(needed) == wanted | {"watchfiles"}
    assert {"lark", "pint"} <= base
    for title in ("Documentation", "Source", "Changelog", "Issues"):
        assert re.search(rf"^Project-URL: {title}, https://", metadata, re.M)
    assert "pip install toolrun" in metadata  # the README


def test_the_source_distribution_has_what_git_has() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no checkout")
    ours = {it for it in listed.stdout.splitlines() if not it.startswith((".ci/", ".github/")) and (ROOT / it).exists()}
    with tarfile.open(sdist()) as archive:
        found = {it.name.partition("/")[2] for it in archive.getmembers() if it.isfile()}
    assert ours - found == set()
    assert {it for it in found - ours if "/console/vendor/" not in it} <= {"PKG-INFO"} | untracked()


def untracked() -> set[str]:
    """Files that are new and not ignored: hatchling takes them too."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return set(listed.stdout.splitlines())


FIRST_PROGRAM = """\
from toolrun import ToolExecutor, ToolManager, tool

@tool
def add(a: int, b: int = 1) -> int:
    "Add two integers."
    return a + b

result = ToolExecutor(ToolManager([add])).execute_sync("add", {"a": 1, "b": "2"})
print(result.text, *result.repairs)
"""


def first_hour(programs: Path, directory: Path) -> None:
    """The example of the README and the commands of the quickstart, in an empty directory with a clean home."""
    home, project = directory / "home", directory / "project"
    home.mkdir(parents=True)
    project.mkdir()
    variables = {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": "", "TOOLRUN_WORKERS_CACHE": ""}

    def said(*command: str) -> str:
        done = run(str(programs / command[0]), *command[1:], cwd=project, env=variables)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    assert said("python", "-c", FIRST_PROGRAM) == '3 b: "2" → 2 (number sent as text)\n'
    assert said("toolrun", "--version").startswith("toolrun ")
    assert said("toolrun", "new", "repeat").splitlines()[0] == "Wrote tools/repeat.py"
    assert said("toolrun", "call", "repeat", "text=hello", "times=2") == "hello hello\n"
    assert said("toolrun", "list").startswith("repeat  tools/repeat.py")
    assert "all is well" in said("toolrun", "doctor")
    assert "repeat" in said("toolrun", "log")
    assert said("toolrun", "new", "measure", "--script").splitlines()[0] == "Wrote tools/measure.py"
    assert re.search(r"^measure +tools/measure\.py", said("toolrun", "list"), re.M)
    assert not [path for path in home.rglob("*.py") if "toolrun" not in path.parts]


def find_python(version: str) -> str | None:
    """An interpreter of that version which really starts: on the PATH, or one of pyenv's."""
    own = sys.executable if sys.version_info[:2] == tuple(map(int, version.split("."))) else None
    brought = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python{version}"))
    for path in [own, shutil.which(f"python{version}"), *map(str, brought)]:
        if path is not None and subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_first_hour_on_every_python(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    first_hour(installed(python=python, name=version), tmp_path)


def test_the_first_hour_after_plain_pip_install(tmp_path: Path) -> None:
    """As the page says: `python -m venv`, `pip install`; no uv, no lock file."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    programs = tmp_path / "venv" / "bin"
    variables = {name: value for name, value in environment().items() if not name.startswith("UV_")}
    command = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    first_hour(programs, tmp_path)


TYPED = """\
import asyncio

from toolrun import ErrorKind, Limits, Runtime, ToolContext, ToolExecutor, ToolManager, ToolResult, ToolSettings, tool


@tool
def add(a: int, b: int = 1) -> int:
    "Add two integers."
    return a + b


@tool(timeout=2.0, name="home.wait")
async def wait(context: ToolContext, seconds: float) -> list[float]:
    "Wait."
    context.progress(1, 2, "half")
    return [seconds]


manager = ToolManager([add, wait])


@manager.add
def half(number: float) -> float:
    "Halve it."
    return number / 2


settings = {"add": ToolSettings(timeout=1)}
executor = ToolExecutor(manager, timeout=3, limits=Limits(max_concurrency=2), settings=settings)
result: ToolResult = executor.execute_sync("add", {"a": 1, "b": "2"})
total: int = add(1, 2)
quarter: float = half(0.5)
kind: ErrorKind | None = result.error_kind


async def main() -> None:
    waited: list[float] = await wait(ToolContext(), 1.0)
    async with Runtime.open("toolrun.toml") as runtime:
        print((await runtime.executor.execute("add", {"a": 2})).to_dict(), waited)


asyncio.run(main())
"""


def test_a_type_checker_of_a_user_finds_our_types(tmp_path: Path) -> None:
    """`py.typed` works: a decorated function keeps its types, so that the last line is an error and no other is."""
    (tmp_path / "program.py").write_text(f'{TYPED}wrong: str = add("1")\n')
    options = ["--strict", "--python-executable", str(installed() / "python"), "--cache-dir", str(tmp_path / "cache")]
    done = run(sys.executable, "-m", "mypy", *options, "program.py", cwd=tmp_path, env={"PYTHONPATH": ""})
    codes = re.findall(r"^program\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    assert codes == [(str(len(TYPED.splitlines()) + 1), it) for it in ("assignment", "arg-type")], done.stdout


def test_every_module_can_be_imported_without_extras_or_names_the_one_that_it_needs() -> None:
    """A module of a feature with an extra raises an ImportError of a third-party package, and no other error."""
    code = """
import importlib, pkgutil, sys, toolrun
bad = []
for module in pkgutil.walk_packages(toolrun.__path__, "toolrun."):
    if module.name.startswith("toolrun.worker") or module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        if (error.name or "toolrun").startswith("toolrun"):
            bad.append(f"{module.name}: {error}")
print(*bad, sep="\\n")
"""
    done = run(str(installed() / "python"), "-c", code, cwd=Path(sys.prefix), env={"PYTHONPATH": ""})
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
