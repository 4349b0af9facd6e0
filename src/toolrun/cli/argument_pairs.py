"""Arguments of tools as people write them on the command line: pairs, JSON objects, or both."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Final

import click

from toolrun.json import JSON

_PAIR: Final = re.compile(r"(?P<name>[^=]+?)(?P<sign>:?=)(?P<value>.*)", re.DOTALL)


def read_arguments(words: tuple[str, ...]) -> dict[str, JSON] | str | bytes:
    """The arguments of the call: an object, or JSON text for the executor to parse."""
    if words == ("-",):
        return _stdin()
    if len(words) == 1 and _is_object(words[0]):
        return words[0]
    if any(_is_object(word) or word == "-" for word in words):
        return _merged(words)
    return parse_pairs(words)


def _merged(words: tuple[str, ...]) -> dict[str, JSON]:
    """Pairs and JSON objects together. A name that is given twice is a mistake, whichever way."""
    if words.count("-") > 1:
        raise _usage("- can be given only once, because stdin can be read only once")
    arguments = parse_pairs([word for word in words if word != "-" and not _is_object(word)])
    for word in words:
        if word != "-" and not _is_object(word):
            continue
        source = "stdin" if word == "-" else f"{word:.80}"
        try:
            value = json.loads(_stdin() if word == "-" else word)
        except (ValueError, RecursionError) as error:
            raise _usage(f"{source} is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise _usage(f'{source} must be a JSON object, {{"name": value}}')
        for name in value:
            if name in arguments:
                raise _usage(f"'{name}' is given twice")
        arguments |= value
    return arguments


def _is_object(word: str) -> bool:
    return word.lstrip().startswith("{")


def _stdin() -> bytes:
    if sys.stdin is None:
        raise _usage("- reads the arguments from stdin, which is closed")
    return sys.stdin.buffer.read().strip() or b"{}"


def parse_pairs(words: Sequence[str]) -> dict[str, JSON]:
    """An object from NAME=VALUE and NAME:=JSON. Raises click.UsageError."""
    arguments: dict[str, JSON] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            raise _usage(f"'{word}' is neither NAME=VALUE nor a JSON object")
        name, value = pair["name"], pair["value"]
        if name in arguments:
            raise _usage(f"'{name}' is given twice; a list is written {name}:='[\"one\", \"two\"]'")
        arguments[name] = _parse(name, value) if pair["sign"] == ":=" else value
    return arguments


def read_pairs(words: tuple[str, ...]) -> dict[str, JSON]:
    """The same where only pairs are possible: the values of `--set`."""
    arguments = read_arguments(words)
    if not isinstance(arguments, dict):
        raise _usage("--set takes NAME=VALUE or NAME:=JSON")
    return arguments


def _parse(name: str, text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _usage(f"{name}:= needs JSON, but {text!r:.80} is not JSON ({error}); for text write {name}=…") from None
    return value


def _usage(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context(silent=True))  # there is none in another thread
