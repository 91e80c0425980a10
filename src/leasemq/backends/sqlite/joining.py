"""Steps on connections that are not the lanes': a caller's own, or the one that a transaction opens.

SQLite has one writer at a time, so whoever joins holds the whole store: the write lock is taken before
anything is read, and a savepoint undoes a step that fails. Listeners of this process hear of a caller's
commit as those of others do, by the watch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from leasemq.backends.sqlite import accepting, settling
from leasemq.backends.sqlite.connection import text_or_bytes
from leasemq.backends.sqlite.faults import translated
from leasemq.backends.sqlite.lane import Hear, Work, carried_out
from leasemq.backends.sqlite.rows import jobs_by_id
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Heard, Step
from leasemq.backends.sqlite.writer import new_step
from leasemq.errors import BackendUnavailable, InvalidSession, LeaseMQError
from leasemq.protocol.model import Enqueued, Fence, NewJob, Renewal, Settled, Settlement, State
from leasemq.sessions import is_of_sqlalchemy, joined_connection, kind_of, run_sync_of, suspends, understood

T = TypeVar("T")
Raw = Any  # a sqlite3.Connection, or what SQLAlchemy puts in front of an asynchronous one
Call = Callable[[Raw], T]

_LOCK = statement("joined_lock")
_FILES = statement("joined_files")


class Reach(Protocol):
    """How one kind of session is used."""

    is_async: bool

    async def run(self, call: Call[T]) -> T:
        """Call with the connection, where it may be used."""

    async def commit(self) -> None:
        """Commit, the way its owner would."""

    async def roll_back(self) -> None:
        """Roll back, the way its owner would."""


class SqliteJoined:
    """See `leasemq.operations.Joined`. Owner: whoever asked for it."""

    def __init__(
        self, session: object, reach: Reach, settings: Settings, store_id: str, hear: Hear | None = None
    ) -> None:
        self.session: object = session
        self.is_async: bool = reach.is_async
        self.locked_store: str | None = store_id
        self._reach = reach
        self._settings = settings
        self._hear = hear
        self._heard: list[Heard] = []  # told after the commit

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Joined.enqueue`."""
        return await self._run(lambda step: accepting.enqueue(step, queue, jobs))

    async def check(self, queue: str, job_id: str, fence: Fence) -> Renewal:
        """See `Joined.check`."""
        return await self._run(lambda step: checked(step, queue, job_id, fence))

    async def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Joined.settle`."""
        (answer,) = await self._run(lambda step: settling.settle(step, queue, [settlement]))
        return answer

    async def commit(self) -> None:
        """See `Joined.commit`."""
        try:
            await self._reach.commit()
        except sqlite3.IntegrityError:  # a deferred constraint of the owner's own tables
            raise
        except sqlite3.Error as error:
            raise translated(error, self._settings.path, committing=True) from error
        if self._hear is not None:
            self._hear(self._heard)

    async def roll_back(self) -> bool:
        """See `Joined.roll_back`."""
        self._heard = []
        try:
            await self._reach.roll_back()
        except (sqlite3.Error, LeaseMQError):
            return False
        return True

    async def _run(self, work: Work[T]) -> T:
        answer, heard = await self._reach.run(partial(step_on, settings=self._settings, work=work))
        self._heard += heard
        return answer


def joined(session: object, settings: Settings, store_id: str) -> SqliteJoined:
    """See `Work.joined`."""
    reach: Reach
    if isinstance(session, Reachable):
        reach = session.reach()
    elif isinstance(session, sqlite3.Connection):
        reach = Plain(session)
    elif is_of_sqlalchemy(session):
        reach = Suspending(session, settings) if suspends(session) else Wrapped(session, settings)
    else:
        raise InvalidSession(
            f"{kind_of(session)} is no session of SQLite's: pass a sqlite3.Connection to {settings.path!r}, "
            "or SQLAlchemy's connection or session on it"
        )
    return SqliteJoined(session, reach, settings, store_id)


class Reachable:
    """A connection of our own making, which says itself how it is used."""

    def reach(self) -> Reach:
        """Answer how it is used."""
        raise NotImplementedError


class Plain:
    """A connection of Python's own module, in the thread that calls."""

    is_async = False

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    async def run(self, call: Call[T]) -> T:
        """See `Reach.run`."""
        return call(self._raw)

    async def commit(self) -> None:
        """See `Reach.commit`."""
        self._raw.commit()
        if self._raw.in_transaction:  # one that its owner began under autocommit=True
            self._raw.execute("COMMIT")

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        self._raw.rollback()
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")


class Wrapped:
    """SQLAlchemy's connection or session over Python's own module."""

    is_async = False

    def __init__(self, session: Any, settings: Settings) -> None:
        self._session = session
        self._translate = partial(_told, settings=settings)

    async def run(self, call: Call[T]) -> T:
        """See `Reach.run`."""
        return call(joined_connection(self._session).dbapi_connection)

    async def commit(self) -> None:
        """See `Reach.commit`."""
        with understood(self._session, partial(self._translate, committing=True)):
            self._session.commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        with understood(self._session, self._translate):
            self._session.rollback()


class Suspending:
    """SQLAlchemy's asynchronous connection or session, whose driver has a thread of its own."""

    is_async = True

    def __init__(self, session: Any, settings: Settings) -> None:
        self._session = session
        self._translate = partial(_told, settings=settings)

    async def run(self, call: Call[T]) -> T:
        """See `Reach.run`."""
        answer: T = await run_sync_of(self._session)(
            lambda inner: call(joined_connection(inner).dbapi_connection)
        )
        return answer

    async def commit(self) -> None:
        """See `Reach.commit`."""
        with understood(self._session, partial(self._translate, committing=True)):
            await self._session.commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        with understood(self._session, self._translate):
            await self._session.rollback()


def checked(step: Step, queue: str, job_id: str, fence: Fence) -> Renewal:
    """See `Joined.check`. The lock is the whole store's."""
    book = step.book(queue)
    row = None if book is None else jobs_by_id(step, book, [job_id]).get(job_id)
    is_held = row is not None and row.state == State.ACTIVE.value
    if row is None or not is_held or (row.fence, row.nonce) != (fence.number, fence.nonce):
        return Renewal.LOST
    return Renewal.CANCEL_REQUESTED if row.cancel_requested else Renewal.HELD


def step_on(raw: Raw, settings: Settings, work: Work[T]) -> tuple[T, Sequence[Heard]]:
    """Run one step in the connection's transaction, all of it or nothing.

    Raises: InvalidSession; BackendUnavailable if the write lock cannot be had.
    """
    try:
        is_ours = _begun(raw, settings)
        raw.execute("SAVEPOINT leasemq")
        is_done = False
        try:
            answer, heard = _stepped(raw, settings, work)
            is_done = True
        finally:
            if not is_done:
                _undo(raw, is_ours=is_ours)
        raw.execute("RELEASE leasemq")
    except sqlite3.ProgrammingError as error:  # closed, or of another thread
        raise InvalidSession(f"the session cannot take the job: {error}") from error
    except sqlite3.Error as error:
        raise _told(error, settings) from error
    return answer, heard


def _stepped(raw: Raw, settings: Settings, work: Work[T]) -> tuple[T, Sequence[Heard]]:
    with _plainly(raw) as connection:
        # A transaction that has read first could not write any more once somebody else has written.
        _LOCK.run(connection)
        step = new_step(connection, settings)
        answer = carried_out(work, step)
        return answer, step.finish()


@contextmanager
def _plainly(raw: Raw) -> Iterator[sqlite3.Connection]:
    """Answer the connection without what its owner makes of rows and texts."""
    own_text = getattr(raw, "text_factory", None)
    if own_text is not None:
        raw.text_factory = text_or_bytes
    try:
        yield cast("sqlite3.Connection", _Plainly(raw))
    finally:
        if own_text is not None:
            raw.text_factory = own_text


def _begun(raw: Raw, settings: Settings) -> bool:
    """Begin as the driver would at a first write; answers whether that was needed. Raises: InvalidSession."""
    behind: Any = getattr(raw, "driver_connection", raw)
    _check_file(raw, settings)
    if behind.in_transaction:
        return False
    autocommit = getattr(behind, "autocommit", -1)  # of Python 3.12; -1: isolation_level says it
    if autocommit is True or (autocommit == -1 and behind.isolation_level is None):
        raise InvalidSession(
            "the session is in autocommit mode and in no transaction, so nothing would hold the job back; "
            "execute BEGIN IMMEDIATE on it first, or connect with an isolation level"
        )
    raw.execute("BEGIN IMMEDIATE")
    return True


def _undo(raw: Raw, *, is_ours: bool) -> None:
    behind: Any = getattr(raw, "driver_connection", raw)
    if not behind.in_transaction:
        return  # SQLite has rolled all of it back already
    if is_ours:
        raw.rollback()
        return
    raw.execute("ROLLBACK TO leasemq")
    raw.execute("RELEASE leasemq")


def _check_file(raw: Raw, settings: Settings) -> None:
    """Refuse a connection to another file than the store's. Raises: InvalidSession."""
    with _plainly(raw) as connection:
        files = _FILES.rows(connection)
    (path,) = (path for _, name, path in files if name == "main")
    try:
        is_same = path == settings.path or (bool(path) and os.path.samefile(path, settings.path))
    except OSError:
        is_same = False
    if not is_same:
        raise InvalidSession(
            f"the session is connected to {path or 'no file'!r}, and the jobs are in {settings.path!r}; "
            "a transaction spans one file, so connect to that one, or give the app the other"
        )


def _told(error: BaseException, settings: Settings, *, committing: bool = False) -> LeaseMQError:
    if not isinstance(error, sqlite3.Error):
        return BackendUnavailable(f"{settings.path!r} could not be written: {error}")
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return BackendUnavailable(
            f"the session has read {settings.path!r} before somebody else wrote, so that it cannot write any "
            "more: roll back, and begin with BEGIN IMMEDIATE"
        )
    return translated(error, settings.path, committing=committing)


class _Plainly:
    """Somebody else's connection, whose row factory is left out. Owner: one step."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    def execute(self, sql: str, values: Sequence[object] = ()) -> Any:
        """Run it; answers the cursor."""
        cursor = self._cursor()
        cursor.execute(sql, values)
        return cursor

    def executemany(self, sql: str, batch: Iterable[Sequence[object]]) -> Any:
        """Run it once for each set of values."""
        cursor = self._cursor()
        cursor.executemany(sql, list(batch))
        return cursor

    def _cursor(self) -> Any:
        if not isinstance(self._raw, sqlite3.Connection):
            return self._raw.cursor()
        cursor = sqlite3.Connection.cursor(self._raw)
        cursor.row_factory = None
        return cursor
