"""The files of the console: their types are right, they say what they load, and a wheel has all of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src/toolrun/server/console"
MODULES = sorted(CONSOLE.glob("*.js"))


def test_tsc_finds_nothing_wrong() -> None:
    tsc, node = ROOT / "node_modules/typescript/bin/tsc", shutil.which("node")
    if node is None or not tsc.exists():
        assert os.environ.get("CI") != "true", "node or typescript is missing: script/environment installs it"
        pytest.skip("node or typescript is missing: script/environment installs it")
    done = subprocess.run(
        [node, str(tsc), "--noEmit", "-p", str(ROOT)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_checked_and_imports_files_that_are_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n")
    named = re.findall(r'^(?:import|export) .*from "([^"]+)"', text, re.MULTILINE)
    named += re.findall(r'(?:await|=>) import\("([^"]+)"\)', text)
    assert all(name.startswith("./") for name in named)
    assert not [name for name in named if not (CONSOLE / name).exists()]


def test_the_page_has_no_inline_script_or_style_and_names_files_that_are_there() -> None:
    text = (CONSOLE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", text)
    named = re.findall(r'(?:href|src)="/console/([^"]+)"', text)
    assert len(named) > 10
    assert not [name for name in named if not (CONSOLE / name).exists()]


def test_the_colours_of_the_pages_are_tokens() -> None:
    for path in CONSOLE.glob("*.css"):
        if path.name != "tokens.css":
            assert not re.search(r"#[0-9a-fA-F]{3,8}\b|\brgb|\bhsl", path.read_text(encoding="utf-8")), path.name


def test_libraries_name_each_other_as_a_browser_can_load_them_and_have_their_licences() -> None:
    vendor = CONSOLE / "vendor"
    for path in vendor.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        named = re.findall(r'\bfrom\s*"([^"]+)"', text)
        assert not [name for name in named if not (vendor / name).exists()], path.name
        assert "sourceMappingURL" not in text
    licences = (vendor / "LICENSES.txt").read_text(encoding="utf-8")
    for package in ("preact", "@preact/signals", "@preact/signals-core", "htm", "uplot"):
        assert re.search(rf"^{package}$", licences, re.MULTILINE)


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (ROOT / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in re.sub(r'"url": "[^"]*"', "", (ROOT / "package-lock.json").read_text(encoding="utf-8"))


def test_a_wheel_has_the_pages_and_the_libraries(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run(
        [uv, "build", "--wheel", "--quiet", "--out-dir", tmp_path, ROOT],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    ours = [f"toolrun/server/console/{path.relative_to(CONSOLE)}" for path in CONSOLE.rglob("*") if path.is_file()]
    assert "toolrun/server/console/vendor/preact.js" in ours
    assert not [name for name in ours if name not in listed.stdout]
