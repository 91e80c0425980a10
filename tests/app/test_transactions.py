"""Jobs in the caller's own transaction: there with its commit, and never there without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from leasemq import App, Ctx, State
from leasemq.errors import (
    IdConflict,
    InvalidSession,
    InvalidSetting,
    JobFailed,
    JobNotFound,
    SyncInsideLoop,
    Unsupported,
    WouldDeadlock,
)
from leasemq.task import Task

pytestmark = pytest.mark.promise("P-114")

WITH_TRANSACTIONS = ("sqlite", "postgres")


@pytest.fixture
def place(backend_name: str, url: str) -> str:
    """Where the caller's own tables are, without the driver; or the test is left out."""
    if backend_name not in WITH_TRANSACTIONS:
        pytest.skip("left out: the backend does not declare transactions")
    return url.partition("?")[0].partition("://")[2]


@pytest_asyncio.fixture
async def engine(backend_name: str, place: str) -> AsyncIterator[AsyncEngine]:
    """SQLAlchemy's engine on the jobs' database."""
    driver = "sqlite+aiosqlite" if backend_name == "sqlite" else "postgresql+psycopg"
    engine = create_async_engine(f"{driver}://{place}")
    yield engine
    await engine.dispose()


@pytest.fixture
def send(app: App) -> Task[[str], str]:
    @app.task(name="send")
    async def send(to: str) -> str:
        return to.upper()

    return send


async def test_a_job_is_there_with_the_commit(app: App, send: Task[[str], str], engine: AsyncEngine) -> None:
    async with app, AsyncSession(engine) as session:
        job = await send.options(session=session, id="J").enqueue("ada")
        with pytest.raises(JobNotFound):
            await job.state()
        await session.commit()

        assert (job.id, job.created, job.generation) == ("J", True, 1)
        assert await job.state() is State.WAITING


