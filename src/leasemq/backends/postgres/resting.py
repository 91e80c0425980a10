"""The connections of our transactions; between two they rest: a new session would plan everything anew."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Never, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from leasemq.backends.postgres.wire import is_stale

RV = TypeVar("RV")
Driver = AsyncConnection[Any] | Connection[Any]
Loop = asyncio.AbstractEventLoop | None  # None: of threads

MOST = 4  # that rest for one loop, or for all threads

_OF_THE_BLOCK = "the end of the block commits, and an error in it rolls back"

# What DISCARD ALL does, but for the plans: https://www.postgresql.org/docs/current/sql-discard.html
FRESH = (
    "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; "
    "SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)


class BlockConnection(AsyncConnection[Any]):
    """The driver's connection, but for one thing: who stops waiting for an answer gives it up at once.

    The driver would ask the server to cancel, and wait for that: a frozen server never answers.
    """

    was_given_up = False  # by who used it: no outage

    async def commit(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    async def rollback(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    async def wait(self, gen: PQGen[RV], interval: float = 1.0, timeout: float | None = None) -> RV:
        """See `psycopg.AsyncConnection.wait`."""
        is_answered = False
        try:
            answer = await waiting.wait_async(gen, self.pgconn.socket, interval=interval)
            is_answered = True
            return answer
        finally:
            if not is_answered and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.was_given_up = True
                self.pgconn.finish()


class BlockingConnection(Connection[Any]):
    """The same for a thread."""

    def commit(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    def rollback(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)


class Resting:
    """Who rests where. Owner: the backend object; any thread may ask."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._drivers: dict[Loop, list[Driver]] = {}

    def taken(self, loop: Loop) -> Driver | None:
        """Answer a connection that seems to be good, as its last owner left it."""
        while (driver := self._popped(loop)) is not None:
            if not is_stale(driver.pgconn):
                return driver
            driver.pgconn.finish()
        return None

    def give(self, driver: Driver, loop: Loop) -> None:
        """Let it rest if it is in no transaction and there is room; else close it."""
        is_idle = not driver.closed and driver.info.transaction_status == TransactionStatus.IDLE
        driver.row_factory = tuple_row
        with self._guard:
            resting = self._here().setdefault(loop, [])
            if is_idle and len(resting) < MOST:
                resting.append(driver)
                return
        driver.pgconn.finish()

    def close(self, loop: Loop) -> None:
        """Close those of this loop, of threads, and of loops that are closed."""
        with self._guard:
            places = self._here()
            over = [one for one in places if one is None or one is loop or one.is_closed()]
            drivers = [driver for one in over for driver in places.pop(one)]
        for driver in drivers:
            driver.pgconn.finish()

    def _popped(self, loop: Loop) -> Driver | None:
        with self._guard:
            resting = self._here().get(loop)
            return resting.pop() if resting else None

    def _here(self) -> dict[Loop, list[Driver]]:
        """Answer those of this process: a session that a fork copied is the parent's."""
        if self._pid != os.getpid():
            _OF_PARENTS.append(self._drivers)
            self._pid, self._drivers = os.getpid(), {}
        return self._drivers


_OF_PARENTS: list[object] = []  # kept, so that nothing closes what a parent process has open
