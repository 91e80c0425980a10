"""Transactions on a connection of their own, for a handler's writes and the end of its job.

They hold the store's write lock, so one loop opens one at a time; statements of an asynchronous owner run
in one thread beside it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from types import TracebackType
from typing import Any, Literal, Never, Protocol, TypeVar

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.errands import Errands
from leasemq.backends.sqlite.faults import translated
from leasemq.backends.sqlite.joining import Call, Reach, Reachable, SqliteJoined
from leasemq.backends.sqlite.lane import Hear
from leasemq.backends.sqlite.settings import Settings
from leasemq.clock import boot_ms

T = TypeVar("T")


class Run(Protocol):
    """Runs a call where the connection may be used."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]:
        """Answer what it answers."""


async def run_here(call: Callable[[], T]) -> T:
    """Run it in the calling thread; nothing suspends."""
    return call()


class Transactions:
    """Opens transactions on one store. Owner: the lanes of one process.

    Args:
        inline: everything runs where it is asked for.
        hear: told what was committed.
    """

    def __init__(self, settings: Settings, hear: Hear, *, inline: bool) -> None:
        self._settings = settings
        self._hear = hear
        self._errands = None if inline else Errands("leasemq-sqlite-transactions", settings.path)
        self._gate = asyncio.Lock()

    @asynccontextmanager
    async def open(self, store_id: str, *, blocks: bool) -> AsyncIterator[SqliteJoined]:
        """See `Work.transaction`."""
        run: Run = run_here if blocks or self._errands is None else self._errands.run
        async with nullcontext() if blocks else self._gate:
            connection = WritingConnection(self._settings, self._settings.sync, BlockConnection)
            try:
                await run(lambda: self._begin(connection))
                reach = _Own(connection, run, is_async=not blocks)
                session = connection.raw if blocks else SqliteConnection(reach)
                yield SqliteJoined(session, reach, self._settings, store_id, self._hear)
            finally:
                await run(connection.give_up)

    async def close(self) -> None:
        """Let the thread end."""
        if self._errands is not None:
            self._errands.close()

    def _begin(self, connection: WritingConnection) -> None:
        try:
            connection.begin(boot_ms() + self._settings.busy_timeout_ms)
        except sqlite3.Error as error:
            raise translated(error, self._settings.path) from error


class _Own:
    """How a transaction's own connection is used. Owner: the transaction."""

    def __init__(self, connection: WritingConnection, run: Run, *, is_async: bool) -> None:
        self.is_async = is_async
        self._connection = connection
        self._run = run

    async def run(self, call: Call[T]) -> T:
        """See `Reach.run`."""
        return await self._run(lambda: self._at_work(call))

    def _at_work(self, call: Call[T]) -> T:
        with self._connection.at_work:
            return call(self._connection.raw)

    async def commit(self) -> None:
        """See `Reach.commit`."""
        await self._run(self._connection.commit)

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        await self._run(self._connection.give_up)


class BlockConnection(sqlite3.Connection):
    """What a handler in a thread writes with. Its block alone ends the transaction."""

    def commit(self) -> Never:
        """Refuse. Raises: sqlite3.ProgrammingError."""
        raise sqlite3.ProgrammingError("the end of the block commits, and an error in it rolls back")

    def rollback(self) -> Never:
        """Refuse. Raises: sqlite3.ProgrammingError."""
        self.commit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        """Do nothing, where it would commit."""
        return False


class SqliteConnection(Reachable):
    """What an asynchronous handler writes with: `await connection.execute(...)` answers a cursor.

    In the words of psycopg's asynchronous connection, as far as they go. Each statement runs in a thread,
    and its rows are read at once. The block that opened the transaction ends it.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> SqliteCursor:
        """Run a statement. Raises: sqlite3.Error."""
        return await self._reach.run(lambda raw: SqliteCursor(raw.execute(sql, parameters)))

    async def executemany(self, sql: str, batch: Iterable[Sequence[Any] | dict[str, Any]]) -> SqliteCursor:
        """Run a statement for each set of parameters. Raises: sqlite3.Error."""
        listed = list(batch)
        return await self._reach.run(lambda raw: SqliteCursor(raw.executemany(sql, listed)))

    def reach(self) -> Reach:
        """See `Reachable.reach`."""
        return self._reach


class SqliteCursor:
    """What a statement answered. Owner: the handler."""

    def __init__(self, ran: sqlite3.Cursor) -> None:
        self.description = ran.description
        self.rowcount = ran.rowcount
        self.lastrowid = ran.lastrowid
        self._rows: Iterator[Any] = iter(ran.fetchall())

    async def fetchone(self) -> Any:
        """Answer the next row; None: there is none."""
        return next(self._rows, None)

    async def fetchall(self) -> list[Any]:
        """Answer the rows that are left."""
        return list(self._rows)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in self._rows:
            yield row
