"""The functions called on connections that are not the lanes': a caller's own, or one of a transaction.

Whatever the server refuses here spoils the caller's transaction, so what can be seen from here is refused
before anything is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from leasemq.backends.postgres import accepting, settling
from leasemq.backends.postgres.encoding import Parameter, ParameterDumper, encoded
from leasemq.backends.postgres.executor import Catalogue
from leasemq.backends.postgres.faults import line, refused, unreachable
from leasemq.backends.postgres.reaching import Awaited, Plain, Reach, reach_of
from leasemq.backends.postgres.resting import (
    BlockConnection,
    BlockDriver,
    BlockingConnection,
    Driver,
    Resting,
)
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row, conninfo_of
from leasemq.errors import BackendUnavailable, IndeterminateWrite, InvalidSession, LeaseMQError
from leasemq.protocol.checks import check_new_jobs
from leasemq.protocol.model import Enqueued, Fence, NewJob, Renewal, Settled, Settlement

_KNOWN_AT_MOST = 10_000
_ANSWERS = {1: Renewal.HELD, 2: Renewal.CANCEL_REQUESTED, 3: Renewal.LOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The store that a session must be connected to."""

    settings: Settings
    catalogue: Catalogue
    resting: Resting
    store_id: str
    known_queues: set[str]  # that are registered for good; filled as they are met


class PostgresJoined:
    """See `leasemq.operations.Joined`. Owner: whoever asked for it."""

    def __init__(self, session: object, reach: Reach, target: Target, own: BlockDriver | None = None) -> None:
        self.session: object = session
        self.is_async: bool = reach.is_async
        self.locked_store: str | None = None
        self._reach = reach
        self._target = target
        self._caller = _Caller(reach, target, own)
        self._store = Store(settings=target.settings, executor=self._caller)

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Joined.enqueue`."""
        if jobs and queue not in self._target.known_queues:
            check_new_jobs(queue, jobs)
            await self._register(queue)
        return await accepting.enqueue(self._store, queue, jobs)

    async def _register(self, queue: str) -> None:
        """Register a new queue in a transaction of its own, or all who enqueue there would wait for this one.

        Where that fails this one registers it after all.
        """
        ((is_new,),) = await self._store.call("is_new_queue", queue)
        if is_new:
            target = self._target
            with suppress(LeaseMQError):
                async with transaction(
                    target, blocks=not self.is_async, idle_ms=target.settings.lock_ms
                ) as apart:
                    await apart.open_queue(queue)
                    await apart.commit()
        elif is_new is False and len(self._target.known_queues) < _KNOWN_AT_MOST:
            self._target.known_queues.add(queue)

    async def open_queue(self, queue: str) -> None:
        """Register a queue, if it is new."""
        await self._store.call("open_queue", queue)

    async def check(self, queue: str, job_id: str, fence: Fence) -> Renewal:
        """See `Joined.check`."""
        ((answer,),) = await self._store.call("hold", queue, job_id, fence.number, fence.nonce)
        return _ANSWERS[answer]

    async def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Joined.settle`."""
        (answer,) = await settling.settle(self._store, queue, [settlement])
        return answer

    async def commit(self) -> None:
        """See `Joined.commit`."""
        place = self._target.settings.place
        try:
            async with _patience(self._target, self._caller.seen):
                await self._reach.commit()
        except TimeoutError as error:
            raise IndeterminateWrite(f"{place} did not answer to COMMIT: it may have been applied") from error
        except psycopg.IntegrityError:  # a deferred constraint of the owner's own tables
            raise
        except psycopg.Error as error:
            if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # nothing was sent
                raise InvalidSession(
                    f"the session does not let its transaction be committed ({line(error)}): "
                    "the block does that, so open none around it"
                ) from error
            if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
                raise IndeterminateWrite(
                    f"the answer of {place} to COMMIT was lost ({line(error)}): it may have been applied"
                ) from error
            raise refused(error, place) from error

    async def roll_back(self) -> bool:
        """See `Joined.roll_back`."""
        with suppress(psycopg.Error, LeaseMQError, TimeoutError):
            async with _patience(self._target, self._caller.seen):
                await self._reach.roll_back()
        return not self._caller.is_broken


class _Caller:
    """Calls functions on one session. Owner: what joined it."""

    def __init__(self, reach: Reach, target: Target, seen: Driver | None) -> None:
        self._reach = reach
        self._target = target
        self.seen = seen

    @property
    def is_broken(self) -> bool:
        """Whether the connection was lost, and not closed."""
        is_given_up = getattr(self.seen, "was_given_up", False)
        return self.seen is not None and self.seen.broken and not is_given_up

    async def call(self, name: str, *values: object) -> list[Row]:
        """Call the function of an operation. Raises: InvalidSession, BackendUnavailable and others."""
        routine = self._target.catalogue.routine(name)
        parameters = encoded(routine.parameters, values)
        place = self._target.settings.place
        driver = self.seen = await self._reach.driver()
        _check_open(driver)
        try:
            async with _patience(self._target, driver):
                if _known.get(driver) != self._target.store_id:
                    await self._check_store(driver)
                return await self._called(driver, routine.statement, parameters)
        except TimeoutError as error:
            raise BackendUnavailable(f"{place} did not answer; the transaction is given up") from error
        except psycopg.Error as error:
            if driver.closed:
                raise BackendUnavailable(
                    f"the session's connection to {place} was lost, and its transaction too ({line(error)})"
                ) from error
            raise refused(error, place) from error

    async def _check_store(self, driver: Driver) -> None:
        """Refuse a connection to another database than the store's. Raises: InvalidSession, psycopg.Error."""
        settings = self._target.settings
        table = f"{settings.quoted_schema}.store"
        name = encoded(("text",), (table,))
        ((is_there,),) = await self._called(driver, "SELECT to_regclass($1) IS NOT NULL", name)
        statement = f"SELECT store_id FROM {table}"  # noqa: S608 - a schema's name, quoted
        rows = await self._called(driver, statement, ()) if is_there else []
        if [tuple(row) for row in rows] != [(self._target.store_id,)]:
            raise InvalidSession(
                f"the session is connected to the database {driver.info.dbname!r}, whose schema "
                f"{settings.schema!r} is not the store of the jobs; a transaction spans one database, "
                f"so connect to {settings.place}"
            )
        _known[driver] = self._target.store_id

    async def _called(self, driver: Driver, statement: str, parameters: Sequence[Parameter]) -> list[Row]:
        """Run a statement with a cursor of ours, whatever the connection's own are like."""
        # A pooler gives each transaction any session.
        prepare = None if self._target.settings.notify else False
        if isinstance(driver, AsyncConnection):
            async with AsyncRawCursor(driver, row_factory=tuple_row) as awaited:
                awaited.adapters.register_dumper(Parameter, ParameterDumper)
                await awaited.execute(statement.encode(), parameters, prepare=prepare, binary=True)
                return await awaited.fetchall()
        with RawCursor(driver, row_factory=tuple_row) as cursor:
            cursor.adapters.register_dumper(Parameter, ParameterDumper)
            cursor.execute(statement.encode(), parameters, prepare=prepare, binary=True)
            return cursor.fetchall()


