"""The entries and settings of the guide are read as the guide says."""

from __future__ import annotations

import re
from pathlib import Path

from toolrun import Runtime
from toolrun.builtins import BUILTINS
from toolrun.config.load import load_config

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "builtins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(yaml|toml)\n(.*?)```", PAGE, re.DOTALL)


def project(root: Path, settings: str) -> Path:
    (root / "tools").mkdir()
    (root / "tools" / "builtins.yaml").write_text(next(text for kind, text in BLOCKS if kind == "yaml"))
    (root / "toolrun.toml").write_text(settings)
    return root / "toolrun.toml"


async def test_the_entries_make_tools_and_the_settings_reach_them(tmp_path: Path) -> None:
    settings = [text for kind, text in BLOCKS if kind == "toml"]
    async with Runtime.open(project(tmp_path, settings[0])) as runtime:
        assert not runtime.problems
        assert [tool.name for tool in runtime.manager.tools] == [
            "get_current_datetime",
            "search_web",
            "control_speaker_volume",
        ]
        now = await runtime.executor.execute("get_current_datetime", {})
        assert isinstance(now.result, dict)
        assert now.result["timezone"] == "Europe/Berlin"
        refused = await runtime.executor.execute("control_speaker_volume", {"action": "louder"})
        assert not refused.success


def test_a_key_is_granted_as_the_guide_says(tmp_path: Path) -> None:
    settings = [text for kind, text in BLOCKS if kind == "toml"]
    config = load_config(project(tmp_path, settings[1]), environ={"BRAVE_API_KEY": "key"})
    assert config.tool["search_web"].secrets == ("BRAVE_API_KEY",)
    assert config.tool["search_web"].config == {"provider": "brave"}
    assert config.secrets == {"BRAVE_API_KEY": "key"}


def test_the_table_has_every_handler() -> None:
    table = PAGE.split("## The entries")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(BUILTINS)


def test_the_table_of_settings_has_every_setting_of_the_example() -> None:
    used = {
        key
        for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[:1]
        for key in re.findall(r"(?m)^(\w+) =", text)
    }
    table = PAGE.split("## Their settings")[1].split("## Searching")[0]
    assert used <= set(re.findall(r"^\| [^|]* ?\| `(\w+)` \|", table, re.MULTILINE))
