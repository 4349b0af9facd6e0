"""Every example of the documentation runs with just the packages that its page names, and prints what the page says."""

from __future__ import annotations

import html
import re
import runpy
import shlex
import shutil
from functools import cache
from pathlib import Path

import pytest
import uv

from support.console import run
from support.installed import installed, needs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
QUICKSTART = ROOT / "docs/quickstart.md"
IGNORED = shutil.ignore_patterns("__pycache__", ".toolrun")
BLOCK = re.compile(r"^```(\w+)( no-run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WAITING = re.compile(r"^Waiting for the MCP servers? .*, still connecting, .*\n", re.MULTILINE)
"""What a person on a busy machine is told beside the answer."""


def examples(page: Path) -> list[tuple[str, str | None]]:
    """The Python blocks of a page in order, each with the text block that directly follows it."""
    text = page.read_text()
    found: list[tuple[str, str | None]] = []
    previous_end = -1
    for match in BLOCK.finditer(text):
        if match[1] == "python" and not match[2]:
            found.append((match[3], None))
            previous_end = match.end()
        elif match[1] == "text" and text[previous_end : match.start()].strip() == "" and previous_end >= 0:
            found[-1] = (found[-1][0], match[3])
            previous_end = -1
    return found


def newcomer(page: Path, directory: Path) -> dict[str, str]:
    """The variables of somebody who has installed what the page says, and whose home is empty."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    path = f"{installed(needs(page))}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(home), "VIRTUAL_ENV": "", "PYTHONPATH": "", "UV_CACHE_DIR": uv_cache()}


@cache
def uv_cache() -> str:
    """uv's own cache of this machine: packages need not be downloaded again for an empty home."""
    return run(uv.find_uv_bin(), "cache", "dir", cwd=ROOT).stdout.strip()


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program = project / f"{page.stem}_examples.py"
    program.write_text("\nprint('\\0', end='')\n".join(code for code, _ in examples(page)))
    done = run(str(installed(needs(page)) / "python"), str(program), cwd=project, env=newcomer(page, tmp_path))
    assert done.returncode == 0, done.stderr
    for number, ((_, expected), printed) in enumerate(zip(examples(page), done.stdout.split("\0"), strict=True), 1):
        if expected is not None:
            wanted = ".*".join(map(re.escape, expected.split("…")))
            assert re.fullmatch(wanted, printed, re.DOTALL), f"example {number} printed:\n{printed}"


def test_the_commands_of_the_quickstart_print_what_it_says(tmp_path: Path) -> None:
    [session] = [match[3] for match in BLOCK.finditer(QUICKSTART.read_text()) if match[1] == "console"]
    project = tmp_path / "project"
    project.mkdir()
    for step in session.split("$ ")[1:]:
        command, _, expected = step.partition("\n")
        program = [str(installed() / "toolrun"), *shlex.split(command)[1:]]
        done = run(*program, cwd=project, env=newcomer(QUICKSTART, tmp_path))
        wanted = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(wanted, done.stdout, re.DOTALL), f"{command} printed:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("guide", "commands"),
    [
        ("install.md", 2),
        ("which-tool.md", 4),
        ("guides/scripts.md", 8),
        ("guides/mcp.md", 3),
        ("guides/recording.md", 5),
        ("guides/conversations.md", 3),
        ("guides/approvals.md", 8),
        ("guides/journal.md", 7),
        ("recipes/pytest.md", 1),
    ],
)
def test_the_files_and_commands_of_a_guide_do_what_it_says(guide: str, commands: int, tmp_path: Path) -> None:
    """Its blocks in order: a file that names itself is written, commands are run."""
    project, steps, page = tmp_path / "project", 0, ROOT / "docs" / guide
    if guide == "guides/journal.md":  # it calls the tools of the quickstart
        shutil.copytree(ROOT / "examples" / "quickstart", project, ignore=IGNORED)
    else:
        (project / "tools").mkdir(parents=True)
    for kind, _, content in BLOCK.findall(page.read_text()):
        named = re.match(r"# (\S+\.(?:py|toml))\n", content)
        if named is not None:
            (project / named[1]).write_text(content)
        for step in content.split("$ ")[1:] if kind == "console" else ():
            command, _, expected = step.partition("\n")
            variables = newcomer(page, tmp_path) | {"TOOLRUN_WORKERS_CACHE": str(tmp_path / "cache")}
            done = run("bash", "-c", f"{{ {command}; }} 2>&1", cwd=project, env=variables)
            wanted = ".*".join(map(re.escape, expected.split("…")))
            printed = WAITING.sub("", done.stdout)
            assert re.fullmatch(wanted, printed, re.DOTALL), f"{command} printed:\n{done.stdout}"
            steps += 1
    assert steps == commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_picture_of_the_readme_shows_what_its_commands_print(tmp_path: Path) -> None:
    """After a change of the words: python script/generate/terminal_picture.py."""
    script = runpy.run_path(str(ROOT / "script/generate/terminal_picture.py"))
    texts = re.findall(r"<text [^>]*>(.*?)</text>", (ROOT / "docs/images/terminal.svg").read_text(), re.DOTALL)
    shown = _without_times_and_blanks(html.unescape("".join(texts)))
    project = shutil.copytree(ROOT / "examples/quickstart", tmp_path / "project", ignore=IGNORED)
    for command in script["COMMANDS"][:2]:  # the others make an environment, and wait for a deadline
        done = run("bash", "-c", f"{{ {command}; }} 2>&1", cwd=project, env=newcomer(QUICKSTART, tmp_path))
        for line in [command, *done.stdout.splitlines()]:
            assert _without_times_and_blanks(line) in shown


