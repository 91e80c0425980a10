"""The caller's own connection to the file: what it may be, what it decides, and what is left of a refusal."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from leasemq.backends.sqlite import SqliteBackend, accepting
from leasemq.backends.sqlite.joining import SqliteJoined, step_on
from leasemq.backends.sqlite.step import Step
from leasemq.errors import BackendUnavailable, CorruptRecord, InvalidSession, Refused
from leasemq.sessions import run_through
from leasemq.testing.conformance import builders

pytestmark = pytest.mark.promise("P-114", "P-93")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(path: Path) -> Iterator[SqliteBackend]:
    """Without threads, so that nothing suspends."""
    backend = SqliteBackend(path, sync="normal", busy_timeout_ms=500, inline=True)
    run_through(backend.prepare())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table account (name text primary key, balance integer)")
    yield backend
    run_through(backend.close())


@pytest.fixture
def connect(path: Path) -> Iterator[Callable[..., sqlite3.Connection]]:
    """Open connections as a program does; they are closed at the end."""
    opened: list[sqlite3.Connection] = []

    def connect(**options: Any) -> sqlite3.Connection:  # Any: sqlite3.connect's own options
        opened.append(sqlite3.connect(options.pop("path", path), **{"timeout": 0.2, **options}))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def engine(path: Path, backend: SqliteBackend) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


def put(joined: SqliteJoined, *ids: str) -> None:
    """Enqueue jobs with these ids."""
    run_through(joined.enqueue("q", [builders.new_job(id_) for id_ in ids]))


def accepted(backend: SqliteBackend) -> int:
    """How many jobs there are."""
    return run_through(backend.counts("q")).accepted


def stored(path: Path) -> int:
    """The same, read by a connection that waits for nobody."""
    with closing(sqlite3.connect(path)) as reader:
        return int(reader.execute("select count(*) from leasemq_job").fetchone()[0])


def test_the_callers_commit_stores_the_job_and_the_callers_rows(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], path: Path
) -> None:
    connection = connect()
    connection.execute("insert into account values ('ada', 5)")
    put(backend.joined(connection), "j")
    before = stored(path)
    connection.commit()

    assert (before, accepted(backend)) == (0, 1)
    assert connection.execute("select name from account").fetchall() == [("ada",)]


def test_the_callers_rollback_takes_both_back(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    connection.execute("insert into account values ('ada', 5)")
    put(backend.joined(connection), "j")
    connection.rollback()

    assert accepted(backend) == 0
    assert connection.execute("select name from account").fetchall() == []


def test_a_first_statement_that_is_ours_begins_the_transaction_as_any_write_would(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    put(backend.joined(connection), "j")

    assert connection.in_transaction
    connection.rollback()
    assert accepted(backend) == 0


def test_a_savepoint_rolled_back_takes_its_jobs_and_leaves_the_others(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    joined = backend.joined(connection)
    put(joined, "first")
    connection.execute("savepoint inner_one")
    put(joined, "second")
    connection.execute("rollback to inner_one")
    put(joined, "third")
    connection.commit()

    records = run_through(backend.get("q", ["first", "second", "third"]))
    assert [record is not None for record in records] == [True, False, True]
    assert accepted(backend) == 2
    assert [event.ref.id for event in run_through(backend.events("q", "", 10)).events] == ["first", "third"]


@pytest.mark.parametrize("factory", [sqlite3.Row, lambda cursor, row: {"not": "a row"}])
def test_the_callers_factories_and_types_do_not_matter_and_stay(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], factory: Any
) -> None:
    connection = connect(detect_types=sqlite3.PARSE_DECLTYPES)
    connection.row_factory, connection.text_factory = factory, bytes
    joined = backend.joined(connection)
    put(joined, "j")
    put(joined, "j", "k")
    connection.commit()

    assert accepted(backend) == 2
    assert (connection.row_factory, connection.text_factory) == (factory, bytes)


def test_a_refused_enqueue_leaves_the_callers_transaction_as_it_was(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    connection.execute("insert into account values ('ada', 5)")
    with pytest.raises(Refused):
        put(backend.joined(connection), "fine", "not\nfine")
    connection.commit()

    assert connection.execute("select name from account").fetchall() == [("ada",)]
    assert accepted(backend) == 0


def test_a_step_that_failed_half_way_leaves_nothing_of_it(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    connection.execute("insert into account values ('ada', 5)")

    def fail(step: Step) -> None:
        accepting.enqueue(step, "q", [builders.new_job("j")])
        step.finish()
        raise ValueError("as if a record could not be read")

    with pytest.raises(CorruptRecord):
        step_on(connection, backend._settings, fail)
    connection.commit()

    assert accepted(backend) == 0
    assert connection.execute("select name from account").fetchall() == [("ada",)]


def test_the_lock_is_taken_before_anything_is_read(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection, other = connect(isolation_level=None), connect(timeout=0)

    def meanwhile(statement: str) -> None:
        if "INSERT INTO leasemq_job" in statement:
            with suppress(sqlite3.OperationalError), other:  # locked out, as it should be
                other.execute("insert into account values ('bob', 1)")

    run_through(backend.enqueue("q", [builders.new_job("first")]))
    connection.execute("begin")
    connection.set_trace_callback(meanwhile)
    put(backend.joined(connection), "j")
    connection.set_trace_callback(None)
    connection.execute("commit")

    assert accepted(backend) == 2
    assert other.execute("select * from account").fetchall() == []


def test_connections_that_cannot_hold_a_job_back_are_refused_with_what_to_do(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], tmp_path: Path
) -> None:
    closed = connect()
    closed.close()
    cases = {
        "BEGIN IMMEDIATE": connect(isolation_level=None),
        "is connected to": connect(path=tmp_path / "other.db"),
        "no file": connect(path=":memory:"),
        "closed": closed,
    }
    for told, connection in cases.items():
        with pytest.raises(InvalidSession, match=told):
            put(backend.joined(connection), "j")
    assert accepted(backend) == 0


def test_a_begun_transaction_is_joined_in_autocommit_mode_too(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], path: Path
) -> None:
    connection = connect(isolation_level=None)
    connection.execute("begin")
    put(backend.joined(connection), "j")
    assert stored(path) == 0
    connection.execute("commit")

    assert accepted(backend) == 1


def test_the_connection_of_another_thread_is_refused(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], path: Path
) -> None:
    with ThreadPoolExecutor() as elsewhere:
        connection = elsewhere.submit(sqlite3.connect, path).result()

    with pytest.raises(InvalidSession, match="thread"):
        put(backend.joined(connection), "j")


def test_another_path_to_the_same_file_is_the_same_file(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection], path: Path, tmp_path: Path
) -> None:
    (tmp_path / "link.db").symlink_to(path)
    connection = connect(path=tmp_path / "link.db")
    put(backend.joined(connection), "j")
    connection.commit()

    assert accepted(backend) == 1


def test_a_transaction_that_read_before_somebody_wrote_is_told_to_begin_again(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect(isolation_level=None)
    connection.execute("begin")
    connection.execute("select * from account").fetchall()
    run_through(backend.enqueue("q", [builders.new_job("meanwhile")]))

    with pytest.raises(BackendUnavailable, match="BEGIN IMMEDIATE"):
        put(backend.joined(connection), "j")
    connection.execute("rollback")
    assert accepted(backend) == 1


def test_a_lock_that_stays_taken_is_told_and_nothing_was_written(
    backend: SqliteBackend, connect: Callable[..., sqlite3.Connection]
) -> None:
    writer, connection = connect(), connect()
    writer.execute("insert into account values ('ada', 5)")

    with pytest.raises(BackendUnavailable, match="locked"):
        put(backend.joined(connection), "j")
    assert not connection.in_transaction
    writer.rollback()


def test_sessions_of_sqlalchemy_are_joined(backend: SqliteBackend, engine: Engine) -> None:
    scoped = scoped_session(sessionmaker(engine))
    with engine.connect() as connection:
        put(backend.joined(connection), "connection")
        connection.commit()
    with Session(engine) as session, session.begin():
        session.execute(text("insert into account values ('ada', 5)"))
        put(backend.joined(session), "session")
    put(backend.joined(scoped), "scoped")
    scoped.commit()
    scoped.remove()
    with Session(engine) as session:
        put(backend.joined(session), "left")

    records = run_through(backend.get("q", ["connection", "session", "scoped", "left"]))
    assert [record is not None for record in records] == [True, True, True, False]


def test_a_savepoint_of_sqlalchemy_takes_its_jobs_along(backend: SqliteBackend, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        put(backend.joined(session), "outer")
        nested = session.begin_nested()
        put(backend.joined(session), "inner")
        nested.rollback()

    assert [record is None for record in run_through(backend.get("q", ["outer", "inner"]))] == [False, True]


async def test_asynchronous_sessions_of_sqlalchemy_are_joined(path: Path) -> None:
    backend = SqliteBackend(path, sync="normal")
    await backend.prepare()
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)

    async def put_by(session: object, id_: str) -> None:
        await backend.joined(session).enqueue("q", [builders.new_job(id_)])

    async with engine.begin() as connection:
        await connection.execute(text("create table account (name text primary key, balance integer)"))
        await put_by(connection, "connection")
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("insert into account values ('ada', 5)"))
        await put_by(session, "session")
    await put_by(scoped, "scoped")
    await scoped.commit()
    await scoped.remove()
    async with AsyncSession(engine) as session:
        await put_by(session, "left")
    with pytest.raises(InvalidSession):
        await put_by(engine, "engine")
    records = await backend.get("q", ["connection", "session", "scoped", "left"])
    await engine.dispose()
    await backend.close()

    assert [record is not None for record in records] == [True, True, True, False]


def test_what_sqlalchemy_has_besides_sessions_is_refused(backend: SqliteBackend, engine: Engine) -> None:
    closed = engine.connect()
    closed.close()
    for one in (
        engine,
        closed,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT"),
    ):
        with pytest.raises(InvalidSession):
            put(backend.joined(one), "j")
    assert accepted(backend) == 0
