"""The house rules that tools can check: the picture of the rooms, what the import contracts see, and sizes.

Which imports are allowed is checked by `lint-imports` in `script/test`; this file checks that nothing escapes it.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from token import COMMENT
from typing import Any

import pytest
from grimp import build_graph

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "toolrun"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE = 400
LONGEST_FUNCTION = 50

NO_ROOMS = {"__init__", "__main__"}
"""The public names, and `python -m toolrun`: they may import anything."""
UNSEEN = {"toolrun.worker.sdk.toolrun_sdk"}
"""Scripts import it by its bare name, so its folder is not a package. `test_the_worker_…` reads it below."""
FILES_WITH_ONE_NAME = {
    "__init__": "a package has one",
    "__main__": "`python -m toolrun`, and what a worker's interpreter runs",
    "anthropic": "the provider, and its dialect",
    "approvals": "the command is named like itself",
    "describe": "the command is named like itself",
    "effects": "the command is named like itself",
    "openai": "the provider, and its dialect",
    "log": "the command is named like itself",
    "serve": "the command is named like itself",
}
CLASSES_WITH_ONE_NAME = {
    "Done": "public: in `toolrun`, its twin for scripts in `toolrun_sdk`, and the end of a turn in `toolrun.clients`",
    "InvalidArgumentsError": "the worker raises what the host reports",
    "ToolError": "public: in `toolrun`, and its twin for scripts in `toolrun_sdk`",
}
SUPPRESSION = re.compile(r"noqa(: [A-Z]+\d+(, [A-Z]+\d+)*)?|type: ignore(\[[\w, -]+\])?")
HEADING = "## Rooms, and who may import whom"


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def layers_of_the_contract() -> list[set[str]]:
    [rooms] = [contract for contract in contracts() if contract.get("containers") == ["toolrun"]]
    return [{name.strip() for name in layer.split("|")} for layer in rooms["layers"]]


def layers_of_the_picture() -> list[set[str]]:
    """Each line of the picture has the rooms of a layer, then two blanks or more, then what they are for."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = text.partition(HEADING)[2].split("```")[1]
    names = [line.split("  ")[0] for line in picture.splitlines() if line and not line.startswith(" ")]
    return [{name.strip() for name in line.split("·")} for line in names]


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_the_picture_in_the_documentation_is_the_contract() -> None:
    assert layers_of_the_picture() == layers_of_the_contract()


def test_every_room_is_in_the_picture_once() -> None:
    rooms = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    pictured = [room for layer in layers_of_the_picture() for room in layer]
    assert sorted(pictured) == sorted(rooms - NO_ROOMS)


def test_every_folder_with_code_is_a_package_that_the_contracts_see() -> None:
    seen = build_graph("toolrun", cache_dir=None).modules
    assert {module_of(path) for path in FILES} - seen == UNSEEN


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract["name"])
def test_a_contract_about_a_room_places_every_file_of_it(contract: dict[str, Any]) -> None:
    if contract["type"] == "layers":
        assert contract["exhaustive"]
        assert set(contract.get("exhaustive_ignores", ())) <= NO_ROOMS


def test_an_import_that_a_contract_ignores_is_for_type_hints_or_made_when_it_is_needed() -> None:
    for contract in contracts():
        for ignored in contract.get("ignore_imports", ()):
            importer, _, imported = ignored.partition(" -> ")
            tree = ast.parse(
                (PACKAGE.parent / importer.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
            )
            at_import = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
            assert imported not in at_import
            assert imported.rpartition(".")[2] not in at_import  # from beside it


def test_every_package_with_more_than_three_files_has_a_contract() -> None:
    """A folder of three shows at a glance who imports whom."""
    files = Counter(module_of(path).rpartition(".")[0] for path in FILES if path.name != "__init__.py")
    layered = {room for contract in contracts() for room in contract.get("containers", ())}
    independent = {
        name.removesuffix(".*") for it in contracts() if it["type"] == "independence" for name in it["modules"]
    }
    assert {package for package, number in files.items() if number > 3} <= layered | independent


@pytest.mark.parametrize("path", sorted((PACKAGE / "worker").rglob("*.py")), ids=lambda path: path.name)
def test_the_worker_needs_only_the_standard_library(path: Path) -> None:
    """It runs in the environment of a script. A package that may be there is imported inside a `try` or a function."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    needed = {name.partition(".")[0] for statement in module.body for name in _imports(statement)}
    assert needed <= sys.stdlib_module_names
    assert "toolrun" not in {name.partition(".")[0] for node in ast.walk(module) for name in _imports(node)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    assert not [name for name, lines in _functions(text) if lines > LONGEST_FUNCTION]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_suppression_has_its_reason_beside_it_or_above(path: Path) -> None:
    with tokenize.open(path) as file:
        comments = {it.start[0]: it.string for it in tokenize.generate_tokens(file.readline) if it.type == COMMENT}
    bare = {line for line, comment in comments.items() if SUPPRESSION.search(comment) and not _reason(comment)}
    assert not {line for line in bare if line - 1 not in comments}


def _reason(comment: str) -> str:
    return SUPPRESSION.sub("", comment).strip("# ")


def test_no_two_files_have_the_same_name_apart_from_those_that_nobody_confuses() -> None:
    assert _repeated(path.stem for path in FILES) == set(FILES_WITH_ONE_NAME)


def test_no_two_classes_have_the_same_name_apart_from_public_ones_and_their_twins() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    classes = (node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert _repeated(classes) == set(CLASSES_WITH_ONE_NAME)


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(node: ast.AST) -> list[str]:
    """The modules that a statement imports, apart from those beside it."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []
