"""What must not be shown: by the name of a key, by the value of a secret, by what a terminal would do with it."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import dumps
from toolrun.redaction import Redactor, is_sensitive


@pytest.mark.parametrize(
    "key",
    [
        *("password", "PASSWORD", "dbPassword", "db_password", "password2", "new-password", "passphrase", "passwd"),
        *("secret", "client_secret", "clientSecret", "secrets", "credentials", "aws.credentials"),
        *("token", "accessToken", "X-Auth-Token", "github_token", "Authorization", "Proxy-Authorization", "auth"),
        *("apiKey", "api_key", "X-API-Key", "APIKey", "APIKEY", "OPENAI_API_KEY", "apikey", "api_keys"),
        *("privateKey", "ssh_key", "AWS_SECRET_ACCESS_KEY", "Cookie", "Set-Cookie", "cookies", "jwt", "pin", "bearer"),
    ],
)
def test_keys_that_name_a_secret(key: str) -> None:
    assert is_sensitive(key)


@pytest.mark.parametrize(
    "key",
    [
        *("", "_", "key", "keys", "keyboard", "primary_key", "sort_key", "public_key"),
        *("max_tokens", "maxTokens", "token_count", "tokenizer", "author", "authors", "authentic", "secretary"),
        *("spin", "pinned", "pin_count", "cookie_policy", "compass", "passenger"),
    ],
)
def test_keys_that_do_not(key: str) -> None:
    assert not is_sensitive(key)


def test_the_values_of_sensitive_keys_are_hidden_at_any_depth() -> None:
    given = {
        "user": "ada",
        "password": "hunter2",
        "servers": [{"url": "x.org", "headers": {"Authorization": "Bearer abc", "Accept": "*/*"}}],
        "nested": ({"apiKey": ["a", "b"]}, {"credentials": {"user": "u"}}),
        "token": None,
        "pin": 0,
        "max_tokens": 100,
    }
    before = repr(given)
    assert Redactor().value(given) == {
        "user": "ada",
        "password": "***",
        "servers": [{"url": "x.org", "headers": {"Authorization": "***", "Accept": "*/*"}}],
        "nested": [{"apiKey": "***"}, {"credentials": "***"}],
        "token": None,
        "pin": 0,
        "max_tokens": 100,
    }
    assert repr(given) == before
    deep: dict[str, object] = {"password": "hunter2"}
    for _ in range(50):
        deep = {"inner": deep}
    assert "hunter2" not in repr(Redactor().value(deep))


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        (["s3cret"], "key=s3cret&x=1", "key=***&x=1"),
        (["s3cret"], "s3crets3cret", "******"),
        (["s3cret", "s3cret-long"], "a s3cret-long b s3cret", "a *** b ***"),
        (["pass1234", "1234word"], "x pass1234word y", "x *** y"),
        (["abcd", "bcdefghij"], "abcdefghij", "***"),
        (["aaaa"], "aaaaaaaa", "***"),
        (["a.c*"], "abc* a.c*", "abc* ***"),
        (["abc", ""], "abc", "abc"),
        (['quo"te\\'], r'got "quo\"te\\"', 'got "***"'),
        (["line one\nline two"], "x line one\nline two y", "x *** y"),
        ([], '{"user": "ada", "password": "hun\\"ter2", "n": 1}', '{"user": "ada", "password": "***", "n": 1}'),
        ([], '{"pin": 1234, "api_key" : "unfinis', '{"pin": "***", "api_key" : "***"'),
        ([], 'the "password": he said', 'the "password": "***" said'),
        ([], "nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_are_hidden_wherever_they_stand_in_a_text(secrets: list[str], text: str, shown: str) -> None:
    redactor = Redactor(secrets)
    assert redactor.text(text) == shown
    assert redactor.value({"a": [text]}) == {"a": [shown]}


def test_secrets_are_hidden_in_keys_too() -> None:
    assert Redactor(["s3cret"]).value({"x-s3cret": 1}) == {"x-***": 1}


def test_what_was_passed_under_a_sensitive_name_is_a_secret_elsewhere() -> None:
    arguments = {"login": {"password": "hun'ter2", "pin": 98765}, "tokens": ["shown"], "auth": ["basic-abc", True]}
    redactor = Redactor(["s3cret"]).with_arguments(arguments)
    assert redactor.text("hun'ter2 98765 shown basic-abc s3cret True") == "*** *** shown *** *** True"
    plain = Redactor(["s3cret"])
    assert plain.with_arguments({"user": "ada"}) is plain
    assert plain.text("hun'ter2") == "hun'ter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J", r"\x9b2J"),
        ("one\ntwo\r\nthree", r"one\ntwo\r\nthree"),
        ("bell\x07 back\x08 null\x00 delete\x7f", r"bell\x07 back\x08 null\x00 delete\x7f"),
        ("admin\u202etxt.exe", r"admin\u202etxt.exe"),
        ("\u2066isolate\u2069 \u2028", r"\u2066isolate\u2069 \u2028"),
        ("tab\tstays, as do ü, 😀 and …", "tab\tstays, as do ü, 😀 and …"),
    ],
)
def test_control_characters_are_made_visible_on_one_line(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        '{"password":"x"}',
        '{"a":{"X-API-Key" : 1}}',
        '{"note":"{\\"token\\": \\"x\\"}"}',
        'the answer was "PIN": 1234',
        '{"a":"my s3cr3t value"}',
    ],
)
def test_where_something_may_have_to_be_hidden_the_glance_says_so(text: str) -> None:
    assert Redactor(["s3cr3t"]).may_hide(text)


@pytest.mark.parametrize("text", ['{"a":1}', '{"shopping":"pins, tokens and keys"}', '{"pin_count":2}', "keyboard", ""])
def test_where_nothing_has_to_be_hidden_the_glance_says_so(text: str) -> None:
    assert not Redactor(["s3cr3t"]).may_hide(text)


ODD_NAMES = ["a", "pin", "api_key", "PassWord", "key", 'secret"x', "back\\\\auth", "x:jwt", "password" + "x" * 200]
NAMES = st.sampled_from(ODD_NAMES) | st.text(max_size=3)
QUOTED = ["s3cr3t", '{"token": "x"}', '{\\"pwd\\": 1}']
VALUES = st.recursive(
    st.none() | st.integers(0, 5) | st.text(max_size=3) | st.sampled_from(QUOTED),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_what_the_glance_lets_pass_would_not_have_been_changed(value: Any) -> None:
    redactor = Redactor(["s3cr3t"])
    try:
        text = dumps(value).decode()
    except TypeError:  # half a character
        return
    if not redactor.may_hide(text):
        assert redactor.with_arguments(value) is redactor
        assert redactor.value(value) == value
        assert redactor.hide(text) == text


SPELLED = "p@ss w0rd+/=\"<&>'\\ü-😀-Zx81"
FORMS: dict[str, Callable[[str], str]] = {
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps({"a": text})),
    "repr": repr,
    "bytes": lambda text: repr(text.encode()),
    "URL": quote,
    "query": quote_plus,
    "lower case": lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
    "HTML": html.escape,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "JSON of Go": lambda text: re.sub("[&<>'+]", lambda it: f"\\u{ord(it[0]):04x}", json.dumps(text)),
    "JSON of Go in JSON": lambda text: json.dumps(FORMS["JSON of Go"](text)),
    "JSON of .NET": lambda text: re.sub(
        """["&'+<>`\\\\]|[^ -~]""", lambda it: "".join(f"\\u{unit:04X}" for (unit,) in _units(it[0])), text
    ),
    "HTML twice": lambda text: html.escape(html.escape(text)),
}
LONG_FORMS: dict[str, Callable[[str], str]] = {
    "URL in URL": lambda text: quote(quote(text, safe=""), safe=""),
    "numbers of HTML": lambda text: html.escape(text).encode("ascii", "xmlcharrefreplace").decode(),
    "hexadecimal numbers of HTML": lambda text: re.sub(r"[^\w.-]|[^ -~]", lambda it: f"&#X{ord(it[0]):04X};", text),
    "names of XML": lambda text: html.escape(text).replace("&#x27;", "&apos;"),
    "an argument of a shell": lambda text: shlex.quote(f"{text} ")[1:-2],
    "an argument, with backslashes": lambda text: text.replace("'", r"'\''"),
    "SQL": lambda text: text.replace("'", "''"),
    "a block of YAML": lambda text: text.replace("\n", "\r\n    "),
}
"""Those that a secret without letters and digits is not found in."""


