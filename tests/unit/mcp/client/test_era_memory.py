"""What is remembered of the eras of servers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from toolrun.config.model import ServerSettings
from toolrun.mcp.client import era_memory
from toolrun.mcp.client.era_memory import EraMemory, RememberedServer

SETTINGS = ServerSettings(command="server", args=("--x",))
OLD = RememberedServer("2025-11-25", "old 1")


def memory(root: Path, settings: ServerSettings = SETTINGS) -> EraMemory:
    return EraMemory(root / "cache", root, settings)


def test_what_is_remembered_is_found_by_the_next_one(tmp_path: Path) -> None:
    assert memory(tmp_path).recall() is None
    memory(tmp_path).remember(OLD)
    assert memory(tmp_path).recall() == OLD
    memory(tmp_path).forget()
    assert memory(tmp_path).recall() is None
    assert [it.name for it in (tmp_path / "cache").iterdir()] == ["mcp-eras.json"]


@pytest.mark.parametrize(
    "other",
    [
        replace(SETTINGS, command="other"),
        replace(SETTINGS, args=("--y",)),
        replace(SETTINGS, cwd="there"),
        ServerSettings(url="http://x.example"),
    ],
    ids=["command", "args", "cwd", "url"],
)
def test_each_server_has_its_own(tmp_path: Path, other: ServerSettings) -> None:
    memory(tmp_path).remember(OLD)
    assert memory(tmp_path, other).recall() is None
    memory(tmp_path, other).remember(RememberedServer("2026-07-28", "new 2"))
    memory(tmp_path, other).forget()
    assert memory(tmp_path).recall() == OLD


def test_another_version_of_toolrun_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory(tmp_path).remember(OLD)
    monkeypatch.setattr(era_memory, "__version__", "999")
    assert memory(tmp_path).recall() is None


def test_a_place_that_cannot_be_written_to_is_no_memory(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    memory(tmp_path).remember(OLD)
    memory(tmp_path).forget()
    assert memory(tmp_path).recall() is None


def test_the_memory_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(era_memory, "_MAX_ENTRIES", 3)
    servers = [replace(SETTINGS, command=f"server-{number}") for number in range(5)]
    for settings in servers:
        memory(tmp_path, settings).remember(OLD)
    assert [memory(tmp_path, it).recall() for it in servers] == [None, None, OLD, OLD, OLD]


def test_servers_that_are_remembered_at_the_same_time_are_all_remembered(tmp_path: Path) -> None:
    servers = [replace(SETTINGS, command=f"server-{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda it: memory(tmp_path, it).remember(OLD), servers))
    assert [memory(tmp_path, it).recall() for it in servers] == [OLD] * 20
