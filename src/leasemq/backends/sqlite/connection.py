"""Connections to the file: how they are opened, and how a write transaction begins and ends."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from leasemq.backends.sqlite.faults import is_busy
from leasemq.backends.sqlite.forking import AtWork
from leasemq.backends.sqlite.settings import Settings, Sync
from leasemq.backends.sqlite.turn import Turn
from leasemq.clock import boot_ms

_PAUSE_SECONDS = 0.002  # longest pause between two tries for the database's lock


def opened(
    settings: Settings, sync: Sync, kind: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open a connection that begins its transactions itself, usable from any one thread at a time."""
    mode = "rw" if settings.is_prepared else "rwc"
    connection = sqlite3.connect(
        f"{Path(settings.path).absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=settings.busy_timeout_ms / 1_000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
        factory=kind,
    )
    connection.text_factory = text_or_bytes
    connection.execute(f"PRAGMA synchronous = {sync}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    return connection


def text_or_bytes(raw: bytes) -> str | bytes:
    """Answer a text; one that is none as its bytes, which only its own row is then unreadable for."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


class WritingConnection:
    """A connection that writes, in its turn. Owner: the one thread that uses it."""

    def __init__(
        self, settings: Settings, sync: Sync, kind: type[sqlite3.Connection] = sqlite3.Connection
    ) -> None:
        self.at_work = AtWork()  # held by whoever is inside SQLite with this connection
        self._settings = settings
        self._sync: Sync = sync
        self._kind = kind
        self._turn: Turn | None = Turn(settings.path)
        self._connection: sqlite3.Connection | None = None
        self._current: Sync = sync  # what the open connection does at a commit
        self._pause = threading.Event()  # never set: waited on instead of sleeping

    @property
    def raw(self) -> sqlite3.Connection:
        """The connection, opened when it is first used."""
        if self._connection is None:
            self._connection = opened(self._settings, self._sync, self._kind)
            self._current = self._sync
            self._connection.execute("PRAGMA busy_timeout = 0")  # from here on `begin` does the waiting
        return self._connection

    def begin(self, until_ms: int, *, first: bool = False, is_lasting: bool = True) -> None:
        """Begin a transaction that may write, waiting for other processes until `until_ms` (boot clock).

        One that is not lasting waits for no disk: what is committed after it takes it along.
        IMMEDIATE, always: a transaction that has read and then wants to write fails at once when somebody
        wrote meanwhile, whatever the timeout (https://sqlite.org/rescode.html#busy_snapshot).
        """
        self._take_turn(first=first)
        try:
            while (error := self._begun(is_lasting=is_lasting)) is not None:
                if boot_ms() >= until_ms:
                    raise error
                self._pause.wait(_PAUSE_SECONDS * secrets.randbelow(1_000) / 1_000)
        except sqlite3.Error:
            self._give_turn_back()
            raise

    def _begun(self, *, is_lasting: bool) -> sqlite3.Error | None:
        """Try once; answers what is in the way if that may pass."""
        try:
            with self.at_work:
                raw = self.raw
                if (wanted := self._sync if is_lasting else _at_most_normal(self._sync)) != self._current:
                    raw.execute(f"PRAGMA synchronous = {wanted}")  # not possible within a transaction
                    self._current = wanted
                raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            return error
        return None

    def commit(self) -> None:
        """Make it true, unless it is rolled back already, and let the next one write."""
        try:
            with self.at_work:
                if self.raw.in_transaction:
                    self.raw.execute("COMMIT")
        finally:
            self._give_turn_back()

    def give_up(self, *, keep_open: bool = False) -> None:
        """Undo what was begun, let the next one write, and open the file anew unless told otherwise."""
        try:
            with self.at_work:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            keep_open = False  # closing rolls back as well
        self._give_turn_back()
        if not keep_open:
            self.close()

    def close(self) -> None:
        """Close it; the next use opens it anew."""
        if self._turn is not None:
            self._turn.close()
        if self._connection is not None:
            with self.at_work, suppress(sqlite3.Error):  # whatever is wrong with it, it is given up
                self._connection.close()
        self._connection = None

    def _take_turn(self, *, first: bool) -> None:
        if self._turn is None:
            return
        try:
            self._turn.take(first=first)
        except OSError:  # a folder that cannot be written: SQLite says the same in better words
            self._turn.close()
            self._turn = None

    def _give_turn_back(self) -> None:
        if self._turn is not None:
            self._turn.give_back()


def _at_most_normal(sync: Sync) -> Sync:
    return "normal" if sync == "full" else sync
