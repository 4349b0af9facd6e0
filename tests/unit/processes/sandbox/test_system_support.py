"""Which rung a system allows, found by trying: on this system, and with system calls that a filter refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolrun.processes.sandbox.system_support import (
    BUBBLEWRAP,
    LANDLOCK,
    NAMESPACES,
    NONE,
    SystemSupport,
    find_support,
    forget_support,
    landlock_abi,
    probe,
    remember_support,
    try_rung,
)

LIMIT = 60.0
NEWER = {"mount_setattr": 442, "landlock": 444}
NUMBERS = {"x86_64": {"unshare": 272, **NEWER}, "aarch64": {"unshare": 97, **NEWER}}
PROBE = """
import ctypes, json, struct, sys
from toolrun.processes.sandbox.system_support import probe

numbers = [int(it) for it in sys.argv[1:]]
code = [(0x20, 0, 0, 0)]
for number in numbers:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
code.append((0x06, 0, 0, 0x7FFF0000))
program = b"".join(struct.pack("=HBBI", *it) for it in code)
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)), 0, 0) == 0
found = probe()
print(json.dumps([found.rung, dict(found.refused)]))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in NUMBERS or not landlock_abi(), reason="needs Landlock"
)


def probe_without(*calls: str, path: str) -> tuple[str, dict[str, str]]:
    """What is found where the system refuses these calls."""
    numbers = [str(NUMBERS[os.uname().machine][it]) for it in calls]
    variables = {**os.environ, "PATH": path}
    command = [sys.executable, "-c", PROBE, *numbers]
    done = subprocess.run(command, env=variables, capture_output=True, timeout=LIMIT, check=True)
    rung, refused = json.loads(done.stdout)
    return rung, refused


def test_bubblewrap_is_next_where_only_that_program_is_allowed_its_walls() -> None:
    if reason := try_rung(BUBBLEWRAP):
        pytest.skip(reason)
    rung, refused = probe_without("mount_setattr", path=str(Path(shutil.which("bwrap") or "").parent))
    assert (rung, list(refused)) == (BUBBLEWRAP, [NAMESPACES])
    assert "Operation not permitted" in refused[NAMESPACES]


def test_landlock_is_next_without_bubblewrap(tmp_path: Path) -> None:
    rung, refused = probe_without("unshare", path=str(tmp_path))
    assert (rung, list(refused)) == (LANDLOCK, [NAMESPACES, BUBBLEWRAP])
    assert "unshare: Operation not permitted" in refused[NAMESPACES]
    assert refused[BUBBLEWRAP] == "bubblewrap (bwrap) is not installed"


def test_there_are_no_walls_without_landlock_and_namespaces(tmp_path: Path) -> None:
    rung, refused = probe_without("unshare", "landlock", path=str(tmp_path))
    assert (rung, list(refused)) == (NONE, [NAMESPACES, BUBBLEWRAP, LANDLOCK])
    assert refused[LANDLOCK] == "the kernel has no Landlock"


def test_what_was_found_is_believed_until_it_is_forgotten_or_the_system_boots_again(tmp_path: Path) -> None:
    here = probe()
    other = SystemSupport(NONE, 0, {NAMESPACES: "as was found"})
    remember_support(tmp_path, other)
    assert find_support(tmp_path) == other, "it was not tried again"
    forget_support(tmp_path)
    assert find_support(tmp_path) == here
    remember_support(tmp_path, other)
    [file] = (tmp_path / "sandbox").iterdir()
    file.rename(file.with_name("of-another-boot.json"))
    assert find_support(tmp_path) == here
    assert [it.name for it in (tmp_path / "sandbox").iterdir()] == [file.name]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rung": "namespaces"}', '{"rung": 1, "abi": "x", "refused": 3}'])
def test_a_damaged_memory_is_not_believed(tmp_path: Path, content: str) -> None:
    here = find_support(tmp_path)
    [file] = (tmp_path / "sandbox").iterdir()
    file.write_text(content)
    assert find_support(tmp_path) == here
