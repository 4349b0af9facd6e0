"""Environments as the real uv makes them, from packages on disk and from PyPI."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.environments import (
    LIMIT,
    header,
    make_wheel,
    no_processes_left,
    open_gate,
    requirements,
    runs,
    uv_variables,
    write_uv,
)
from toolrun.scripts.environment import Environments, Requirements, ScriptEnvironmentError, read_requirements
from toolrun.scripts.interpreter import base_interpreter, is_met
from toolrun.scripts.uv import find_uv

Open = Callable[..., Environments]


@pytest.fixture(scope="session")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One cache of uv's for all tests, so that each package is downloaded once."""
    return uv_variables(tmp_path_factory.mktemp("uv"))


@pytest_asyncio.fixture
async def opened(tmp_path: Path, variables: dict[str, str]) -> AsyncIterator[Open]:
    everything: list[Environments] = []

    def make(**options: object) -> Environments:
        everything.append(Environments(tmp_path / "cache", **({"variables": variables} | options)))  # type: ignore[arg-type]
        return everything[-1]

    async with asyncio.timeout(LIMIT):
        yield make
        for environments in everything:
            await environments.close()


@pytest.fixture(autouse=True)
def processes(tmp_path: Path) -> Iterator[None]:
    with no_processes_left(tmp_path):
        yield


@pytest_asyncio.fixture
async def pypi(opened: Open) -> None:
    """Skips a test where PyPI cannot be reached; in CI that is a failure."""
    try:
        await opened(extra={"UV_HTTP_RETRIES": "0"}).interpreter(requirements('dependencies = ["six", "iniconfig"]'))
    except ScriptEnvironmentError as error:
        is_offline = "cannot be reached" in str(error) or "stay offline" in str(error)
        if not is_offline or os.environ.get("CI") == "true":
            raise
        pytest.skip(f"PyPI cannot be reached: {error}")


@pytest.fixture
def tiny(tmp_path: Path) -> Requirements:
    return requirements(f'dependencies = ["{make_wheel(tmp_path, "tiny")}"]', 'requires-python = ">=3.9"')


