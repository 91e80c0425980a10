"""The caller's own connection to the server: what it may be, what it decides, and transactions of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from leasemq import App, State
from leasemq.backends.postgres import PostgresBackend, from_url
from leasemq.backends.postgres.settings import Settings, located
from leasemq.errors import BackendUnavailable, IndeterminateWrite, InvalidSession, JobNotFound
from leasemq.protocol.model import Acceptance, Noted, Renewal, Settled, Unique
from leasemq.task import Task
from leasemq.testing.conformance import builders
from tests.backends.postgres.conftest import Operator, becomes
from tests.servers.stores import ServedStore, served_store

pytestmark = pytest.mark.promise("P-114", "P-94")

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def served() -> Iterator[ServedStore]:
    """A store of the test's own."""
    store = served_store("postgres")
    yield store
    store.drop()


@pytest.fixture
def app(served: ServedStore) -> Iterator[App]:
    """An open app for callers without a loop."""
    with App(served.url) as app:
        yield app


@pytest.fixture
def send(app: App) -> Task[[str], str]:
    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    return send


@pytest.fixture
def connect(served: ServedStore) -> Iterator[Connect]:
    """Open connections as a program does; they are closed at the end."""
    opened: list[psycopg.Connection[Any]] = []

    def connect(**options: Any) -> psycopg.Connection[Any]:  # Any: psycopg.connect's own options
        opened.append(psycopg.connect(located(served.url).conninfo, **options))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def test_the_callers_commit_stores_the_job_and_the_callers_rollback_takes_it_back(
    send: Task[[str], str], connect: Connect
) -> None:
    connection = connect(row_factory=dict_row)
    stored = send.options(session=connection).enqueue_sync("ada")
    connection.commit()
    taken_back = send.options(session=connection).enqueue_sync("bob")
    connection.rollback()

    assert stored.state_sync() is State.WAITING
    with pytest.raises(JobNotFound):
        taken_back.state_sync()
    assert connection.execute("select 1 as one").fetchone() == {"one": 1}


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(
    send: Task[[str], str], connect: Connect
) -> None:
    connection = connect(autocommit=True)
    with connection.transaction():
        outer = send.options(session=connection).enqueue_sync("ada")
        with connection.transaction(force_rollback=True):
            inner = send.options(session=connection).enqueue_sync("bob")

    assert outer.state_sync() is State.WAITING
    with pytest.raises(JobNotFound):
        inner.state_sync()


def test_connections_that_cannot_hold_a_job_back_are_refused_with_what_to_do(
    app: App, send: Task[[str], str], connect: Connect
) -> None:
    closed, failed = connect(), connect()
    closed.close()
    with pytest.raises(psycopg.errors.UndefinedTable):
        failed.execute("select * from nowhere")
    cases: dict[str, Any] = {
        "autocommit": connect(autocommit=True),
        "template1": connect(dbname="template1"),
        "closed": closed,
        "has failed": failed,
        "a psycopg connection": object(),
        "sqlite3": Session(create_engine("sqlite://")),
    }
    for told, session in cases.items():
        with pytest.raises(InvalidSession, match=told):
            send.options(session=session).enqueue_sync("ada")
    cases["sqlite3"].close()
    assert app.call_sync(app.queue("default").counts).accepted == 0


def test_a_refusal_that_is_seen_from_here_spoils_no_transaction(
    send: Task[[str], str], connect: Connect
) -> None:
    connection = connect(dbname="template1")
    with pytest.raises(InvalidSession):
        send.options(session=connection).enqueue_sync("ada")

    assert connection.execute("select 1").fetchone() == (1,)


@pytest_asyncio.fixture
async def backend(served: ServedStore) -> AsyncIterator[PostgresBackend]:
    backend = from_url(served.url)
    await backend.prepare()
    yield backend
    await backend.close()


async def _is_gone(operator: Operator, pid: int) -> None:
    look = "select count(*) from pg_stat_activity where pid = %s"

    def count() -> int:
        row = operator.execute(look, (pid,)).fetchone()
        return 0 if row is None else int(row[0])

    async with asyncio.timeout(10):
        while await asyncio.to_thread(count):
            pass


