"""The documentation as a site: it builds strictly and without a network, and its pages fetch nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from support.console import ROOT, environment

pytestmark = pytest.mark.xdist_group("site")
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=\"?([^\s\">]+)"
    r"|<link\b(?=[^>]*\srel=\"?(?:stylesheet|icon|preload|preconnect|dns-prefetch|modulepreload))[^>]*\shref=\"?([^\s\">]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(directory)]
    alone = ["unshare", "--map-root-user", "--net"]  # a network namespace with nothing in it
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        alone = []
    variables = environment({"NO_MKDOCS_2_WARNING": "1"})
    done = subprocess.run(
        [*alone, *build], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    fetched = {(page.name, it) for page in pages for pair in FETCHED.findall(page.read_text()) for it in pair if it}
    assert fetched
    assert not [it for it in fetched if urlsplit(it[1]).netloc]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", styles)


def test_links_inside_of_the_site_lead_to_a_page(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for link in re.findall(r"<a [^>]*?href=\"?([^\s\">]+)", page.read_text()):
            parts = urlsplit(link)
            if not (parts.scheme or parts.netloc) and parts.path:
                target = page.parent / unquote(parts.path)
                if not (target / "index.html").exists() and not target.is_file():
                    broken.append((page.relative_to(site), link))
    assert broken == []


def test_the_search_finds_words_of_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    assert {place.rstrip("/") or "." for place in places} == pages


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "reference" / "python" / "index.html").read_text()
    headings = set(re.findall(r"<h3 id=\"?[\w.]*?(\w+)\"? ", page))
    packages = {it.parent for it in (ROOT / "src" / "toolrun").glob("*/__init__.py") if "export(" in it.read_text()}
    named = {f"toolrun.{it.name}" for it in packages} - {"toolrun.schema"}  # which only toolrun uses
    assert named >= {"toolrun.adapters", "toolrun.clients", "toolrun.server", "toolrun.telemetry", "toolrun.testing"}
    for package in ("toolrun", *sorted(named)):
        names = {name for name in import_module(package).__all__ if not name.startswith("__")}
        assert names - headings == set(), package


def test_llms_txt_names_every_page_of_the_site(site: Path) -> None:
    address = yaml.safe_load(re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text()))["site_url"]
    text = (site / "llms.txt").read_text()
    linked = re.findall(r"^- \[.+?\]\((.+?)\): \S", text, re.MULTILINE)
    pages = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    assert {it.removeprefix(address).rstrip("/") or "." for it in linked} == pages
    assert text.startswith("# toolrun\n\n> Runs the tools that AI models call.\n")


def test_the_schema_of_the_configuration_is_where_it_says(site: Path) -> None:
    schema = json.loads((site / "toolrun.schema.json").read_text())
    address = yaml.safe_load(re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text()))["site_url"]
    assert schema["$id"] == f"{address}toolrun.schema.json"