async def test_a_job_is_gone_with_the_rollback_and_its_id_is_free(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        job = await send.options(session=session, id="J", unique="key").enqueue("ada")
        await session.rollback()

        with pytest.raises(JobNotFound):
            await job.state()
        assert (await send.options(id="K", unique="key").enqueue("ada")).created
        assert (await send.options(id="J").enqueue("ada")).created


async def test_a_savepoint_takes_its_jobs_along(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        outer = await send.options(session=session).enqueue("ada")
        nested = await session.begin_nested()
        inner = await send.options(session=session).enqueue("bob")
        await nested.rollback()
        await session.commit()

        assert await outer.state() is State.WAITING
        with pytest.raises(JobNotFound):
            await inner.state()


async def test_many_jobs_of_several_queues_are_one_transaction(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        calls = [send.options(queue=queue).call(queue) for queue in ("a", "b", "a")]
        jobs = await send.options(session=session).enqueue_many(calls)
        before = [(await app.queue(queue).counts()).accepted for queue in ("a", "b")]
        await session.commit()

        assert before == [0, 0]
        assert [job.queue for job in jobs] == ["a", "b", "a"]
        assert [(await app.queue(queue).counts()).waiting for queue in ("a", "b")] == [2, 1]


async def test_many_jobs_of_one_queue_are_answered_in_the_same_order(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        calls = [send.options(id=name).call(name) for name in ("a", "b", "c")]
        jobs = await send.options(session=session).enqueue_many(calls)
        await session.commit()

        assert [job.id for job in jobs] == ["a", "b", "c"]


@pytest.mark.promise("P-40")
async def test_a_strict_call_hears_of_a_conflict_inside_of_a_transaction(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        await send.options(id="J").enqueue("ada")
        known = await send.options(session=session, id="J").enqueue("bob")
        with pytest.raises(IdConflict):
            await send.options(session=session, id="J", strict=True).enqueue("bob")
        await send.options(session=session, id="K").enqueue("bob")
        await session.commit()

        assert not known.created
        assert (await app.queue("default").counts()).accepted == 2


async def test_what_a_session_cannot_do_is_refused_with_what_to_say(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        within = send.options(session=session)
        with pytest.raises(InvalidSetting, match="commit"):
            await within.enqueue_and_wait("ada")
        with pytest.raises(InvalidSetting, match="enqueue_many"):
            within.call("ada")
        with pytest.raises(SyncInsideLoop):
            within.enqueue_sync("ada")
        with pytest.raises(InvalidSession):
            await send.options(session=engine).enqueue("ada")
        with pytest.raises(InvalidSession):
            await send.options(session="a text").enqueue("ada")


@pytest.fixture
def own_engine(backend_name: str, place: str) -> Iterator[Any]:
    """The same for callers without a loop."""
    engine = create_engine(f"{'sqlite' if backend_name == 'sqlite' else 'postgresql+psycopg'}://{place}")
    yield engine
    engine.dispose()


def test_callers_without_a_loop_have_the_same(app: App, send: Task[[str], str], own_engine: Any) -> None:
    with app:
        with Session(own_engine) as session, session.begin():
            job = send.options(session=session).enqueue_sync("ada")
            more = send.options(session=session).enqueue_many_sync([("bob",), ("cleo",)])
        with Session(own_engine) as session:
            left = send.options(session=session).enqueue_sync("dan")

        assert [one.state_sync() for one in (job, *more)] == [State.WAITING] * 3
        with pytest.raises(JobNotFound):
            left.state_sync()


def test_an_asynchronous_session_is_refused_where_there_is_no_loop(
    app: App, send: Task[[str], str], backend_name: str, place: str
) -> None:
    driver = "sqlite+aiosqlite" if backend_name == "sqlite" else "postgresql+psycopg"
    session = AsyncSession(create_async_engine(f"{driver}://{place}"))
    with app, pytest.raises(InvalidSession, match="await"):
        send.options(session=session).enqueue_sync("ada")


@pytest.mark.promise("P-90")
async def test_a_backend_without_transactions_refuses_a_session(
    app: App, send: Task[[str], str], backend_name: str
) -> None:
    if backend_name in WITH_TRANSACTIONS:
        pytest.skip("left out: the backend declares transactions")
    async with app:
        with pytest.raises(Unsupported, match="transactions"):
            await send.options(session=object()).enqueue("ada")
        assert (await app.queue("default").counts()).accepted == 0


@pytest.mark.promise("P-83")
async def test_an_idle_worker_is_woken_by_the_commit(
    app: App, send: Task[[str], str], engine: AsyncEngine
) -> None:
    async with app, AsyncSession(engine) as session:
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        await send.enqueue_and_wait("warm")
        job = await send.options(session=session).enqueue("ada")
        await session.commit()

        assert await job.result(timeout=5) == "ADA"  # an idle worker sleeps 15 s
        worker.stop()
        await working


async def test_what_a_block_enqueues_is_there_with_the_end_of_its_job(
    app: App, send: Task[[str], str], place: str
) -> None:
    @app.task(name="work")
    async def work(ctx: Ctx, fail: bool) -> None:
        async with ctx.transaction() as connection:
            await send.options(session=connection, id=f"child-{fail}").enqueue("ada")
            if fail:
                raise ValueError("no")

    async with app:
        jobs = [await work.enqueue(fail) for fail in (False, True)]
        worker = app.worker(queues=["default"])
        working = asyncio.create_task(worker.run())
        assert await jobs[0].result(timeout=20) is None
        child = send.job("child-False")
        assert await child.result(timeout=20) == "ADA"
        record = await child.record()
        with pytest.raises(JobFailed):
            await jobs[1].result(timeout=20)
        worker.stop()
        await working

        assert record.creator is not None
        assert record.creator.id == jobs[0].id
        with pytest.raises(JobNotFound):
            await send.job("child-True").state()


async def test_a_block_in_a_thread_enqueues_too(app: App, send: Task[[str], str], place: str) -> None:
    @app.task(name="work")
    def work(ctx: Ctx) -> None:
        with ctx.transaction_sync() as connection:
            send.options(session=connection, id="child").enqueue_sync("ada")

    async with app:
        job = await work.enqueue()
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        await job.result(timeout=20)
        assert await send.job("child").result(timeout=20) == "ada".upper()
        worker.stop()
        await working


async def test_on_sqlite_an_enqueue_beside_the_transaction_it_would_wait_for_is_refused(
    app: App, send: Task[[str], str], backend_name: str, place: str
) -> None:
    if backend_name != "sqlite":
        pytest.skip("left out: a transaction locks its own job only")
    heard: list[str] = []

    @app.task(name="work")
    async def work(ctx: Ctx) -> None:
        async with ctx.transaction():
            for enqueue in (send.enqueue("ada"), send.enqueue_many([("ada",)])):
                try:
                    await enqueue
                except WouldDeadlock as error:
                    heard.append(str(error))
        await send.enqueue("after")

    async with app:
        job = await work.enqueue()
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        await job.result(timeout=20)
        worker.stop()
        await working

        assert len(heard) == 2
        assert "session=" in heard[0]
        assert (await app.queue("default").counts()).accepted == 2


async def test_a_session_of_the_functions_own_ends_with_its_job(
    app: App, engine: AsyncEngine, backend_name: str
) -> None:
    @app.task(name="work")
    async def work(ctx: Ctx, name: str) -> None:
        async with AsyncSession(engine) as session, ctx.transaction(session):
            await session.execute(text("insert into person values (:name)"), {"name": name})
            if name == "bob":
                raise ValueError("no")

    async with app, engine.connect() as connection:
        await connection.execute(text("drop table if exists person"))
        await connection.execute(text("create table person (name text)"))
        await connection.commit()
        jobs = [await work.enqueue(name) for name in ("ada", "bob")]
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        await jobs[0].result(timeout=20)
        with pytest.raises(JobFailed):
            await jobs[1].result(timeout=20)
        worker.stop()
        await working
        names = (await connection.execute(text("select name from person"))).scalars().all()
        await connection.execute(text("drop table person"))
        await connection.commit()

        assert list(names) == ["ada"]