def run(*command: object, **options: object) -> str:
    result = subprocess.run(
        [str(it) for it in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        **options,  # type: ignore[call-overload]
    )
    assert result.returncode == 0, result.stderr
    return str(result.stdout).strip()


async def failure(environments: Environments, wanted: Requirements) -> str:
    with pytest.raises(ScriptEnvironmentError) as raised:
        await environments.interpreter(wanted)
    assert environments.known(wanted) is None
    assert "\x1b" not in str(raised.value)
    return str(raised.value)


# what is made


async def test_the_environment_has_the_packages_their_commands_and_bytecode(opened: Open, tiny: Requirements) -> None:
    interpreter = await opened().interpreter(tiny)
    facts = "import os, sys, tiny; print(sys.prefix, sys.base_prefix, os.path.exists(tiny.__cached__))"
    prefix, base, compiled = run(interpreter, "-I", "-B", "-c", facts).split()
    assert Path(prefix) == interpreter.parents[1]
    assert base == sys.base_prefix, "the interpreter of this process suits the script"
    assert compiled == "True"
    assert run(interpreter.parent / "tiny") == "tiny 1.0"


async def test_packages_come_from_the_index(opened: Open, pypi: None) -> None:
    wanted = requirements('dependencies = ["six==1.16.0", "iniconfig"]')
    interpreter = await opened().interpreter(wanted)
    assert run(interpreter, "-I", "-c", "import six, iniconfig; print(six.__version__)") == "1.16.0"


async def test_the_settings_of_uv_in_the_header_are_honoured(opened: Open, pypi: None) -> None:
    wanted = requirements('dependencies = ["six"]', "[tool.uv]", 'exclude-newer = "2021-01-01T00:00:00Z"')
    interpreter = await opened().interpreter(wanted)
    assert run(interpreter, "-I", "-c", "import six; print(six.__version__)") == "1.15.0"


async def test_a_source_on_disk_is_honoured(opened: Open, tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "tiny", "2.0").partition("file://")[2]
    wanted = requirements('dependencies = ["tiny"]', "[tool.uv.sources]", f'tiny = {{ path = "{path}" }}')
    interpreter = await opened(offline=True).interpreter(wanted)
    assert run(interpreter.parent / "tiny") == "tiny 2.0"


async def test_an_environment_survives_the_pruning_of_uvs_cache(
    opened: Open, tiny: Requirements, variables: dict[str, str]
) -> None:
    environments = opened()
    interpreter = await environments.interpreter(tiny)
    run(find_uv(), "cache", "prune", env=variables)
    assert environments.known(tiny) == interpreter
    assert run(interpreter.parent / "tiny") == "tiny 1.0"


async def test_a_deleted_environment_is_made_anew(opened: Open, tiny: Requirements) -> None:
    environments = opened()
    first = await environments.interpreter(tiny)
    run("rm", "-r", first.parents[2])
    assert environments.known(tiny) is None
    second = await environments.interpreter(tiny)
    assert run(second.parent / "tiny") == "tiny 1.0"


# lock files


def locked(tmp_path: Path, variables: dict[str, str], *lines: str) -> bytes:
    script = tmp_path / "locked.py"
    script.write_text(header(*lines))
    run(find_uv(), "lock", "--script", script, env=variables)
    return script.with_name("locked.py.lock").read_bytes()


LOOSE = ('requires-python = ">=3.11"', 'dependencies = ["six"]')
EXACT = ('requires-python = ">=3.11"', 'dependencies = ["six==1.16.0"]')


async def test_a_lock_file_decides_the_versions(
    opened: Open, pypi: None, tmp_path: Path, variables: dict[str, str]
) -> None:
    lock = locked(tmp_path, variables, *LOOSE, "[tool.uv]", 'exclude-newer = "2021-01-01T00:00:00Z"')
    wanted = requirements(*LOOSE, "[tool.uv]", 'exclude-newer = "2021-01-01T00:00:00Z"', lock=lock)
    interpreter = await opened().interpreter(wanted)
    assert run(interpreter, "-I", "-c", "import six; print(six.__version__)") == "1.15.0"


async def test_a_stale_lock_file_is_an_error(
    opened: Open, pypi: None, tmp_path: Path, variables: dict[str, str]
) -> None:
    lock = locked(tmp_path, variables, *EXACT)
    message = await failure(opened(), requirements(*LOOSE[:1], 'dependencies = ["six==1.17.0"]', lock=lock))
    assert "the lock file does not match" in message
    assert "uv lock --script" in message


@pytest.mark.parametrize("lock", [b"", b"garbage {", b"\xff\xfe", b"version = 99\n"])
async def test_a_lock_file_that_cannot_be_read_is_an_error(opened: Open, lock: bytes) -> None:
    assert "the lock file cannot be read" in await failure(opened(offline=True), requirements(*EXACT, lock=lock))


# which Python


@pytest.mark.parametrize(
    "specifier",
    [
        *("", ">=3.8", ">=3.8,<4", " >= 3.8 , <4.0 ", ">=3.99", "<3.8", "==3.*", "!=3.*", ">3", "<4", "~=3.0"),
        *(f"{sign}{{0}}.{{1}}" for sign in (">=", ">", "<", "<=", "~=")),
        *(f"{sign}{{0}}.{{1}}.{{2}}" for sign in (">=", ">", "<", "<=", "==", "!=", "~=")),
        *(f"{sign}{{0}}.{{1}}.*" for sign in ("==", "!=")),
    ],
)
def test_uv_agrees_on_what_this_interpreter_meets(specifier: str, tmp_path: Path, variables: dict[str, str]) -> None:
    specifier = specifier.format(*sys.version_info[:3])
    script = tmp_path / "script.py"
    script.write_text(header(f'requires-python = "{specifier}"'))
    only = variables | {"PATH": str(base_interpreter().parent), "UV_NO_MANAGED_PYTHON": "1"}
    found = subprocess.run(
        [find_uv(), "python", "find", "--script", script], env=only, cwd=tmp_path, capture_output=True, timeout=LIMIT
    )
    assert is_met(specifier, sys.version_info[:3]) == (found.returncode == 0), found.stderr


async def test_a_python_that_is_not_there_is_an_error(opened: Open) -> None:
    message = await failure(opened(), requirements('requires-python = ">=3.99"'))
    assert message.startswith("Cannot create the environment of a script that needs Python >=3.99: no Python that")
    assert "uv python install" in message


# failures


async def test_a_package_that_does_not_exist_is_named(opened: Open, pypi: None) -> None:
    message = await failure(opened(), requirements('dependencies = ["toolrun-no-such-package-4711"]'))
    assert "a package is not in the index" in message
    assert "toolrun-no-such-package-4711 was not found" in message


async def test_versions_that_do_not_exist_are_named(opened: Open, pypi: None) -> None:
    message = await failure(opened(), requirements('dependencies = ["six>=99"]'))
    assert "Change their versions" in message
    assert "six>=99" in message


async def test_offline_only_what_is_cached_can_be_had(opened: Open, pypi: None) -> None:
    assert (await opened(offline=True).interpreter(requirements('dependencies = ["iniconfig"]'))).exists()
    message = await failure(opened(offline=True), requirements('dependencies = ["attrs"]'))
    assert "stay offline" in message
    assert "attrs" in message


async def test_an_index_that_cannot_be_reached_is_named(opened: Open) -> None:
    extra = {"UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple", "UV_HTTP_RETRIES": "0", "UV_OFFLINE": "0"}
    message = await failure(opened(extra=extra), requirements('dependencies = ["six"]'))
    assert "the package index cannot be reached" in message
    assert "127.0.0.1:1" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a file system that is full")
async def test_a_full_disk_is_an_error_and_leaves_no_half_environment(
    tmp_path: Path, tiny: Requirements, variables: dict[str, str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = await asyncio.create_subprocess_exec("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk)
    if await mounting.wait():
        pytest.skip("this machine does not let us mount a file system")
    try:
        environments = Environments(disk, variables=variables)
        assert "the disk is full" in await failure(environments, tiny)
        await environments.close()
        assert not list(disk.rglob("venv-*"))
    finally:
        run("umount", disk)


# builds

SPY = """
import json, os, pathlib
pathlib.Path({dump!r}).write_text(json.dumps(dict(os.environ)))
from setuptools import setup
setup(name="spy", version="1.0", py_modules=[])
"""


@pytest.fixture
def spy(tmp_path: Path) -> Requirements:
    """A script that needs a package whose setup.py writes down all the variables that it sees."""
    source = tmp_path / "spy"
    source.mkdir()
    (source / "setup.py").write_text(SPY.format(dump=str(tmp_path / "dump.json")))
    return requirements('dependencies = ["spy"]', "[tool.uv.sources]", f'spy = {{ path = "{source}" }}')


async def test_no_build_script_runs_unless_it_is_allowed(opened: Open, spy: Requirements, tmp_path: Path) -> None:
    assert "allow_build" in await failure(opened(), spy)
    sly = read_requirements(spy_header(spy, "[tool.uv]", "no-build = false"), None)
    assert sly is not None
    assert "allow_build" in await failure(opened(), sly), "the header cannot allow it"
    assert not (tmp_path / "dump.json").exists()


def spy_header(spy: Requirements, *lines: str) -> str:
    return header(*spy.block.splitlines(), *lines)


async def test_a_build_script_sees_no_secrets(
    opened: Open, pypi: None, spy: Requirements, tmp_path: Path, variables: dict[str, str]
) -> None:
    secrets = {"ANTHROPIC_API_KEY": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "UV_PUBLISH_TOKEN": "s3cret"}
    await opened(variables=variables | secrets, allow_build=True).interpreter(spy)
    seen = json.loads((tmp_path / "dump.json").read_text())
    assert "s3cret" not in seen.values()
    assert not secrets.keys() & seen.keys()
    of_uv = {name for name in seen if name.startswith(("UV", "LC_"))}
    assert seen.keys() - of_uv <= variables.keys() | {"NO_COLOR", "PYTHONIOENCODING", "VIRTUAL_ENV"}


# several processes

MAKE = """
import asyncio, os, sys, uv
from pathlib import Path
from toolrun.scripts.environment import Environments, read_requirements
cache, script, path_of_uv = sys.argv[1:]
uv.find_uv_bin = lambda: path_of_uv
async def main():
    environments = Environments(Path(cache), variables=os.environ, offline=True)
    print("ready", flush=True)
    sys.stdin.readline()
    print(await environments.interpreter(read_requirements(Path(script).read_text(), None)), flush=True)
asyncio.run(main())
"""


async def start_making(tmp_path: Path, variables: dict[str, str], wanted: Requirements) -> asyncio.subprocess.Process:
    """A process that makes the environment when it is told to."""
    script = tmp_path / "script.py"
    script.write_text(header(*wanted.block.splitlines()))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MAKE, tmp_path / "cache", script, tmp_path / "uv"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def test_processes_that_race_make_one_environment(
    opened: Open, tiny: Requirements, tmp_path: Path, variables: dict[str, str]
) -> None:
    write_uv(tmp_path, f'exec "{find_uv()}" "$@"')
    processes = [await start_making(tmp_path, variables, tiny) for _ in range(4)]
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * len(processes)
    interpreter = opened().known(tiny)
    assert {out.decode().strip() for out, _ in outputs} == {str(interpreter)}
    assert len(runs(tmp_path)) == 1
    assert len(list((tmp_path / "cache").rglob("venv-*"))) == 1


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_after_an_end_in_the_middle_uv_is_gone_and_the_next_making_succeeds(
    opened: Open, tiny: Requirements, tmp_path: Path, variables: dict[str, str], end: signal.Signals
) -> None:
    # All files are there when it ends: only the note that they are complete is not.
    write_uv(tmp_path, f'exec 9> "$here/gate"; "{find_uv()}" "$@"; echo made >&9; (sleep 1000) & wait')
    async with open_gate(tmp_path / "gate") as gate:
        process = await start_making(tmp_path, variables, tiny)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        assert await gate.started() == "made"
        (half,) = (tmp_path / "cache").rglob("venv-*/bin/tiny")
        process.send_signal(end)
        await process.communicate()
        await gate.ended()
    environments = opened()
    assert environments.known(tiny) is None
    interpreter = await environments.interpreter(tiny)
    assert run(interpreter.parent / "tiny") == "tiny 1.0"
    assert not half.exists()
