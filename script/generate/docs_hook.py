"""What script/docs generates while it builds: the Python reference of all public names, and llms.txt."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

PACKAGES = {
    "toolrun": "The names of most programs.",
    "toolrun.clients": "Models that use the tools.",
    "toolrun.adapters": "The executor inside other frameworks.",
    "toolrun.testing": "Test doubles, and recordings.",
    "toolrun.voice": "The voice gateway.",
    "toolrun.telemetry": "Traces and metrics.",
    "toolrun.server": "The HTTP API and the web console in a program.",
    "toolrun.cluster": "Machines of a Ray cluster.",
}
REPOSITORY = "https://github.com/toolrun/toolrun/blob/main/"
ROOT = Path(__file__).parents[2]
SECTIONS = {"guides": "Guides", "recipes": "Recipes", "reference": "Reference"}
_LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def public_names(package: str) -> dict[str, str]:
    """The public names of a package, each with the place of its definition, as `__init__.py` imports it."""
    file = ROOT / "src" / package.replace(".", "/") / "__init__.py"
    if not file.exists():
        return {}
    imports = [it for it in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(it, ast.ImportFrom)]
    return {name.name: f"{it.module}.{name.name}" for it in imports for name in it.names if name.asname == name.name}


def reference() -> str:
    """The Markdown of the reference: a directive of mkdocstrings for each name."""
    parts = []
    for package, about in PACKAGES.items():
        names = public_names(package)
        if names:
            parts.append(f"## {package}\n\n{about}\n")
            parts += [f"::: {path}\n" for path in dict.fromkeys(names.values())]
    return "\n".join(parts)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for each page."""
    del config, files
    if page.file.src_uri == "reference/python.md":
        return f"{markdown}\n{reference()}"
    # Fences say `no-run` to the tests; files outside of docs are not in the site.
    markdown = re.sub(r"^```(\w+) no-run$", r"```\1", markdown, flags=re.MULTILINE)
    directory = (ROOT / "docs" / page.file.src_uri).parent
    return _LINK.sub(lambda link: f"]({_outside(directory / link[1]) or link[1]}", markdown)


def _outside(target: Path) -> str | None:
    """Where the repository has a file that is not in the site."""
    path = target.resolve()
    is_ours = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
    return f"{REPOSITORY}{path.relative_to(ROOT).as_posix()}" if is_ours else None


def on_config(config: Any) -> Any:
    """Called by mkdocs first: pages that mkdocs.yml does not place go to the end of their section."""
    docs = Path(config["docs_dir"])
    placed = set(_flat(config["nav"]))
    for folder, title in SECTIONS.items():
        [section] = [it for it in config["nav"] if isinstance(it, dict) and title in it]
        section[title] += [
            name
            for page in sorted((docs / folder).glob("*.md"))
            if (name := page.relative_to(docs).as_posix()) not in placed
        ]
    return config


def on_post_build(config: Any) -> None:
    """Write llms.txt (each page with its address and its first paragraph), and the schema of toolrun.toml."""
    shutil.copy(ROOT / "src" / "toolrun" / "config" / "toolrun.schema.json", config["site_dir"])
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}.", ""]
    for section in config["nav"]:
        for title, pages in section.items() if isinstance(section, dict) else [("Start here", [section])]:
            lines += [f"## {title}", "", *(_entry(docs / it, docs, config["site_url"]) for it in _flat(pages)), ""]
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def _flat(pages: Any) -> list[str]:
    if isinstance(pages, str):
        return [pages]
    parts = pages.values() if isinstance(pages, dict) else pages
    return [page for part in parts for page in _flat(part)]


def _entry(page: Path, docs: Path, address: str) -> str:
    text = page.read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    paragraphs = [it for it in text.split("\n\n")[1:] if re.match(r"[A-Z]|`", it)]
    first = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    where = page.relative_to(docs).with_suffix("").as_posix()
    where = "" if where == "index" else f"{where}/"
    return f"- [{title}]({address}{where}): {first}"
