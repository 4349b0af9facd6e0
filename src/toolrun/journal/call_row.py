"""Call records as rows: redacted, cut, with the numbers of their tools. Used by the writer's thread alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from threading import Lock
from typing import Final, TypeAlias, cast

from toolrun.journal.call_record import CallRecord, CallState, Ending, FinishedCall, ToolRow, record_of
from toolrun.journal.statements import sql
from toolrun.journal.stored_answer import Answers, may_keep
from toolrun.json import dumps, loads
from toolrun.redaction import Redactor
from toolrun.result import ID_BITS
from toolrun.worker.normalise import clean

_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Rows that one statement has room for; a few sizes are compiled once each. Every statement gives up the interpreter a
few times, and a busy event loop pays for each time that the thread wants it back: so one statement for all rows."""
_MAX_TOOLS: Final = 10_000
"""Names in the table of tools that a model made up."""
_MAX_NAME: Final = 128
_LEAST: Final = 40
"""Characters for the name of an argument that is cut, if there is room."""
_DONE: Final = CallState.DONE
Row: TypeAlias = tuple[object, ...]
_Ended: TypeAlias = tuple[CallRecord, Ending]


class CallRows:
    """Writes call records in the form that may be kept."""

    def __init__(self, redactor: Redactor, max_chars: int, consumer: str, answers: Answers) -> None:
        self.process = 0
        """The row of this process, which is set when the file is opened."""
        self._redactor = redactor
        self._max_chars = max_chars
        self._consumer = consumer
        self._answers = answers
        self._tools: dict[ToolRow, int] = {}
        self._numbers: Iterator[int] = count(1)

    def new_id(self) -> int:
        return next(self._numbers) | self.process << ID_BITS  # in this order: the first number may set the process

    def restart(self, register: Callable[[], None]) -> None:
        """In a forked child, which is another process: it has no row before `register` was called."""
        self.process = 0
        self.forget_tools()
        self._numbers = _FirstNumber(self, register)

    def count_with(self, numbers: Iterator[int]) -> None:
        """Take the numbers of calls from here, as all journals of the process on this file do."""
        self._numbers = numbers

    def first_numbers(self) -> Iterator[int]:
        """After the registration. If that failed, it is tried again later, and calls are counted until then."""
        if isinstance(self._numbers, _FirstNumber):
            self._numbers = count(1)
        return self._numbers

    def forget_tools(self) -> None:
        """Which number a tool has is to be looked up again: the file is another one, or a transaction was undone."""
        self._tools.clear()

    def write_batch(
        self,
        connection: sqlite3.Connection,
        finished: Sequence[FinishedCall],
        records: Mapping[int, CallRecord],
        known: Container[int],
    ) -> list[CallRecord]:
        """Write calls, of which those in `known` have a row. Returns the ones that run. To be called in a transaction.

        Most calls are usual ones, of which few values are written: every value costs time, also an empty one.
        """
        started: list[CallRecord] = []
        done: list[_Ended] = []
        ended: list[_Ended] = []
        unusual: list[CallRecord] = []
        running: list[CallRecord] = []
        for record in records.values():
            ending, is_known = record.ending, record.id in known
            if ending is None:
                running.append(record)
                (started if record.is_usual and not is_known else unusual).append(record)
            elif ending.state is _DONE and ending.answer is None and record.is_usual:
                (ended if is_known else done).append((record, ending))
            else:
                unusual.append(record)
        if finished:
            unusual += self._add_finished(connection, finished)
        if started:
            unusual += self._add_started(connection, started)
        if done:
            unusual += self._add_done(connection, done)
        if ended:
            unusual += self._end(connection, ended)
        if unusual:
            self.write(connection, unusual)
        return running

    def write(self, connection: sqlite3.Connection, records: Iterable[CallRecord]) -> None:
        """Insert any records, or bring their rows up to date. To be called in a transaction."""
        self._execute(connection, "write_calls", [self._row(connection, record) for record in records])
        for record in records:
            if record.ending is not None and record.ending.answer is not None:
                self._keep_answer(connection, record.id, record.ending.answer)
            if record.ending is not None and record.log is not None:
                lines = [(it.after_us, it.level, self.text(it.text)) for it in record.log.lines()]
                rows = [(record.id, number, *line) for number, line in enumerate(lines)]
                connection.executemany(sql("add_log_line"), rows)

    # The usual calls. Each of these returns the ones that have to be written in the other way.

    def _add_finished(self, connection: sqlite3.Connection, calls: Sequence[FinishedCall]) -> list[CallRecord]:
        texts = iter(self._kept([text for call in calls for text in call[4:6]]))
        new_id, consumer, tools = self.new_id, self._consumer, self._tools
        rows: list[Row] = []
        others = []
        for call, arguments, result in zip(calls, texts, texts, strict=True):
            tool, effects, ended, took_us, _, _, given = call
            if arguments is None or result is None:
                others.append(record_of(self.new_id(), call))
                continue
            number = tools.get(tool) or self._tool(connection, tool)
            if given is not None:
                given = _cut(given)
            at = ended // 1000 - took_us
            rows.append((new_id(), number, at, effects, given, consumer, 0, took_us, arguments, result))
        self._execute(connection, "add_done_calls", rows)  # the ids are new, so there is no row that is in the way
        return others

    def _add_started(self, connection: sqlite3.Connection, records: list[CallRecord]) -> list[CallRecord]:
        texts = self._kept([record.arguments for record in records])
        rows: list[Row] = []
        others = []
        for record, arguments in zip(records, texts, strict=True):
            if arguments is None:
                others.append(record)
            else:
                rows.append((*self._beginning(connection, record), arguments))
        return others if self._insert(connection, "add_started_calls", rows) else records

    def _add_done(self, connection: sqlite3.Connection, calls: list[_Ended]) -> list[CallRecord]:
        given = [text for record, ending in calls for text in (record.arguments, ending.result or "")]
        texts = iter(self._kept(given))
        rows: list[Row] = []
        others = []
        for (record, ending), arguments, result in zip(calls, texts, texts, strict=True):
            if arguments is None or not result:
                others.append(record)
            else:
                rows.append((*self._beginning(connection, record), ending.run_us, arguments, result))
        return others if self._insert(connection, "add_ended_calls", rows) else [record for record, _ in calls]

    def _end(self, connection: sqlite3.Connection, calls: list[_Ended]) -> list[CallRecord]:
        texts = self._kept([ending.result or "" for _, ending in calls])
        rows: list[Row] = []
        others = []
        for (record, ending), result in zip(calls, texts, strict=True):
            if result:
                rows.append((record.id, record.at, ending.run_us, record.worker, result))
            else:
                others.append(record)
        is_complete = self._execute(connection, "end_calls", rows) == len(rows)
        return others if is_complete else [record for record, _ in calls]

    def _beginning(self, connection: sqlite3.Connection, record: CallRecord) -> Row:
        tool, given = record.tool, record.given_id
        number = self._tools.get(tool) or self._tool(connection, tool)
        if given is not None:
            given = _cut(given)
        about = record.id, number, record.at, record.effects, given, self._consumer
        return *about, record.queued_us, record.worker

    def _kept(self, texts: list[str]) -> list[str | None]:
        """The texts that may be kept as they are, and None for each of the others. One look at all is the cheapest."""
        if max(map(len, texts)) <= self._max_chars and not self._redactor.may_hide("\n".join(texts)):
            return cast("list[str | None]", texts)
        return [None if withheld else text for text, withheld in map(self.shown, texts)]

    def _insert(self, connection: sqlite3.Connection, statement: str, rows: list[Row]) -> bool:
        try:
            self._execute(connection, statement, rows)
        except sqlite3.IntegrityError:  # one is there already, or its id belongs to the file that was replaced
            return False
        return True

    def _execute(self, connection: sqlite3.Connection, statement: str, rows: list[Row]) -> int:
        """How many rows were changed."""
        changed = 0
        for first in range(0, len(rows), _SIZES[-1]):
            part = rows[first : first + _SIZES[-1]]
            size = _SIZES[(len(part) - 1).bit_length()]
            values = [value for row in part for value in row]
            values += [None] * (len(part[0]) * (size - len(part)))
            changed += connection.execute(_statement(statement, size, self.process), values).rowcount
        return changed

    def add_result(self, connection: sqlite3.Connection, id: int, result: str | None, answer: str | None) -> None:
        """The result of a call whose row is there already. To be called in a transaction."""
        if result is not None:
            connection.execute(sql("add_result"), (self.shown(result)[0], id))
        if answer is not None:
            self._keep_answer(connection, id, answer)

    def _keep_answer(self, connection: sqlite3.Connection, id: int, answer: str) -> None:
        if may_keep(answer, self._answers, self._redactor):
            connection.execute(sql("keep_answer"), (id, answer))

    def _row(self, connection: sqlite3.Connection, record: CallRecord) -> Row:
        ending = record.ending
        arguments, withheld = self._arguments(record.arguments)
        if record.is_cut:
            withheld = "cut"
        values = [
            record.id,
            self.process,
            self._tool(connection, record.tool),
            record.at,
            (CallState.STARTED if ending is None else ending.state).value,
            record.effects,
            record.key,
            record.fingerprint,
            record.parent,
            record.conversation,
            None if record.given_id is None else _cut(record.given_id),
            record.consumer or self._consumer,
            record.queued_us,
        ]
        if ending is None:
            late: tuple[object, ...] = (None, record.attempt, record.worker, None, None, None)
            result = None
        else:
            error = None if ending.error is None else self.text(ending.error)
            late = (ending.run_us, record.attempt, record.worker, ending.error_kind, ending.side_effects, error)
            result = None if ending.result is None else self.shown(ending.result)[0]
        original = None if record.original is None else self.shown(record.original)[0]
        repairs = None if record.repairs is None else self.shown(record.repairs)[0]
        dropped = None if record.dropped is None else self.shown(record.dropped)[0]
        return (*values, *late, arguments, withheld, original, repairs, dropped, result, record.approval)

    def _tool(self, connection: sqlite3.Connection, tool: ToolRow) -> int:
        number = self._tools.get(tool)
        if number is not None:
            return number
        if not tool.definition and len(self._tools) >= _MAX_TOOLS:  # there is no such tool
            tool = ToolRow("(other)", "", "")
        values = (clean(self._redactor.hide_values(tool.name)[:_MAX_NAME]), clean(tool.source), tool.definition)
        connection.execute(sql("add_tool"), (*values, tool.place, tool.settle_us))
        number = int(connection.execute(sql("find_tool"), values).fetchone()[0])
        self._tools[tool] = number
        return number

    def shown(self, text: str) -> tuple[str, str | None]:
        """JSON text that may be kept, and why it is not the whole truth: `hidden`, `cut`, or None."""
        limit = self._max_chars
        if len(text) > limit:
            return self._redactor.hide_cut(self._redactor.hide(text[:limit])) + "…", "cut"
        if not self._redactor.may_hide(text):
            return text, None
        shown = dumps(self._redactor.value(loads(text))).decode()
        return (text, None) if shown == text else (shown, "hidden")

    def _arguments(self, text: str) -> tuple[str, str | None]:
        """As `shown`, but if it is cut, the names of the arguments are all there as long as there is room for them."""
        limit = self._max_chars
        if len(text) <= limit or not text.startswith("{"):
            return self.shown(text)
        members = self._redactor.value(loads(text))
        assert isinstance(members, dict)
        room = limit // max(1, len(members)) - _LEAST
        if room > 0:
            shown = dumps({name: _shortened(value, room) for name, value in members.items()}).decode()
            if len(shown) <= limit:
                return shown, "cut"
        names = dumps(dict.fromkeys(members, "…")).decode()
        return (names, "cut") if len(names) <= limit else self.shown(text)

    def text(self, text: str) -> str:
        """Words that may be kept."""
        head = clean(text[: self._max_chars])
        if len(text) > self._max_chars:
            head = self._redactor.hide_cut(head)
        return self._redactor.hide(head) if self._redactor.may_hide(head) else head