@pytest.mark.promise("P-02")
async def test_the_server_ends_the_transaction_of_an_owner_that_has_fallen_silent(
    backend: PostgresBackend, operator: Operator
) -> None:
    await backend.enqueue("q", [builders.new_job("j")])
    (lease,) = (await backend.claim("q", 1, 1, builders.claimant())).leases
    async with backend.transaction(blocks=False, idle_ms=200) as joined:
        session: Any = joined.session
        await joined.check("q", "j", lease.fence)
        await _is_gone(operator, session.info.backend_pid)
        with pytest.raises(BackendUnavailable):
            await joined.settle("q", builders.complete(lease))
        assert not await joined.roll_back()

    assert await backend.settle("q", [builders.stall(lease)])
    (record,) = await backend.get("q", ["j"])
    assert record is not None
    assert (record.state, record.stalls) == (State.WAITING, 1)


@pytest.mark.promise("P-04")
async def test_a_commit_whose_connection_is_gone_is_in_doubt(
    backend: PostgresBackend, operator: Operator
) -> None:
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        session: Any = joined.session
        await joined.enqueue("q", [builders.new_job("j")])
        pid = session.info.backend_pid
        await asyncio.to_thread(operator.execute, "select pg_terminate_backend(%s)", (pid,))
        await _is_gone(operator, pid)
        with pytest.raises(IndeterminateWrite):
            await joined.commit()


