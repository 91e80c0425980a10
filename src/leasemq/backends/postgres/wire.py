"""One connection: opened at its first use, tried before each, given up when it does not answer.

A request is carried out by the wire's own task (`executor.py`); nothing here is cancelled by a caller.
"""

from __future__ import annotations

import asyncio
import random
import select
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from leasemq.backends.postgres.connections import WireConnection
from leasemq.backends.postgres.encoding import Parameter, ParameterDumper, encoded
from leasemq.backends.postgres.faults import Remedy, Trial, must_reconnect, refused, unreachable
from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.settings import Settings, session_options
from leasemq.clock import boot_ms

Row = tuple[Any, ...]  # what the driver's loaders make of the columns; typed by whoever asked
Install = Callable[[Callable[[str], Awaitable[None]]], Awaitable[None]]

_FIRST_BACKOFF_MS = 50
_LONGEST_BACKOFF_MS = 1_000
REPEAT_MS = 20  # after the first abort; grows with each


class Attempts:
    """How often the server could not be reached lately: nobody hammers it. Owner: one loop's wires."""

    def __init__(self) -> None:
        self._failures = 0
        self._not_before_ms = 0

    async def turn(self) -> None:
        """Wait until it is time for another try; at once while all goes well."""
        wait_ms = self._not_before_ms - boot_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1_000)

    def failed(self) -> None:
        """Put off the next try."""
        self._failures += 1
        backoff_ms = min(_FIRST_BACKOFF_MS * 2 ** min(self._failures, 10), _LONGEST_BACKOFF_MS)
        self._not_before_ms = boot_ms() + backoff_ms

    def worked(self) -> None:
        """Put off nothing."""
        self._failures = self._not_before_ms = 0


def conninfo_of(
    settings: Settings, *, synchronous_commit: bool = True, connect_timeout_s: int | None = None
) -> str:
    """Answer what a session of ours is opened with. Behind a pooler a session's options are not ours."""
    given = conninfo_to_dict(settings.conninfo)
    changed: dict[str, str] = {}
    if settings.notify:
        options = str(given.get("options") or "")
        changed["options"] = session_options(settings, options, synchronous_commit=synchronous_commit)
    if connect_timeout_s is not None:
        allowed_s = int(str(given.get("connect_timeout") or connect_timeout_s))
        changed["connect_timeout"] = str(min(allowed_s, connect_timeout_s))
    return make_conninfo(settings.conninfo, **changed) if changed else settings.conninfo


async def connected(settings: Settings, *, synchronous_commit: bool = True) -> WireConnection:
    """Open a connection of ours: autocommit, everything prepared, our time-outs. Raises: psycopg.Error."""
    connection = await WireConnection.connect(
        conninfo_of(settings, synchronous_commit=synchronous_commit),
        autocommit=True,
        prepare_threshold=0 if settings.notify else None,
        cursor_factory=psycopg.AsyncRawCursor,
    )
    connection.adapters.register_dumper(Parameter, ParameterDumper)
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the wires of one lane have in common."""

    settings: Settings
    attempts: Attempts
    install: Install
    synchronous_commit: bool = True


class Wire:
    """Carries out one request at a time. Owner: a lane, in its loop."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._settings = terms.settings
        self._connection: WireConnection | None = None
        self.is_cut_off = False  # no connection could be had when one was tried last

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that seems to be good."""
        return self._connection is not None and not self._connection.closed

    async def run(self, routine: Routine, values: Sequence[object], trial: Trial) -> list[Row]:
        """Call a function. Raises: what became of it, as errors of ours; `trial` says more of it."""
        parameters = encoded(routine.parameters, values)
        trial.is_locked_out = False
        while True:
            connection = await self._fresh()
            try:
                async with asyncio.timeout(self._settings.request_ms / 1_000):
                    return await _called(connection, routine, parameters)
            except TimeoutError as error:
                self.close()
                raise trial.unanswered(self._settings.request_ms) from error
            except psycopg.Error as error:
                remedy = self._judged(trial, connection, error)
            await self._mend(remedy, trial)

    def close(self) -> None:
        """Give the connection back; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()

    def _judged(self, trial: Trial, connection: WireConnection, error: psycopg.Error) -> Remedy:
        """Answer what to do about an error. Raises: it, as one of ours, if nothing can be done here."""
        is_broken = is_gone(connection)
        if is_broken or must_reconnect(error):
            self.close()
        remedy = trial.remedy(error, is_broken=is_broken)
        if remedy is Remedy.RAISE and is_broken:
            raise trial.lost(error) from error
        if remedy is Remedy.RAISE:
            raise refused(error, self._settings.place) from error
        return remedy

    async def _fresh(self) -> WireConnection:
        """Answer a connection on which nothing has come in unasked. Raises: BackendUnavailable."""
        if self._connection is not None and not is_stale(self._connection.pgconn):
            return self._connection
        self.close()
        terms = self._terms
        await terms.attempts.turn()
        try:
            self._connection = await connected(self._settings, synchronous_commit=terms.synchronous_commit)
        except (psycopg.Error, OSError) as error:
            terms.attempts.failed()
            self.is_cut_off = True
            raise unreachable(error, self._settings.place) from error
        terms.attempts.worked()
        self.is_cut_off = False
        return self._connection

    async def _mend(self, remedy: Remedy, trial: Trial) -> None:
        match remedy:
            case Remedy.REPEAT:
                dice = random.random()  # noqa: S311 - spreads those who collided; no secret hangs on it
                await asyncio.sleep(dice * REPEAT_MS * trial.repeats / 1_000)
            case Remedy.RECONNECT:
                self.close()
            case Remedy.INSTALL:
                await self._terms.install(self._execute)

    async def _execute(self, statement: str) -> None:
        connection = await self._fresh()
        try:
            await connection.execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            raise refused(error, self._settings.place) from error


def is_gone(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> bool:
    """Whether nothing more can be asked on it."""
    return bool(connection.closed) or connection.pgconn.status != ConnStatus.OK


def is_stale(pgconn: PGconn) -> bool:
    """Whether a connection at rest has been ended by the other side, or is not at rest.

    What came in unasked may be a notice, or the server's last word: libpq reads it and knows.
    """
    if pgconn.status != ConnStatus.OK or pgconn.transaction_status != TransactionStatus.IDLE:
        return True
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    if not poll.poll(0):
        return False
    try:
        pgconn.consume_input()
    except psycopg.Error:
        return True
    return pgconn.status != ConnStatus.OK or bool(poll.poll(0))


async def _called(connection: WireConnection, routine: Routine, parameters: Sequence[Parameter]) -> list[Row]:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(routine.statement.encode(), parameters)
        answer = cursor.pgresult  # asked for `description`, the driver makes an object per column
        return await cursor.fetchall() if answer is not None and answer.nfields else []
