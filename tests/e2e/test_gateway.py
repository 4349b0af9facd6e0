"""`toolrun serve` in front of another server: what it passes on is what that server said.

The same requests go to the server itself and to toolrun, as raw JSON, and the answers are compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_servers.rich import RESULTS
from support.console import write_project
from support.raw_mcp import HELLO, gateway, on_stdio, said
from support.serving import served

RICH = Path(__file__).parents[1] / "mcp_servers" / "rich.py"


def project(root: Path, era: str, more: str = "") -> Path:
    root = write_project(root)
    (root / "toolrun.toml").write_text(
        f'{more}\n[servers.rich]\ncommand = "{sys.executable}"\nargs = ["{RICH}", "{era}"]\n'
    )
    return root


@pytest.mark.parametrize("client", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_a_server_says_arrives_as_it_is(transport: str, upstream: str, client: str, tmp_path: Path) -> None:
    own_era = "legacy" if upstream == "legacy" else "2026-07-28"
    with (
        on_stdio([sys.executable, str(RICH), upstream], tmp_path, own_era) as directly,
        gateway(transport, project(tmp_path, upstream), client) as through,
    ):
        tools = said(directly("tools/list"))["tools"]
        assert said(through("tools/list"))["tools"] == tools
        for tool in RESULTS:
            expected = said(directly("tools/call", name=tool, arguments={}))
            assert said(through("tools/call", name=tool, arguments={})) == expected, tool
        failed = {"name": "failed_bare", "arguments": {"raise": True}}
        fault, told = directly("tools/call", **failed)["error"], said(through("tools/call", **failed))
        assert told["content"] == [{"type": "text", "text": f"{fault['message']}\n{json.dumps(fault['data'])}"}]
        about = told["_meta"]
        assert (about["toolrun/errorCode"], about["toolrun/errorData"]) == (fault["code"], fault["data"])
        if upstream == "modern":
            for tool in (
                "listing",
                "word",
            ):  # structured content that is no object: the older protocol has no such thing
                expected = said(directly("tools/call", name=tool, arguments={}))
                found = said(through("tools/call", name=tool, arguments={}))
                if client == "legacy":
                    expected.pop("structuredContent")
                assert found == expected

        for uri in ("note:///1", "note:///2", "note:///listed", "ui://chart"):
            assert said(through("resources/read", uri=uri)) == said(directly("resources/read", uri=uri)), uri
        listed = said(through("resources/list"))["resources"]
        assert [it["uri"] for it in listed] == ["note:///listed", "x:/"]
        assert listed[0] == {"uri": "note:///listed", "name": "listed", "size": 6, "_meta": {"l": 1}}
        assert said(through("resources/templates/list")) == {"resourceTemplates": []}
        gone = through("resources/read", uri="x:/")["error"]  # it is listed, and its server does not find it
        assert gone == directly("resources/read", uri="x:/")["error"]
        unknown = through("resources/read", uri="note:///large")["error"]  # it is there, but nothing names it
        assert unknown["code"] == (-32002 if client == "legacy" else -32602)
        assert "no result of a tool has linked it" in unknown["message"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_answer_beyond_the_limit_is_an_error_that_says_so(transport: str, tmp_path: Path) -> None:
    tools = '''
        @tool
        async def text(size: int) -> str:
            """A text."""
            return "x" * size

        @tool
        async def linked() -> list[dict[str, str]]:
            """A link."""
            return [{"type": "resource_link", "uri": "note:///large", "name": "large"}]
    '''
    write_project(tmp_path, tools=tools)
    (tmp_path / "toolrun.toml").write_text("[serve]\nmax_result_mb = 1\n")
    with gateway(transport, tmp_path, "2026-07-28") as ask:
        whole = ask("tools/call", name="text", arguments={"size": 999_000})["result"]
        assert (whole["isError"], len(whole["content"][0]["text"])) == (False, 999_000)
        refused = ask("tools/call", name="text", arguments={"size": 1_000_001})["result"]
        assert refused["isError"] is True
        assert "1,000,000 at most" in refused["content"][0]["text"]
        assert "[serve] max_result_mb" in refused["content"][0]["text"]
        assert refused["_meta"]["toolrun/sideEffects"] == "unknown"


@pytest.mark.parametrize("client", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_resources_are_declared_only_where_a_server_has_them(transport: str, client: str, tmp_path: Path) -> None:
    puppet = RICH.with_name("puppet.py")
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    without = write_project(tmp_path / "without")
    (without / "toolrun.toml").write_text(f'[servers.p]\ncommand = "{sys.executable}"\nargs = ["{puppet}"]\n')
    for root, has_resources in ((without, False), (project(tmp_path / "with", "legacy"), True)):
        with gateway(transport, root, client) as ask:
            if client == "legacy":
                greeting = ask("initialize", **HELLO)
            else:
                greeting = ask("server/discover")
            assert ("resources" in greeting["result"]["capabilities"]) is has_resources
            answer = ask("resources/list")
            assert ("result" in answer) is has_resources
            if not has_resources:
                assert answer["error"]["code"] == -32601
                assert ask("resources/read", uri="note:///1")["error"]["code"] == -32601


@pytest.mark.parametrize("client", ["legacy", "2026-07-28"])
def test_two_gateways_in_a_row_change_nothing_either(client: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    second = write_project(tmp_path / "second")
    with (
        on_stdio([sys.executable, str(RICH)], tmp_path, "legacy") as directly,
        served(cwd=project(tmp_path / "first", "legacy")) as first,
    ):
        (second / "toolrun.toml").write_text(f'[servers.first]\nurl = "{first.url}"\n')
        with gateway("stdio", second, client) as through:
            assert said(through("tools/list"))["tools"] == said(directly("tools/list"))["tools"]
            for tool in RESULTS:
                expected = said(directly("tools/call", name=tool, arguments={}))
                assert said(through("tools/call", name=tool, arguments={})) == expected, tool
            for uri in ("note:///1", "note:///2", "note:///listed", "ui://chart"):
                assert said(through("resources/read", uri=uri)) == said(directly("resources/read", uri=uri)), uri
