"""Which rung a system allows, found by trying: on this system, and with system calls that a filter refuses."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolrun.processes.sandbox import system_support
from toolrun.processes.sandbox.confine import Sandboxes, SandboxUnavailableError
from toolrun.processes.sandbox.policy import ProjectPaths
from toolrun.processes.sandbox.system_support import (
    BUBBLEWRAP,
    LANDLOCK,
    NAMESPACES,
    NONE,
    SystemSupport,
    find_support,
    forget_support,
    gaps,
    landlock_abi,
    probe,
    remember_support,
    try_rung,
)

LIMIT = 60.0
NEWER = {"mount_setattr": 442, "landlock": 444}
NUMBERS = {"x86_64": {"unshare": 272, **NEWER}, "aarch64": {"unshare": 97, **NEWER}}
PROBE = """
import ctypes, json, os, struct, sys
from toolrun.processes.sandbox.system_support import SandboxProbeError, probe

error = int(sys.argv.pop())
uid = int(sys.argv[1])
os.getuid = lambda: uid
numbers = [int(it) for it in sys.argv[2:]]
code = [(0x20, 0, 0, 0)]
for number in numbers:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error)]
code.append((0x06, 0, 0, 0x7FFF0000))
program = b"".join(struct.pack("=HBBI", *it) for it in code)
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)), 0, 0) == 0
try:
    found = probe()
    print(json.dumps([found.rung, dict(found.refused)]))
except SandboxProbeError as failure:
    print(json.dumps(["", {"failure": str(failure)}]))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in NUMBERS or not landlock_abi(), reason="needs Landlock"
)


def probe_without(
    *calls: str, path: str, uid: int = os.getuid(), error: int = errno.EPERM
) -> tuple[str, dict[str, str]]:
    """What is found where the system refuses these calls, by a program that takes itself for this user's."""
    numbers = [str(NUMBERS[os.uname().machine][it]) for it in calls]
    variables = {**os.environ, "PATH": path}
    command = [sys.executable, "-c", PROBE, str(uid), *numbers, str(error)]
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


@pytest.mark.skipif(bool(try_rung(NAMESPACES)), reason="needs namespaces")
def test_without_landlock_users_have_namespaces_and_root_has_nothing(tmp_path: Path) -> None:
    """Root owns the settings of the kernel and the disks, and no mount of ours is in front of them."""
    rung, refused = probe_without("landlock", path=str(tmp_path), uid=0)
    assert (rung, refused[NAMESPACES]) == (NONE, "the kernel has no Landlock, which keeps root from its settings")
    assert probe_without("landlock", path=str(tmp_path), uid=1000) == (NAMESPACES, {})


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_system_that_has_nothing_left_for_the_moment_is_not_taken_for_one_without_walls(
    tmp_path: Path, error: int
) -> None:
    """A script can take all processes of its user."""
    rung, told = probe_without("unshare", path=str(tmp_path), error=error)
    assert rung == ""
    assert told["failure"].startswith("the sandbox 'namespaces' cannot be tried: ")
    assert os.strerror(error) in told["failure"]


async def test_nothing_is_started_while_it_cannot_be_found_out_what_the_system_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter(["it timed out", *["Resource temporarily unavailable"] * 5])
    monkeypatch.setattr(system_support, "try_rung", lambda rung: next(tries))
    monkeypatch.setattr(system_support, "_PAUSES", (0.0, 0.0, 0.0))
    sandboxes = Sandboxes(tmp_path, ProjectPaths(tmp_path))
    with pytest.raises(SandboxUnavailableError, match=r"temporarily unavailable\. Nothing was started with less"):
        await sandboxes.support()
    assert not (tmp_path / "sandbox").exists(), "nothing is remembered"
    monkeypatch.setattr(system_support, "try_rung", lambda rung: "")
    assert (await sandboxes.support()).rung == NAMESPACES


def test_a_rung_that_fails_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the plan hides may be gone before it is hidden."""
    monkeypatch.setattr(system_support, "_PAUSES", (0.0, 0.0, 0.0))
    tries = iter(["mount: No such file or directory", ""])
    monkeypatch.setattr(system_support, "try_rung", lambda rung: next(tries))
    assert probe().rung == NAMESPACES


@pytest.mark.parametrize(
    ("rung", "abi", "told"),
    [
        (NAMESPACES, 7, []),
        (BUBBLEWRAP, 6, []),
        (NAMESPACES, 5, ["abstract sockets, if it has"]),
        (BUBBLEWRAP, 1, ["abstract sockets, if it has", "cannot move files"]),
        (NAMESPACES, 0, ["abstract sockets, if it has", "open the devices"]),
        (BUBBLEWRAP, 0, ["abstract sockets, if it has", "start any program, as"]),
        (LANDLOCK, 1, ["command lines", "file system", "memory", "modes", "journal", "send signals", "move files"]),
        (LANDLOCK, 7, ["command lines", "file system", "memory", "modes", "journal"]),
        (NONE, 7, ["nothing is walled off"]),
    ],
)
def test_what_a_rung_leaves_open_depends_on_the_kernel(rung: str, abi: int, told: list[str]) -> None:
    found = gaps(rung, abi)
    assert len(found) == len(told), found
    assert all(part in gap for part, gap in zip(told, found, strict=True)), found


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