def _without_times_and_blanks(text: str) -> str:
    return re.sub(r"\s|\d+[\d.:]*(?= ms\b| info\b)", "", text.replace("\xa0", " "))


def test_the_sections_that_links_name_exist() -> None:
    """`mkdocs build --strict` checks those between pages of the site; GitHub shows the others too."""
    broken = []
    for page in [*ROOT.glob("*.md"), *PAGES[1:]]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text):
            target = page.parent / path if path else page
            if target.suffix == ".md" and anchor not in sections(target):
                broken.append(f"{page.name}: {path}#{anchor}")
    assert broken == []


def sections(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", it) for it in re.findall(r"^#+ (.*)", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", it.lower()).strip().replace(" ", "-") for it in titles}


def test_systemd_understands_the_unit_of_the_recipe(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    [unit] = re.findall(
        r"^```ini\n(.*?)^```$", (ROOT / "docs/recipes/systemd.md").read_text(), re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "toolrun.service"
    file.write_text(unit.replace("/opt/toolrun/bin/toolrun", "/bin/true").replace("User=toolrun", "User=daemon"))
    done = run("systemd-analyze", "verify", str(file), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_line_of_the_recipe_for_cron_is_a_command(tmp_path: Path) -> None:
    """As cron hands it to a shell: `\\%` is `%`, and the first five words are the time."""
    [line] = re.findall(r"^0 7 .*$", (ROOT / "docs/recipes/cron.md").read_text(), re.MULTILINE)
    (tmp_path / "tools").mkdir()
    (tmp_path / "toolrun.toml").touch()
    source = (
        'from toolrun import tool\n@tool\ndef daily_report(day: str) -> str:\n    "Report."\n    return f"of {day}"\n'
    )
    (tmp_path / "tools" / "report.py").write_text(source)
    command = (
        line.split(maxsplit=5)[5].replace("\\%", "%").replace("/opt/reports/bin/toolrun", str(installed() / "toolrun"))
    )
    command = command.replace("/opt/reports/toolrun.toml", str(tmp_path / "toolrun.toml"))
    command = command.replace("/var/www/report.txt", "report.txt")
    for _ in range(2):
        done = run("/bin/sh", "-c", command, cwd=tmp_path, env=newcomer(QUICKSTART, tmp_path))
        assert (done.returncode, done.stdout, (tmp_path / "report.txt").read_text()) == (0, "", "of today\n"), (
            done.stderr
        )
    logged = run(str(installed() / "toolrun"), "log", cwd=tmp_path, env=newcomer(QUICKSTART, tmp_path)).stdout
    assert len(logged.splitlines()) == 1


def test_the_api_page_has_exactly_the_public_names() -> None:
    import toolrun

    rows = [
        line.split("|")[1] for line in (ROOT / "docs/reference/api.md").read_text().splitlines() if line[:3] == "| `"
    ]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    of_adapters = {"ToolrunTool", "get_executor", "get_runtime"}
    assert named - of_adapters == set(toolrun.__all__) - {"__version__"}


PROJECTS = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md") if "$ " in path.read_text())


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_small_project_does_what_its_page_says(project: Path, tmp_path: Path) -> None:
    """In one shell: a variable that is set stays set."""
    page, copy = project / "README.md", tmp_path / "project"
    shutil.copytree(project, copy, ignore=IGNORED)
    files = [file for file in copy.rglob("*.*") if file.suffix != ".md"]
    assert max(len(file.read_text().splitlines()) for file in files) <= 30
    lines = [line for file in copy.rglob("*.*") if file.suffix != ".md" for line in file.read_text().splitlines()]
    assert len([line for line in lines if line.strip() and not line.startswith("#")]) <= 30
    sessions = [content for kind, _, content in BLOCK.findall(page.read_text()) if kind == "console"]
    steps = [step.partition("\n") for session in sessions for step in session.split("$ ")[1:]]
    script = "".join(f"{{ {command}; }} 2>&1\nprintf '\\0'\n" for command, _, _ in steps)
    done = run("bash", "-c", script, cwd=copy, env=newcomer(page, tmp_path))
    for (command, _, expected), printed in zip(steps, done.stdout.split("\0"), strict=False):
        wanted = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(wanted, printed, re.DOTALL), f"{command} printed:\n{printed}"
    assert len(PROJECTS) == 5
