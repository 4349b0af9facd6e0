"""The kernel itself: its system calls, its settings and devices. Only behind walls, as root could do damage without."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sandbox.conftest import WALLS
from sandbox.place import Place

BEHIND_WALLS = pytest.mark.parametrize("place", WALLS, ids=str, indirect=True)
ON_X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
SETTINGS = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"),
    *("/proc/self/mem", "/proc/self/oom_score_adj", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state"),
)


@ON_X86
@BEHIND_WALLS
def test_calls_that_no_tool_needs_are_refused(place: Place) -> None:
    found = place.attack("calls", tool="prober")
    assert {name for name, error in found.items() if error == "ENOSYS"} == {"clone3", "openat2"}
    assert {error for name, error in found.items() if name not in ("clone3", "openat2")} == {"EPERM"}, found


@ON_X86
@BEHIND_WALLS
def test_no_namespace_is_made_inside(place: Place) -> None:
    found = place.attack("namespaces", tool="prober")
    assert len(found) == 15
    assert set(found.values()) == {"EPERM"}, found


@ON_X86
@BEHIND_WALLS
def test_a_call_of_another_architecture_ends_its_process(place: Place) -> None:
    assert place.attack("other_architecture", tool="prober") == signal.SIGSYS


@ON_X86
@BEHIND_WALLS
def test_the_families_of_sockets_are_those_of_the_internet_and_of_this_machine(place: Place) -> None:
    assert place.attack("families", tool="prober") == [1, 2, 10, 16]


@ON_X86
@BEHIND_WALLS
def test_nothing_can_be_typed_into_a_terminal(place: Place) -> None:
    assert set(place.attack("typing", tool="prober").values()) == {"EPERM"}


@BEHIND_WALLS
def test_no_setting_of_the_kernel_can_be_changed(place: Place) -> None:
    """Root owns them, so that it needs no capability."""
    found = place.attack("opened", tool="prober", paths=SETTINGS, flags=os.O_WRONLY)
    assert "ok" not in found.values(), found


@BEHIND_WALLS
def test_no_device_can_be_opened_but_those_that_every_program_needs(place: Place) -> None:
    needed = {"null", "zero", "full", "random", "urandom", "ptmx", "tty"}
    there = (it for it in Path("/dev").iterdir() if it.name not in needed and not it.is_symlink())
    devices = ["/dev/mem", *(str(it) for it in there if it.is_block_device() or it.is_char_device())]
    for flags in (os.O_RDONLY, os.O_WRONLY):
        found = place.attack("opened", tool="prober", paths=devices, flags=flags)
        assert "ok" not in found.values(), found
