"""The outside world of the crash trials: a SQLite file that counts what was done. It survives whoever is killed.

Standard library only, and nothing of toolrun: tools, workers and servers import it, and so does the judge. A trial can
doom an effect: just before or just after it happens, the process that acts kills itself, kills the host (or both), or
loses the answer. So a kill hits an exact step of a call, without a clock.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

LATENCY = 0.003
"""Seconds that a destination may take, so that kills at random moments hit calls in the middle."""
_TABLES = """
CREATE TABLE effect (name TEXT NOT NULL, reference TEXT NOT NULL, destination_key TEXT UNIQUE);
CREATE TABLE fate (name TEXT NOT NULL, point TEXT NOT NULL, action TEXT NOT NULL);
CREATE TABLE actor (pid INTEGER NOT NULL);
"""


class Outside:
    """What the tools change."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)

    def act(self, name: str, reference: str, promise: str, host: int) -> None:
        """Have the effect `name`: once more each time, unless the promise lets the destination know a repetition."""
        with closing(self._connect()) as connection:
            connection.execute("INSERT INTO actor VALUES (?)", (os.getpid(),))
            self._meet_fate(connection, name, "before", host)
            key = {"keyed": reference, "idempotent": name}.get(promise)
            time.sleep(random.uniform(0, LATENCY))
            connection.execute("INSERT OR IGNORE INTO effect VALUES (?, ?, ?)", (name, reference, key))
            time.sleep(random.uniform(0, LATENCY))
            self._meet_fate(connection, name, "after", host)

    def has_acted(self, reference: str) -> bool:
        with closing(self._connect()) as connection:
            found = connection.execute("SELECT count(*) FROM effect WHERE reference = ?", (reference,)).fetchone()[0]
            return bool(found)

    def doom(self, name: str, point: str, action: str) -> None:
        """Let `action` happen once, when the effect `name` is at `point`."""
        with closing(self._connect()) as connection:
            connection.execute("INSERT INTO fate VALUES (?, ?, ?)", (name, point, action))

    def effects(self) -> Counter[str]:
        """How often each effect happened."""
        with closing(self._connect()) as connection:
            return Counter(name for (name,) in connection.execute("SELECT name FROM effect"))

    def actors(self) -> list[int]:
        """The processes that acted, the newest last."""
        with closing(self._connect()) as connection:
            return [pid for (pid,) in connection.execute("SELECT pid FROM actor ORDER BY rowid")]

    def unmet(self) -> int:
        """Fates that nobody has met."""
        with closing(self._connect()) as connection:
            return int(connection.execute("SELECT count(*) FROM fate").fetchone()[0])

    def _meet_fate(self, connection: sqlite3.Connection, name: str, point: str, host: int) -> None:
        first = "SELECT min(rowid) FROM fate WHERE name = ? AND point = ?"
        row = connection.execute(f"DELETE FROM fate WHERE rowid = ({first}) RETURNING action", (name, point)).fetchone()
        match row[0] if row is not None else "":
            case "kill me":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill host":
                os.kill(host, signal.SIGKILL)
            case "kill both":
                os.kill(host, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop host":  # which is this process: a signal to the process would stop this thread a moment later
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            case "lose answer":
                raise ConnectionResetError("the destination closed the connection")
            case "kill host, wait" | "wait" as action:
                if action != "wait":
                    os.kill(host, signal.SIGKILL)
                while not self.path.with_name("go on").exists():
                    time.sleep(0.01)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")  # processes die here, not machines
        return connection