_known: WeakKeyDictionary[Driver, str] = WeakKeyDictionary()  # connections whose store was looked at


def joined(session: object, target: Target) -> PostgresJoined:
    """See `Work.joined`."""
    return PostgresJoined(session, reach_of(session), target)


@asynccontextmanager
async def transaction(target: Target, *, blocks: bool, idle_ms: int) -> AsyncIterator[PostgresJoined]:
    """See `Work.transaction`. The server ends it when its owner says nothing for `idle_ms`."""
    loop = None if blocks else asyncio.get_running_loop()
    is_resting = target.settings.notify  # behind a pooler it is the pooler that keeps sessions
    driver = target.resting.taken(loop) if is_resting else None
    if driver is None or not await _begun(driver, target, idle_ms):
        driver = await _connected(target.settings, blocks=blocks)
        if not await _begun(driver, target, idle_ms):
            raise BackendUnavailable(f"{target.settings.place} has just ended a session; nothing was sent")
    _known[driver] = target.store_id
    try:
        reach: Reach = Awaited(driver) if isinstance(driver, AsyncConnection) else Plain(driver)
        yield PostgresJoined(driver, reach, target, driver)
    finally:
        if is_resting:
            target.resting.give(driver, loop)
        else:
            driver.pgconn.finish()


async def _begun(driver: BlockDriver, target: Target, idle_ms: int) -> bool:
    """Begin a transaction with these limits; answers whether the server is still there."""
    is_begun = False
    try:
        async with _patience(target, driver):
            if isinstance(driver, BlockConnection):
                await driver.begin(idle_ms)
            else:
                driver.begin(idle_ms)
        is_begun = True
    except (psycopg.Error, TimeoutError):
        return False
    finally:
        if not is_begun:
            driver.pgconn.finish()
    if isinstance(driver, BlockingConnection):  # the server itself gives up a statement before
        driver.patience_ms = idle_ms + target.settings.request_ms
    return True


async def _connected(settings: Settings, *, blocks: bool) -> BlockDriver:
    conninfo, threshold = conninfo_of(settings), 5 if settings.notify else None
    try:
        if blocks:
            return BlockingConnection.connect(conninfo, prepare_threshold=threshold)
        return await BlockConnection.connect(conninfo, prepare_threshold=threshold)
    except (psycopg.Error, OSError) as error:
        raise unreachable(error, settings.place) from error


def _check_open(driver: Driver) -> None:
    """Refuse a connection that cannot hold a job back. Raises: InvalidSession."""
    if driver.closed:
        raise InvalidSession("the session's connection is closed; open another, and a transaction on it")
    status = driver.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise InvalidSession("the session's transaction has failed already: roll it back, and begin again")
    if driver.autocommit and status == TransactionStatus.IDLE:
        raise InvalidSession(
            "the session is in autocommit mode and in no transaction, so nothing would hold the job back; "
            "open one with connection.transaction(), or set autocommit=False"
        )


@asynccontextmanager
async def _patience(target: Target, driver: Driver | None) -> AsyncIterator[None]:
    """Give the server so long to answer on a connection of our own. Raises: TimeoutError, psycopg.Error."""
    patience_ms = target.settings.request_ms
    match driver:
        case BlockConnection():
            async with asyncio.timeout(patience_ms / 1_000):
                yield
        case BlockingConnection():
            before_ms, driver.patience_ms = driver.patience_ms, patience_ms
            try:
                yield
            finally:
                driver.patience_ms = before_ms
        case _:
            yield