class _FirstNumber(Iterator[int]):
    """Counts calls of a process that registers at the first of them."""

    def __init__(self, rows: CallRows, register: Callable[[], None]) -> None:
        self._rows = rows
        self._register = register
        self._numbers: Iterator[int] | None = None
        self._lock = Lock()

    def __next__(self) -> int:
        with self._lock:  # two threads may make the first call
            if self._numbers is None:
                self._register()
                self._numbers = self._rows.first_numbers()
            return next(self._numbers)


def _shortened(value: object, room: int) -> object:
    """A value as it is if its JSON text has room, and else the beginning of that text."""
    text = value if isinstance(value, str) else dumps(value).decode()
    return value if len(text) <= room else f"{text[:room]}…"


def _cut(given_id: str) -> str:
    return clean(given_id[:_MAX_NAME])


@cache
def _statement(name: str, rows: int, process: int) -> str:
    """A statement of the file for so many rows. It says there in braces what stands for each, or just `rows`."""
    statement = sql(name)
    start, end = statement.index("{"), statement.index("}")
    row = statement[start + 1 : end].replace("process", str(process))
    if row == "rows":
        columns = statement[statement.index("(") : statement.index(")")].count(",") + 1
        row = f"({', '.join('?' * columns)})"
    return statement[:start] + ", ".join([row] * rows) + statement[end + 1 :]
