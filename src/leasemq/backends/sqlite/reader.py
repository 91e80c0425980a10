"""Reads, on a connection of their own, so that they never wait behind a writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from leasemq.backends.sqlite.connection import opened
from leasemq.backends.sqlite.forking import AtWork
from leasemq.backends.sqlite.lane import Request
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.writer import new_step, told


class Snapshots:
    """The reading crew: each request sees one moment. Owner: the reader's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._at_work = AtWork()
        self._connection: sqlite3.Connection | None = None

    def carry_out(self, group: Sequence[Request[object]]) -> None:
        """See `Crew.carry_out`."""
        for request in group:
            try:
                with self._at_work:
                    self._run(request)
            except Exception as error:  # whatever it is, it is the caller's: the thread must go on
                request.error = told(error, self._settings.path)
                if isinstance(error, sqlite3.Error):
                    self.close()

    def _run(self, request: Request[object]) -> None:
        if self._connection is None:
            self._connection = opened(self._settings, "normal")
        self._connection.execute("BEGIN")
        try:
            request.run(new_step(self._connection, self._settings))
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """See `Crew.close`."""
        if self._connection is not None:
            with suppress(sqlite3.Error):  # whatever is wrong with it, it is given up
                self._connection.close()
        self._connection = None
