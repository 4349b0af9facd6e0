"""The files for GitHub and pre-commit: they parse, name scripts that exist, and agree with pyproject.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "toolrun"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]


def read(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_scripts_that_exist_and_may_be_run(path: Path) -> None:
    named = {name for step in steps(path) for name in re.findall(r"\bscript/\w+", step.get("run", ""))}
    assert all(os.access(ROOT / name, os.X_OK) for name in named)
    called = [job["uses"] for job in read(path)["jobs"].values() if "uses" in job]
    assert all((ROOT / name).is_file() for name in called)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_no_more_than_it_says_and_has_no_secret(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_the_tests_run_on_every_python_that_the_package_names() -> None:
    job = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]
    tested = job["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: "
    named = [it.removeprefix(prefix) for it in PROJECT["project"]["classifiers"] if it.startswith(prefix)]
    assert tested == [version for version in named if "." in version]
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"


def test_the_hooks_of_pre_commit_are_programs_of_the_lock_file() -> None:
    [repository] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    packages = re.findall(r"^([\w-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    package_of = {"lint-imports": "import-linter"}
    programs = [hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    assert {"ruff", "mypy"} <= set(programs)
    assert all(package_of.get(program, program) in packages for program in programs)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_files_that_a_page_for_contributors_names_exist(page: Path) -> None:
    """Paths stand in backticks, from the root of the project or of the package."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert not [target for target in links if not (page.parent / target).exists()]
    paths = re.findall(r"`((?:\w[\w.]*/)+[\w.]*)`", text)
    assert paths
    assert not [name for name in paths if not ((ROOT / name).exists() or (ROOT / "src" / "toolrun" / name).exists())]


def test_the_files_that_a_picture_of_the_architecture_names_exist_and_have_one_line() -> None:
    """A path is from the root of the package. A bare name belongs to a file of the room that the picture shows."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    pictures = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    known = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    bare = {path.rpartition("/")[2] for path in known}
    named = [name for picture in pictures for name in re.findall(r"[\w/]+\.py\b", picture)]
    assert len(named) > 50
    assert not [name for name in named if name not in (known if "/" in name else bare)]
    lines = [name for picture in pictures for name in re.findall(r"^[\w/]+\.py\b", picture, re.MULTILINE)]
    assert len(lines) == len(set(lines))


DOCKER = ROOT / "deploy" / "docker"


def test_the_image_runs_without_rights_and_builds_from_what_exists() -> None:
    """Its form only: an engine that could build it is not everywhere."""
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    instructions = [it for it, _ in lines]
    assert set(instructions) == known | set()
    assert all(":" in rest and ":latest" not in rest for it, rest in lines if it == "FROM")
    users = [rest for it, rest in lines if it == "USER"]
    assert users == ["10001"]
    assert instructions.index("USER") > max(at for at, it in enumerate(instructions) if it == "RUN")
    [health] = [rest for it, rest in lines if it == "HEALTHCHECK"]
    assert "http://127.0.0.1:8000/health" in health
    for it, rest in lines:
        if it in ("CMD", "ENTRYPOINT"):
            assert yaml.safe_load(rest) == [*yaml.safe_load(rest)]  # the form without a shell
    kept = [it[1:] for it in (ROOT / ".dockerignore").read_text().splitlines() if it.startswith("!")]
    assert not [name for name in kept if not (ROOT / name).exists()]
    assert {"src", "pyproject.toml", "README.md", "LICENSE"} <= set(kept)


def test_the_compose_file_takes_every_right_away_and_listens_on_this_machine_only() -> None:
    [service] = read(DOCKER / "compose.yaml")["services"].values()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == "10001"
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["environment"]["TOOLRUN_SERVE_TOKEN"].startswith("${TOOLRUN_SERVE_TOKEN:?")  # no start without one
    named = {it.partition(":")[0] for it in service["volumes"] if not it.startswith((".", "/"))}
    assert named == read(DOCKER / "compose.yaml")["volumes"].keys()
    assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKER / "Dockerfile"