def _units(character: str) -> Iterator[tuple[int]]:
    return struct.iter_unpack(">H", character.encode("utf-16-be"))


@pytest.mark.parametrize("form", LONG_FORMS)
@pytest.mark.parametrize("secret", [SPELLED, "sk-canary-Zx81kQv7", "it's one\nof\\\\two lines & more"])
def test_a_secret_is_hidden_where_it_is_quoted_for_another_language(secret: str, form: str) -> None:
    shown = Redactor([secret]).hide_values(f"<<< {LONG_FORMS[form](secret)} >>>")
    assert shown == f"<<< {LONG_FORMS[form]('MARK')} >>>".replace("MARK", "***")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [SPELLED, "sk-canary-Zx81kQv7", "!!??##$$", "line one of it\nline two of it"])
def test_a_secret_is_hidden_in_every_form_and_nothing_else(secret: str, form: str) -> None:
    shown = Redactor([secret]).hide_values(f"<<< {FORMS[form](secret)} >>>")
    assert shown == f"<<< {FORMS[form]('MARK').replace('4d41524b', 'MARK').replace('4D41524B', 'MARK')} >>>".replace(
        "MARK", "***"
    )


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_hidden_in_base64_whatever_stands_around_it(
    before: int, after: int, encode: Callable[[bytes], bytes]
) -> None:
    secret = "can?ry~Zx81"
    text = encode(b"\xfb" * before + secret.encode() + b"\xff" * after).decode()
    shown = Redactor([secret]).hide_values(f"Basic {text}")
    assert "***" in shown
    assert len(shown) <= len("Basic ***") + 4 + 5  # what stands around it


