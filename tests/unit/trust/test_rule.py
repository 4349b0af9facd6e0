"""Which calls may be made: the rules of [approval], the tool's own settings, its author, the default."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from toolrun import ToolSettings, tool
from toolrun.config.model import ApprovalRule, ApprovalSettings
from toolrun.execution.ruling import Action
from toolrun.trust.rule import rules_of, toolset_of


@tool(name="delete_file")
def delete_file(path: str) -> None:
    """Delete a file."""


@tool(name="drop_table", annotations={"destructiveHint": True})
def drop_table(name: str) -> None:
    """Drop a table."""


class FromServer:
    name = "create_issue"
    description = "Create an issue."
    schema: ClassVar[Any] = {"type": "object"}
    source = "MCP server github"
    mcp_server = "github"
    own_name = "create_issue"

    def invoke(self, arguments: dict[str, Any]) -> None: ...


def ruling(
    candidate: Any,
    arguments: dict[str, Any] | None = None,
    *rules: dict[str, Any],
    by_model: bool = True,
    own: str = "",
    **settings: Any,
) -> Action:
    approval = ApprovalSettings(rules=tuple(ApprovalRule(**it) for it in rules), **settings)
    return rules_of(candidate, ToolSettings(approval=own), approval).ruling(arguments or {}, by_model=by_model).action


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"tool": "delete_file"}, True),
        ({"tool": "delete_*"}, True),
        ({"tool": "Delete_*"}, False),
        ({"tool": "delete"}, False),
        ({"toolset": "test_rule"}, True),
        ({"toolset": "github"}, False),
        ({"source": "*/trust/test_rule.py"}, True),
        ({"source": "/nowhere/*"}, False),
        ({"annotations": {"destructiveHint": True}}, False),
        ({"arguments": {"path": "/etc/*"}}, True),
        ({"arguments": {"path": "/home/*"}}, False),
        ({"arguments": {"name": "*"}}, False),
        ({"tool": "delete_*", "arguments": {"path": "/home/*"}}, False),
        ({"tool": "drop_*", "arguments": {"path": "/etc/*"}}, False),
    ],
)
def test_a_rule_holds_for_calls_that_match_all_of_its_parts(rule: dict[str, Any], matches: bool) -> None:
    found = ruling(delete_file, {"path": "/etc/passwd"}, {"action": "deny", **rule})
    assert found is (Action.DENY if matches else Action.ALLOW)


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("a*", "abc", True),
        ("a*", "ABC", False),
        ("a*", ["x", "abc"], True),
        ("a*", ["x"], False),
        ("a*", None, False),
        ("1*", 12, True),
        ("pages/[id].*", "pages/[id].js", True),
        ("pages/[id].*", "pages/i.js", False),
        ("what?", "what?", True),
        ("what?", "whats", False),
        ("true", True, True),
        ("*x*", {"k": "axb"}, True),
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (3, [1, 3], True),
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 2, 3], False),
        ({"k": 1}, {"k": 1}, True),
    ],
)
def test_the_value_of_an_argument_is_matched_as_json(pattern: Any, value: Any, matches: bool) -> None:
    found = ruling(delete_file, {"path": value}, {"action": "deny", "arguments": {"path": pattern}})
    assert found is (Action.DENY if matches else Action.ALLOW)


def test_an_argument_inside_an_object_is_named_with_a_dot() -> None:
    rule = {"action": "deny", "arguments": {"options.force": True}}
    assert ruling(delete_file, {"options": {"force": True}}, rule) is Action.DENY
    assert ruling(delete_file, {"options": {"force": False}}, rule) is Action.ALLOW
    assert ruling(delete_file, {"options": "force"}, rule) is Action.ALLOW
    assert ruling(delete_file, {"options.force": True}, rule) is Action.DENY


@pytest.mark.parametrize("decoy", [{"options.path": "draft-1"}, {"options.path": None}, {"options.path": []}])
def test_an_argument_that_is_named_like_one_inside_an_object_hides_none(decoy: dict[str, Any]) -> None:
    arguments = {"options": {"path": "/etc/passwd"}, **decoy}
    deny = {"action": "deny", "arguments": {"options.path": "/etc/*"}}
    allow = {"action": "allow", "arguments": {"options.path": "draft-*"}}
    assert ruling(delete_file, arguments, deny) is Action.DENY
    assert ruling(delete_file, arguments, allow, default="deny") is Action.DENY


def test_the_first_rule_that_matches_decides() -> None:
    allow = {"action": "allow", "arguments": {"path": "/tmp/*"}}
    deny = {"action": "deny", "tool": "delete_*"}
    assert ruling(delete_file, {"path": "/tmp/x"}, allow, deny) is Action.ALLOW
    assert ruling(delete_file, {"path": "/etc/x"}, allow, deny) is Action.DENY
    assert ruling(delete_file, {"path": "/tmp/x"}, deny, allow) is Action.DENY


def test_a_rule_is_named_by_its_place_in_the_file() -> None:
    rules = (ApprovalRule(action="allow", tool="other"), ApprovalRule(action="deny"))
    found = rules_of(delete_file, ToolSettings(), ApprovalSettings(rules=rules)).ruling({}, by_model=False)
    assert found.reason == "rule 2 of [approval]"


def test_rules_come_before_the_settings_of_the_tool_those_before_its_author_and_that_one_before_the_default() -> None:
    @tool(approval="deny")
    def declared() -> None:
        """Declared."""

    assert ruling(declared) is Action.DENY
    assert ruling(declared, own="ask") is Action.ASK
    assert ruling(declared, {}, {"action": "allow"}, own="ask") is Action.ALLOW
    assert ruling(declared, {}, {"action": "allow", "tool": "other"}, own="ask") is Action.ASK
    assert ruling(delete_file, default="deny") is Action.DENY
    assert ruling(declared, default="allow") is Action.DENY


def test_by_default_a_model_needs_approval_for_what_says_that_it_is_destructive_and_a_program_does_not() -> None:
    assert ruling(drop_table, by_model=True) is Action.ASK
    assert ruling(drop_table, by_model=False) is Action.ALLOW
    assert ruling(delete_file, by_model=True) is Action.ALLOW
    assert ruling(drop_table, by_model=True, default="allow") is Action.ALLOW


@pytest.mark.parametrize("value", [False, None, "true", 1])
def test_only_a_plain_true_makes_a_tool_destructive(value: Any) -> None:
    @tool(annotations={"destructiveHint": value})
    def claimed() -> None:
        """Claimed."""

    assert ruling(claimed) is Action.ALLOW


class Posing(FromServer):
    """`b__c` of the server `a`, beside a server `a__b` with a tool `c`."""

    name = own_name = "b__c"
    mcp_server = "a"
    qualified_name = "a_ca978112__b__c"


def test_no_tool_is_allowed_by_the_prefix_of_another_server() -> None:
    for action, found in (("allow", Action.ASK), ("deny", Action.DENY)):
        assert ruling(Posing(), {}, {"action": action, "tool": "a__b__c"}, default="ask") is found
    assert ruling(Posing(), {}, {"action": "allow", "tool": "a_ca978112__b__c"}, default="ask") is Action.ALLOW


class Changed(FromServer):
    annotations: ClassVar[Any] = {"readOnlyHint": True}
    agreed_annotations: ClassVar[Any] = {"destructiveHint": True}


class Unannotated(Changed):
    agreed_annotations: ClassVar[Any] = {}


def test_annotations_that_nobody_has_accepted_free_no_tool_from_approval() -> None:
    assert ruling(Changed()) is Action.ASK
    read_only = {"action": "allow", "annotations": {"readOnlyHint": True}}
    for changed in (Changed(), Unannotated()):
        assert ruling(changed, {}, read_only, default="deny") is Action.DENY
    for hint in ("readOnlyHint", "destructiveHint"):
        assert ruling(Changed(), {}, {"action": "deny", "annotations": {hint: True}}) is Action.DENY


def test_a_tool_of_a_server_belongs_to_the_toolset_of_its_server() -> None:
    assert toolset_of(FromServer()) == "github"
    assert ruling(FromServer(), {}, {"action": "deny", "toolset": "git*"}) is Action.DENY
    assert ruling(FromServer(), {}, {"action": "deny", "source": "MCP server github"}) is Action.DENY


class Remote(FromServer):
    name = "github__create_issue"
    source = "remote MCP server github"


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"source": "MCP server github"}, True),
        ({"source": "remote MCP server *"}, True),
        ({"tool": "create_issue"}, True),
        ({"tool": "github__create_issue"}, True),
        ({"tool": "gitlab__create_issue"}, False),
    ],
)
def test_a_prefix_or_an_address_takes_no_tool_out_of_a_rule(rule: dict[str, Any], matches: bool) -> None:
    assert ruling(Remote(), {}, {"action": "deny", **rule}) is (Action.DENY if matches else Action.ALLOW)


def test_what_is_allowed_by_the_name_of_one_tool_is_not_allowed_to_a_newcomer_with_that_name() -> None:
    by_name = {"action": "allow", "tool": "create_issue"}
    assert ruling(FromServer(), {}, by_name, default="deny") is Action.ALLOW
    assert ruling(Remote(), {}, by_name, default="deny") is Action.DENY
    assert ruling(FromServer(), {}, {**by_name, "tool": "github__create_issue"}, default="deny") is Action.ALLOW


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        ({"paths": ["draft-1", "draft-2"]}, Action.ALLOW),
        ({"paths": ["draft-1", "/etc/passwd"]}, Action.DENY),
        ({"paths": [["draft-1", "/etc/passwd"]]}, Action.DENY),
        ({"paths": []}, Action.DENY),
        ({}, Action.DENY),
    ],
)
def test_a_list_is_allowed_if_every_element_is(arguments: dict[str, Any], action: Action) -> None:
    assert (
        ruling(delete_file, arguments, {"action": "allow", "arguments": {"paths": "draft-*"}}, default="deny") is action
    )


@pytest.mark.parametrize(
    ("files", "allowed", "denied"),
    [
        ([{"path": "draft-1"}, {"path": "draft-2"}], True, True),
        ([{"path": "draft-1"}, {"path": "/etc/passwd"}], False, True),
        ([{"path": "draft-1"}, {"other": 1}], False, True),
        ([{"path": "/etc/passwd"}], False, False),
        ([], False, False),
    ],
)
def test_an_argument_inside_the_objects_of_a_list_is_found(files: list[Any], allowed: bool, denied: bool) -> None:
    pattern = {"arguments": {"files.path": "draft-*"}}
    allow = ruling(delete_file, {"files": files}, {"action": "allow", **pattern}, default="deny")
    deny = ruling(delete_file, {"files": files}, {"action": "deny", **pattern})
    assert (allow is Action.ALLOW, deny is Action.DENY) == (allowed, denied)


@tool
def overwrite(path: str = "/etc/motd", force: bool = True) -> None:
    """Overwrite a file."""


@pytest.mark.parametrize(
    ("arguments", "pattern", "matches"),
    [
        ({}, {"force": True}, True),
        ({"force": False}, {"force": True}, False),
        ({}, {"path": "/etc/*", "force": True}, True),
        ({"path": "x"}, {"path": "/etc/*", "force": True}, False),
    ],
)
def test_an_argument_that_is_left_out_is_its_default(arguments: Any, pattern: Any, matches: bool) -> None:
    action = ruling(overwrite, arguments, {"action": "deny", "arguments": pattern})
    assert action is (Action.DENY if matches else Action.ALLOW)


class Referring(FromServer):
    schema: ClassVar[Any] = {
        "type": "object",
        "properties": {"target": {"$ref": "#/$defs/target"}, "more": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        "$defs": {
            "target": {"type": "object", "properties": {"path": {"$ref": "#/$defs/path"}}},
            "path": {"type": "string", "default": "/etc/motd"},
            "a": {"$ref": "#/$defs/b"},
            "b": {"$ref": "#/$defs/a"},
        },
    }


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        ({"target": {}}, Action.DENY),
        ({"target": {"path": "/etc/x"}}, Action.DENY),
        ({"target": {"path": "x"}}, Action.ALLOW),
        ({}, Action.ALLOW),
    ],
)
def test_a_default_is_found_behind_references(arguments: Any, action: Action) -> None:
    rule = {"action": "deny", "arguments": {"target.path": "/etc/*"}}
    assert ruling(Referring(), arguments, rule, default="allow") is action


def test_references_that_go_in_a_circle_end() -> None:
    rule = {"action": "deny", "arguments": {"more.path": "x"}}
    assert ruling(Referring(), {"more": [{"path": "y"}]}, rule, default="allow") is Action.ALLOW
    assert ruling(Referring(), {"more": [{"path": "x"}]}, rule, default="allow") is Action.DENY


def test_a_tool_whose_calls_are_all_allowed_needs_no_gate() -> None:
    assert rules_of(delete_file, ToolSettings(), ApprovalSettings()).allows_all
    assert not rules_of(drop_table, ToolSettings(), ApprovalSettings()).allows_all
    later = ApprovalSettings(rules=(ApprovalRule(action="allow"), ApprovalRule(action="deny")))
    assert rules_of(delete_file, ToolSettings(), later).allows_all
    partly = ApprovalSettings(rules=(ApprovalRule(action="deny", arguments={"path": "x"}),))
    assert not rules_of(delete_file, ToolSettings(), partly).allows_all
