"""What must not be shown: by the name of a key, by the value of a secret, by what a terminal would do with it."""

from __future__ import annotations

import pytest

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
