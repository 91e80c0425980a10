"""Renewal: synchronous, on a connection of its own, for the keeper's thread."""

from __future__ import annotations

import random
import threading
from collections.abc import Coroutine, Sequence

import psycopg
from psycopg import RawCursor

from leasemq.backends.postgres.connections import LineConnection
from leasemq.backends.postgres.encoding import Parameter, ParameterDumper, encoded
from leasemq.backends.postgres.executor import Catalogue
from leasemq.backends.postgres.faults import Remedy, Trial, refused, unreachable
from leasemq.backends.postgres.loops import Process
from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import REPEAT_MS, Row, conninfo_of, is_gone, is_stale
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, CorruptRecord
from leasemq.protocol.model import Fence, Renewal

_ANSWERS = {1: Renewal.HELD, 2: Renewal.CANCEL_REQUESTED, 3: Renewal.LOST}
_SHORTEST_WAIT_MS = 500


class PostgresRenewer:
    """See `leasemq.backend.Renewer`. Owner: the keeper's thread."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._connection: LineConnection | None = None
        self._process = Process()

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`. Waits no longer than a third of the lease, so that another try is in time."""
        now_ms = None if self._settings.clock is None else self._settings.clock()
        ids = [job_id for job_id, _ in held]
        fences = [fence.number for _, fence in held]
        nonces = [fence.nonce for _, fence in held]
        patience_ms = min(self._settings.request_ms, max(_SHORTEST_WAIT_MS, lease_ms // 3))
        ((answers,),) = self._call("renew", patience_ms, now_ms, queue, ids, fences, nonces, lease_ms)
        try:
            return tuple(_ANSWERS[answer] for answer in answers)
        except KeyError as error:
            raise CorruptRecord(f"{self._settings.place} answered a renewal with {answers!r:.80}") from error

    def close(self) -> None:
        """See `Renewer.close`."""
        self._forget_parents()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()

    def _call(self, name: str, patience_ms: int, *values: object) -> list[Row]:
        routine = self._catalogue.routine(name)
        parameters = encoded(routine.parameters, values)
        trial = Trial(place=self._settings.place, is_read=routine.is_read)
        until_ms = boot_ms() + patience_ms
        while True:
            connection = self._fresh(until_ms)
            try:
                return _called(connection, routine, parameters)
            except psycopg.Error as error:
                self._mend(self._judged(trial, connection, error, patience_ms), trial, until_ms)

    def _judged(
        self, trial: Trial, connection: LineConnection, error: psycopg.Error, patience_ms: int
    ) -> Remedy:
        is_broken = is_gone(connection)
        if is_broken:
            self.close()
        remedy = trial.remedy(error, is_broken=is_broken)
        if trial.is_locked_out:
            return Remedy.REPEAT
        if remedy is Remedy.RAISE and connection.has_given_up:
            raise trial.unanswered(patience_ms) from error
        if remedy is Remedy.RAISE:
            raise (trial.lost(error) if is_broken else refused(error, self._settings.place)) from error
        return remedy

    def _mend(self, remedy: Remedy, trial: Trial, until_ms: int) -> None:
        match remedy:
            case Remedy.REPEAT:
                dice = random.random()  # noqa: S311 - spreads those who collided; no secret hangs on it
                threading.Event().wait(dice * REPEAT_MS * trial.repeats / 1_000)
            case Remedy.RECONNECT:
                self.close()
            case Remedy.INSTALL:
                _driven(self._catalogue.install(self._execute))
        if boot_ms() >= until_ms:
            raise BackendUnavailable(f"{self._settings.place} had no time for a renewal; nothing was written")

    async def _execute(self, statement: str) -> None:
        connection = self._fresh(boot_ms() + self._settings.request_ms)
        try:
            connection.execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            raise refused(error, self._settings.place) from error

    def _fresh(self, until_ms: int) -> LineConnection:
        """Answer a connection on which nothing has come in unasked. Raises: BackendUnavailable."""
        self._forget_parents()
        if self._connection is None or is_stale(self._connection.pgconn):
            self.close()
            self._connection = self._opened(until_ms)
        self._connection.deadline_ms = until_ms
        return self._connection

    def _forget_parents(self) -> None:
        if self._process.is_another(self._connection):
            self._connection = None

    def _opened(self, until_ms: int) -> LineConnection:
        # The driver waits for at least 2 s, as libpq does.
        wait_s = max(2, (until_ms - boot_ms()) // 1_000)
        try:
            connection = LineConnection.connect(
                # A renewal lost in a crash shortens a lease that no sweep ends for as long as that.
                conninfo_of(self._settings, synchronous_commit=False, connect_timeout_s=wait_s),
                autocommit=True,
                prepare_threshold=0 if self._settings.notify else None,
                cursor_factory=RawCursor,
            )
        except (psycopg.Error, OSError) as error:
            raise unreachable(error, self._settings.place) from error
        connection.adapters.register_dumper(Parameter, ParameterDumper)
        return connection


def _called(connection: LineConnection, routine: Routine, parameters: Sequence[Parameter]) -> list[Row]:
    with connection.cursor(binary=True) as cursor:
        cursor.execute(routine.statement.encode(), parameters)
        return cursor.fetchall()


def _driven(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine that awaits only what never waits: without a loop, in this thread."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("an installation waited for something else than the server")