@pytest.mark.parametrize(
    "quoted", [partial(quote, safe=""), lambda text: text.replace("/", r"\/").replace("+", r"\u002B")]
)
def test_a_secret_is_hidden_in_base64_that_is_quoted(quoted: Callable[[str], str]) -> None:
    secret = "can>>>ry???Zx81\xff\xbf"
    text = base64.b64encode(secret.encode()).decode()
    assert "+" in text
    assert "/" in text
    assert Redactor([secret]).hide_values(f"auth={quoted(text)}&") == "auth=***&"


def test_a_row_of_backslashes_in_a_secret_takes_no_time_to_look_for() -> None:
    """In a pattern that tries every way to share them out, this search would not end."""
    text = "abcd" + "\\" * 500
    assert Redactor(["abcd" + "\\" * 12 + "efgh"]).hide_values(text) == text


def test_the_lines_of_a_long_secret_are_secrets() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nBKcwggSjAgEAAoIBAQC7\n-----END KEY-----\n"
    assert Redactor([key]).hide_values("second: BKcwggSjAgEAAoIBAQC7.") == "second: ***."
    assert Redactor([f"{key}short/tail==\n"]).hide_values("['short/tail==\\n']") == r"['***\n']"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cut canary/Zx81 k", "cut ***"),
        ("cut canary%2FZx81%20k", "cut ***"),
        ("Zx81 kQv7 and on", "*** and on"),
        ("canary/", "canary/"),
        ("not canary/Zx81 cut", "not canary/Zx81 cut"),
    ],
)
def test_what_is_left_of_a_secret_where_a_text_was_cut_is_hidden(text: str, shown: str) -> None:
    assert Redactor(["canary/Zx81 kQv7"]).hide_cut(text) == shown


def test_only_known_values_are_hidden_where_the_rest_must_stay_as_it_is() -> None:
    redactor = Redactor(["hunter22", "22 and on"])
    assert redactor.hide_values('hunter22 and on, {"password": "x"}') == '***, {"password": "x"}'
    assert Redactor().hide_values('{"password": "x"}') == '{"password": "x"}'
