"""Reads JSON text of any size in pieces: no call into C takes long, so that other threads run meanwhile. Pure.

orjson reads a text in one call, and nothing else of this process runs until that returns, in any thread: 64 MB take a
second. So a large container is read some thousand members at a time. Where a piece ends is looked up with simple means,
and orjson decides: it reads `[` + piece + `]` only if the piece consists of whole items, and then the comma behind the
piece is the one between two of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from toolrun.json import JSONDecodeError, loads

PIECE: Final = 100_000
"""Bytes of a container that are read in one call, which takes 2 ms."""
_TEXT: Final = 10
"""How many times as many bytes of a string."""
_MAX_DEPTH: Final = 1024
"""As orjson has it."""
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_IN_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'  # or the beginning of a string, at the end of a piece
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|' + _IN_STRING + rb")*+(?:([\[\]{}])|\Z)", re.DOTALL)
_COMMA: Final = re.compile(rb'(?:[^",]++|' + _IN_STRING + rb")*+(?:(,)|\Z)", re.DOTALL)
"""The way to the next bracket or comma that is not in a string, or to the end: so that no search begins twice."""
_SCALAR: Final = re.compile(rb'[^\s,:"\[\]{}]+')
_IN_TEXT: Final = re.compile(
    rb'(?:[^"\\]++|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+",
    re.DOTALL,
)
"""The inside of a string, up to its end or to an escape sequence that the end of the piece cuts."""


def loads_in_pieces(
    text: str | bytes | bytearray,
    piece: int = PIECE,
    *,
    parse: Callable[[bytes], Any] = loads,
    add: Callable[[dict[str, Any], dict[str, Any]], object] = dict.update,
) -> Any:
    """`loads` for a text of any size. To be called in a thread. Raises JSONDecodeError.

    `parse` reads a piece, and `add` adds members to an object of which some are there already.
    """
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise JSONDecodeError(f"the text is not valid Unicode: {error.reason}", "", error.start) from None
    return parse(data) if len(data) <= piece else _PieceReader(data, piece, parse, add).read()


class _PieceReader:
    """One way through a text."""

    def __init__(
        self,
        data: bytes,
        piece: int,
        parse: Callable[[bytes], Any],
        add: Callable[[dict[str, Any], dict[str, Any]], object],
    ) -> None:
        self._data = data
        self._parse = parse
        self._add = add
        self._piece = piece
        self._text_piece = _TEXT * piece
        self._at = 0
        self._open: list[dict[str, Any] | list[Any]] = []
        """The containers that are open, the innermost last."""
        self._is_flat = True
        """Whether the last piece held no containers: the next one is likely to hold none, either."""
        self._unclosed: list[int] = []
        """Where the containers begin that were found not to end before `_seen`, the innermost first."""
        self._seen = 0

    def read(self) -> Any:
        self._skip_space()
        value = self._read_value()
        while self._open:
            container = self._open[-1]
            if self._next_is_member(container) and not self._read_piece(container):
                self._read_member(container)
        self._skip_space()
        if self._at < len(self._data):
            self._fail("unexpected content after the end")
        return value

    def _next_is_member(self, container: dict[str, Any] | list[Any]) -> bool:
        """Go on to the next member of the innermost container, or out of it."""
        self._skip_space()
        mark = self._data[self._at : self._at + 1]
        if mark == (b"]" if type(container) is list else b"}"):
            self._open.pop()
            self._at += 1
            return False
        if container:
            if mark != b",":
                self._fail("unexpected character, expected a comma or the end of the container")
            self._at += 1
            self._skip_space()
        return True

    def _read_piece(self, container: dict[str, Any] | list[Any]) -> bool:
        """Read as many whole members as fit. False if the next one does not fit, or is not valid."""
        for find in (self._last_comma, self._last_end) if self._is_flat else (self._last_end,):
            end = find()
            if end <= self._at:
                continue
            piece = self._data[self._at : end]
            try:
                if isinstance(container, list):
                    container += self._parse(b"[%b]" % piece)
                else:
                    self._add(container, self._parse(b"{%b}" % piece))
            except JSONDecodeError:
                self._is_flat = False
                continue
            self._at = end
            return True
        return False

    def _last_comma(self) -> int:
        return self._data.rfind(b",", self._at, self._at + self._piece)

    def _last_end(self) -> int:
        """Where the last member ends that is followed by another, or by the end of the container."""
        data, begin = self._data, self._at
        unclosed = self._next_unclosed()
        limit = begin + self._piece if unclosed is None else unclosed
        last, opened = -1, list[int]()
        self._is_flat = unclosed is None
        for bracket in _BRACKET.finditer(data, begin, limit):
            end = bracket.end()
            if bracket.lastindex is None:
                break
            if data[end - 1] in b"[{":
                self._is_flat = False
                opened.append(end - 1)
            elif opened:
                opened.pop()
                last = last if opened else end
            else:
                return end - 1
        if unclosed is None:
            self._unclosed, self._seen = opened[::-1], limit
        if last > 0 and opened:  # the member behind it does not fit
            return last
        # After the last container, or before the first: what is there is flat.
        begin, limit = max(begin, last), opened[0] if opened else limit
        for comma in _COMMA.finditer(data, begin, limit):
            if comma.lastindex is not None:
                last = comma.end() - 1
        return last

    def _next_unclosed(self) -> int | None:
        """The next container that does not end soon, if that is known: to look again at each level takes the square."""
        while self._unclosed and self._unclosed[-1] < self._at:
            self._unclosed.pop()
        is_known = self._unclosed and self._seen - self._unclosed[-1] > self._piece // 2
        return self._unclosed[-1] if is_known else None

    def _read_member(self, container: dict[str, Any] | list[Any]) -> None:
        """Read one member; if it is a container, only its beginning."""
        if isinstance(container, list):
            container.append(None)
            container[-1] = self._read_value()
            return
        if self._data[self._at : self._at + 1] != b'"':
            self._fail("unexpected character, expected a key")
        key = self._read_string()
        self._skip_space()
        if self._data[self._at : self._at + 1] != b":":
            self._fail("unexpected character, expected ':' behind a key")
        self._at += 1
        self._skip_space()
        self._add(container, {key: self._read_value()})

    def _read_value(self) -> Any:
        mark = self._data[self._at : self._at + 1]
        if mark == b'"':
            return self._read_string()
        if mark in (b"[", b"{"):
            if len(self._open) >= _MAX_DEPTH:
                self._fail("nested too deeply")
            value: dict[str, Any] | list[Any] = [] if mark == b"[" else {}
            self._open.append(value)
            self._at += 1
            return value
        found = _SCALAR.match(self._data, self._at, self._at + self._text_piece)
        if found is None:
            self._fail("unexpected character, expected a value")
        try:
            number = loads(found[0])
        except JSONDecodeError as error:
            self._fail(error.msg)
        self._at = found.end()
        return number

    def _read_string(self) -> str:
        data, at, text = self._data, self._at + 1, ""
        while data[at : at + 1] != b'"':
            found = _IN_TEXT.match(data, at, at + self._text_piece)
            end = found.end() if found is not None else at
            for _ in range(3):  # not within a character
                end -= end < len(data) and data[end] & 0xC0 == 0x80
            if end <= at:
                self._at = at
                self._fail("a string that does not end, or an invalid character in it")
            try:
                text += loads(b'"%b"' % data[at:end])  # in place: joining all at once would be a long call
            except JSONDecodeError as error:
                self._at = at
                self._fail(error.msg)
            at = end
        self._at = at + 1
        return text

    def _skip_space(self) -> None:
        while found := _SPACE.match(self._data, self._at, self._at + self._text_piece):
            self._at = found.end()
            if not found[0]:
                return

    def _fail(self, reason: str) -> NoReturn:
        raise JSONDecodeError(reason, "", self._at)
