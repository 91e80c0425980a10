"""One session that listens to the schema's channel, and is opened again whenever it was lost.

https://www.postgresql.org/docs/current/sql-notify.html: what is notified after LISTEN has been committed
is heard; what is notified while there is no session is not, so whoever listens is then told of everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psycopg

from leasemq.backends.postgres.connections import WireConnection
from leasemq.backends.postgres.faults import unreachable
from leasemq.backends.postgres.settings import Settings, quoted
from leasemq.backends.postgres.wire import Attempts, connected, is_gone
from leasemq.errors import BackendUnavailable

_PROBE_S = 30.0  # a peer that passes nothing on any more says nothing by itself

Told = Callable[[str], None]


class Post:
    """Owner: one loop's audience.

    Args:
        told: hears each payload.
        missed: hears that something may not have been told.
    """

    def __init__(self, settings: Settings, told: Told, missed: Callable[[], None]) -> None:
        self._settings = settings
        self._told = told
        self._missed = missed
        self._attempts = Attempts()
        self._opening = asyncio.Lock()
        self._connection: WireConnection | None = None
        self._descriptor = -1  # kept: the driver forgets it with the connection
        self._probe: asyncio.TimerHandle | None = None
        self._is_answered = True
        self._restoring: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Return when it listens. Raises: BackendUnavailable."""
        async with self._opening:
            if self._connection is None:
                await self._attempts.turn()
                await self._open()

    async def close(self) -> None:
        """Listen no more."""
        self._is_closed = True
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.wait({self._restoring})
        self._let_go()

    def drop(self) -> None:
        """Give the session back: its loop is closed."""
        if self._connection is not None:
            self._connection.pgconn.finish()

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._settings.request_ms / 1_000):
                connection = await connected(self._settings)
                try:
                    await connection.execute(f"LISTEN {quoted(self._settings.channel)}".encode())
                except psycopg.Error:
                    connection.pgconn.finish()
                    raise
        except (psycopg.Error, OSError) as error:  # TimeoutError is an OSError
            self._attempts.failed()
            raise unreachable(error, self._settings.place) from error
        self._attempts.worked()
        self._connection = connection
        self._is_answered = True
        loop = asyncio.get_running_loop()
        self._descriptor = connection.pgconn.socket
        loop.add_reader(self._descriptor, self._read)
        self._probe = loop.call_later(_PROBE_S, self._look_after)

    def _read(self) -> None:
        """Take in what has come, notifications and the answers to our probes."""
        connection = self._connection
        if connection is None:
            return
        pgconn = connection.pgconn
        try:
            pgconn.consume_input()
            while (notification := pgconn.notifies()) is not None:
                self._told(notification.extra.decode(errors="replace"))
            while not pgconn.is_busy() and pgconn.get_result() is not None:
                self._is_answered = True
        except psycopg.Error:
            self._lost()
            return
        if is_gone(connection):
            self._lost()

    def _look_after(self) -> None:
        """Ask for nothing, to see whether anybody answers."""
        connection = self._connection
        if connection is None:
            return
        if not self._is_answered:
            self._lost()
            return
        self._is_answered = False
        try:
            connection.pgconn.send_query(b"")
            connection.pgconn.flush()
        except psycopg.Error:
            self._lost()
            return
        self._probe = asyncio.get_running_loop().call_later(_PROBE_S, self._look_after)

    def _lost(self) -> None:
        self._let_go()
        if self._restoring is None and not self._is_closed:
            self._restoring = asyncio.get_running_loop().create_task(self._restore())
            self._restoring.add_done_callback(self._restored)

    def _restored(self, restoring: asyncio.Task[None]) -> None:
        self._restoring = None
        if not restoring.cancelled():
            restoring.result()  # a defect of ours goes to the loop's own handler

    async def _restore(self) -> None:
        """Listen again, however long that takes, then say that something may have been missed."""
        while self._connection is None:
            try:
                await self.open()
            except BackendUnavailable:
                continue  # `open` waits before the next try
        self._missed()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if self._probe is not None:
            self._probe.cancel()
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            connection.pgconn.finish()