async def test_a_deferred_constraint_of_the_owners_is_the_owners_error(
    backend: PostgresBackend, served: ServedStore
) -> None:
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        session: Any = joined.session
        await session.execute("create temp table one (n int unique deferrable initially deferred)")
        await joined.enqueue("q", [builders.new_job("j")])
        await session.execute("insert into one values (1), (1)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await joined.commit()

    assert list(await backend.get("q", ["j"])) == [None]


async def test_a_transaction_finds_nothing_of_the_one_before_on_its_connection(
    backend: PostgresBackend,
) -> None:
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        first: Any = joined.session
        first.row_factory = dict_row
        await first.execute("set application_name = 'somebody else'")
        await first.execute("create temp table mine (n int)")
        await first.execute("select pg_advisory_lock(7)")
        await joined.commit()
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        second: Any = joined.session
        told = await (
            await second.execute("select current_setting('application_name'), to_regclass('mine')")
        ).fetchone()
        locks = await (
            await second.execute("select count(*) from pg_locks where locktype = 'advisory'")
        ).fetchone()

    assert second is first
    assert told == ("leasemq", None)
    assert locks == (0,)


async def test_a_connection_that_the_server_ended_meanwhile_is_not_used_again(
    backend: PostgresBackend, operator: Operator
) -> None:
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        first: Any = joined.session
        await joined.roll_back()
    pid = first.info.backend_pid
    await asyncio.to_thread(operator.execute, "select pg_terminate_backend(%s)", (pid,))
    await _is_gone(operator, pid)
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        await joined.enqueue("q", [builders.new_job("j")])
        await joined.commit()

    assert joined.session is not first
    assert (await backend.counts("q")).waiting == 1


async def test_a_connection_whose_transaction_was_left_open_is_not_used_again(
    backend: PostgresBackend,
) -> None:
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        first: Any = joined.session
        await joined.enqueue("q", [builders.new_job("j")])
    is_closed = first.closed
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        await joined.commit()

    assert is_closed  # at once, so that it keeps nothing locked
    assert joined.session is not first
    assert (await backend.counts("q")).accepted == 0


@pytest.mark.promise("P-11", "P-15")
async def test_a_stale_holder_keeps_what_it_holds_while_another_has_its_job_in_a_transaction(
    backend: PostgresBackend,
) -> None:
    await backend.enqueue("q", [builders.new_job("j"), builders.new_job("k"), builders.new_job("l")])
    stale, *held = (await backend.claim("q", 3, 1, builders.claimant("A"))).leases
    while list(await backend.settle("q", [builders.stall(stale)])) != [Settled.APPLIED]:
        pass
    (taken,) = (await backend.claim("q", 1, 30_000, builders.claimant("B"))).leases
    asked = [(lease.ref.id, lease.fence) for lease in (stale, *held)]
    with closing(backend.renewer()) as renewer:
        async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
            assert await joined.check("q", "j", taken.fence) is Renewal.HELD
            renewed = await asyncio.to_thread(renewer.renew, "q", asked, 30_000)
            noted = await backend.note("q", [builders.progress(lease) for lease in (stale, *held)])
            settled = await backend.settle("q", [builders.complete(lease) for lease in (stale, *held)])

    assert list(renewed) == [Renewal.LOST, Renewal.HELD, Renewal.HELD]
    assert list(noted) == [Noted.LOST, Noted.HELD, Noted.HELD]
    assert list(settled) == [Settled.LOST, Settled.APPLIED, Settled.APPLIED]


@pytest.mark.promise("P-41", "P-82", "B45")
async def test_an_enqueue_stands_in_line_for_its_key_for_longer_than_one_try(
    backend: PostgresBackend, served: ServedStore, operator: Operator
) -> None:
    location = located(f"{served.url}&application_name=patient")
    patient = PostgresBackend(
        Settings(conninfo=location.conninfo, place=location.place, schema=location.schema, lock_ms=20)
    )
    waits = (
        "SELECT query_start FROM pg_stat_activity WHERE application_name = 'patient'"
        " AND wait_event_type = 'Lock'"
    )
    tries: set[object] = set()

    def tried() -> int:
        tries.update(row[0] for row in operator.execute(waits.encode()).fetchall())
        return len(tries)

    unique = Unique(key="k")
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        await joined.enqueue("q", [builders.new_job("first", unique=unique)])
        asked = asyncio.create_task(patient.enqueue("q", [builders.new_job("second", unique=unique)]))
        await becomes(lambda: asked.done() or tried() >= 3, "it was tried thrice")
        await joined.commit()
    (answer,) = await asked
    await patient.close()

    assert (answer.acceptance, answer.ref.id) == (Acceptance.SKIPPED, "first")


@pytest.mark.promise("P-82")
@pytest.mark.parametrize("blocks", [False, True])
async def test_nobody_waits_for_a_transaction_that_is_the_first_to_use_a_queue(
    backend: PostgresBackend, served: ServedStore, blocks: bool
) -> None:
    other = from_url(served.url)
    async with backend.transaction(blocks=blocks, idle_ms=30_000) as joined:
        await joined.enqueue("fresh", [builders.new_job("mine")])
        await other.enqueue("fresh", [builders.new_job("theirs")])
        await joined.commit()
    await other.close()

    assert (await backend.counts("fresh")).waiting == 2


@pytest.mark.promise("P-82")
async def test_nobody_waits_for_the_first_to_use_a_queue_that_an_own_snapshot_has_rolled_back(
    backend: PostgresBackend, served: ServedStore
) -> None:
    """It could not register the queue apart, so nobody has."""
    conninfo = located(served.url).conninfo
    async with await psycopg.AsyncConnection.connect(conninfo) as session:
        await session.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        joined = backend.joined(session)
        await joined.enqueue("fresh", [builders.new_job("undone")])
        await joined.roll_back()
    other = from_url(served.url)

    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        await joined.enqueue("fresh", [builders.new_job("mine")])
        await other.enqueue("fresh", [builders.new_job("theirs")])
        await joined.commit()
    await other.close()

    assert (await backend.counts("fresh")).waiting == 2


async def test_a_transaction_with_a_snapshot_of_its_own_enqueues_in_a_queue_that_is_new(
    backend: PostgresBackend, served: ServedStore
) -> None:
    conninfo = located(served.url).conninfo
    async with await psycopg.AsyncConnection.connect(conninfo) as session:
        await session.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        joined = backend.joined(session)
        await joined.enqueue("fresh", [builders.new_job("j")])
        await joined.commit()

    assert (await backend.counts("fresh")).waiting == 1


@pytest.mark.promise("P-04")
async def test_a_session_in_a_block_of_its_own_is_refused_and_not_in_doubt(
    backend: PostgresBackend, served: ServedStore
) -> None:
    conninfo = located(served.url).conninfo
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as session:
        with pytest.raises(InvalidSession, match="open none around it"):
            async with session.transaction():
                joined = backend.joined(session)
                await joined.enqueue("q", [builders.new_job("j")])
                await joined.commit()

    assert list(await backend.get("q", ["j"])) == [None]


async def test_no_producer_waits_for_a_job_that_its_handler_has_in_a_transaction(
    backend: PostgresBackend,
) -> None:
    unique = Unique(key="k")
    await backend.enqueue("q", [builders.new_job("j", unique=unique)])
    (lease,) = (await backend.claim("q", 1, 30_000, builders.claimant())).leases
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        assert await joined.check("q", "j", lease.fence) is Renewal.HELD
        again = builders.new_job("j", reuse=frozenset({State.COMPLETED}))
        told = await backend.enqueue("q", [again, builders.new_job("other", unique=unique)])
        await joined.settle("q", builders.complete(lease))
        await joined.commit()
    later = await backend.enqueue("q", [again, builders.new_job("other", unique=unique)])

    assert [one.acceptance for one in told] == [Acceptance.EXISTING, Acceptance.SKIPPED]
    assert [one.state for one in told] == [State.ACTIVE, State.ACTIVE]
    assert [one.acceptance for one in later] == [Acceptance.CREATED, Acceptance.CREATED]
