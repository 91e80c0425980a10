"""The connections of our transactions; between two they rest: a new session would plan everything anew."""

from __future__ import annotations

import threading
from typing import Any, Never, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import tuple_row

from leasemq.backends.postgres.connections import LineConnection, WireConnection
from leasemq.backends.postgres.loops import Loop, PerLoop
from leasemq.backends.postgres.wire import is_stale
from leasemq.clock import boot_ms

RV = TypeVar("RV")
Driver = AsyncConnection[Any] | Connection[Any]

MOST = 4  # that rest for one loop, or for all threads

_OF_THE_BLOCK = "the end of the block commits, and an error in it rolls back"

# What DISCARD ALL does, but for the plans: https://www.postgresql.org/docs/current/sql-discard.html
_FRESH = (
    "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; "
    "SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)


class _Adapted:
    """What a block says of types is its own: the next one on the same session knows none of it."""

    own_adapters: AdaptersMap | None = None

    @property
    def adapters(self) -> AdaptersMap:
        """See `psycopg.Connection.adapters`."""
        if self.own_adapters is None:
            self.own_adapters = AdaptersMap(psycopg.adapters)
        return self.own_adapters


class BlockConnection(_Adapted, WireConnection):
    """The connection of a block in a loop."""

    is_fresh = False

    async def commit(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    async def rollback(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    async def begin(self, idle_ms: int) -> None:
        """Begin a transaction whose owner may say nothing for so long."""
        self.is_fresh = False
        await self.execute(_begin(idle_ms))

    async def end(self, verb: str) -> None:
        """Commit or roll back, and keep nothing of what the block has set, locked or made for its session."""
        async with self.lock:
            if self.pgconn.transaction_status != TransactionStatus.IDLE:
                self.is_fresh = await self.wait(_ended(self.pgconn, verb))


class BlockingConnection(_Adapted, LineConnection):
    """The connection of a block in a thread."""

    is_fresh = False
    patience_ms = 0  # how long the server may take to answer

    def commit(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    def rollback(self) -> Never:
        """Refuse. Raises: psycopg.ProgrammingError."""
        raise psycopg.ProgrammingError(_OF_THE_BLOCK)

    def begin(self, idle_ms: int) -> None:
        """See `BlockConnection.begin`."""
        self.is_fresh = False
        self.execute(_begin(idle_ms))

    def end(self, verb: str) -> None:
        """See `BlockConnection.end`."""
        with self.lock:
            if self.pgconn.transaction_status != TransactionStatus.IDLE:
                self.is_fresh = self.wait(_ended(self.pgconn, verb))

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """See `LineConnection.wait`."""
        self.deadline_ms = boot_ms() + self.patience_ms
        return super().wait(gen, interval, timeout)


BlockDriver = BlockConnection | BlockingConnection


def _begin(idle_ms: int) -> bytes:
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    return "; ".join(f"SET LOCAL {limit} = {max(idle_ms, 1)}" for limit in limits).encode()


def _ended(pgconn: PGconn, verb: str) -> PQGen[bool]:
    """Commit or roll back; whether nothing is left on the session. Raises: psycopg.Error, of the verb."""
    pgconn.send_query(f"{verb}; {_FRESH}".encode())
    first, *others = yield from generators.execute(pgconn)
    if first.status != ExecStatus.COMMAND_OK:
        raise error_from_result(first)
    return all(result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK) for result in others)


class Resting:
    """Who rests where. Owner: the backend object; any thread may ask."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._places: PerLoop[list[BlockDriver]] = PerLoop(list, _finish)

    def taken(self, loop: Loop) -> BlockDriver | None:
        """Answer a connection that seems to be good, of which its last owner left nothing."""
        while (driver := self._popped(loop)) is not None:
            if not is_stale(driver.pgconn):
                return driver
            driver.pgconn.finish()
        return None

    def give(self, driver: BlockDriver, loop: Loop) -> None:
        """Let it rest if nothing is open or left on it and there is room; else close it."""
        is_idle = driver.is_fresh and driver.info.transaction_status == TransactionStatus.IDLE
        driver.row_factory, driver.own_adapters = tuple_row, None
        if isinstance(driver, BlockConnection):
            driver.cursor_factory = AsyncCursor
        else:
            driver.cursor_factory = Cursor
        resting = self._places.of(loop)
        with self._guard:
            if is_idle and len(resting) < MOST:
                resting.append(driver)
                return
        driver.pgconn.finish()

    def close(self, loop: Loop) -> None:
        """Close those of this loop, of threads, and of loops that are closed."""
        for place in (loop, None):
            _finish(self._places.taken(place) or [])

    def _popped(self, loop: Loop) -> BlockDriver | None:
        resting = self._places.of(loop)
        with self._guard:
            return resting.pop() if resting else None


def _finish(drivers: list[BlockDriver]) -> None:
    for driver in drivers:
        driver.pgconn.finish()
