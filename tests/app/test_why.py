"""Asking why through the public API: handles, both faces, and a worker that is really there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from leasemq import App, Retry
from leasemq.protocol.metrics import exposition
from leasemq.protocol.reasons import Reason, Why
from tests.app.holder import Holder


async def _until(app: App, queue: str, id_: str, kind: Why) -> Sequence[Reason]:
    """Ask until the first reason is of a kind."""
    async with asyncio.timeout(20):
        while True:
            reasons = await app.job(queue, id_).why()
            if reasons[0].kind is kind:
                return reasons
            await asyncio.sleep(0)


async def _until_listed(app: App) -> None:
    """Wait for the first announcement of a worker."""
    async with asyncio.timeout(20):
        while not await app.workers():  # noqa: ASYNC110  the store sets no event
            await asyncio.sleep(0)


@pytest.mark.promise("P-116", "P-41")
async def test_a_handle_says_why_its_job_does_not_run(app: App) -> None:
    @app.task(name="t", queue="mail", unique=lambda n: f"n{n}")
    async def t(n: int) -> None: ...

    async with app:
        stored = await t.options(delay=timedelta(minutes=5), id="a").enqueue(1)
        skipped = await t.options(id="b").enqueue(1)
        unknown = app.job("mail", "nobody")

        assert [one.kind for one in await stored.why()] == [Why.NOT_DUE, Why.NO_WORKER]
        assert [one.kind for one in await skipped.why()] == [Why.SKIPPED, Why.NOT_DUE, Why.NO_WORKER]
        assert [one.kind for one in await unknown.why()] == [Why.UNKNOWN]
        assert [one.values["elsewhere"] for one in await app.job("other", "a").why()] == [["mail"]]


@pytest.mark.promise("P-116", "P-28", "P-84")
async def test_a_worker_announces_the_tasks_that_it_knows_by_name_and_alias(app: App) -> None:
    @app.task(name="t", aliases=["old name of t"])
    async def t() -> None: ...

    async with app:
        await app.queue("default").pause()
        worker = app.worker(queues=["default"], concurrency=1)
        running = asyncio.create_task(worker.run())
        job = await t.enqueue()
        (paused, *_) = await job.why()
        await _until_listed(app)
        workers = await app.workers()
        worker.stop()
        await running

    assert paused.kind is Why.PAUSED
    assert workers[0].tasks == ("old name of t", "t")


@pytest.mark.promise("P-116")
async def test_a_running_job_names_its_worker_and_a_retried_one_its_error(app: App) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="t", retry=Retry(max_retries=3, base=3_600, jitter="none"))
    async def t() -> None:
        started.set()
        await go_on.wait()
        raise ValueError("no such address")

    async with app:
        worker = app.worker(queues=["default"], concurrency=1, name="w")
        running = asyncio.create_task(worker.run())
        job = await t.enqueue()
        await started.wait()
        (leased,) = await job.why()
        go_on.set()
        retried = await _until(app, "default", job.id, Why.BACK_OFF)
        worker.stop()
        await running

    assert (leased.kind, leased.values["worker"]) == (Why.LEASED, "w")
    assert retried[0].values["error_type"] == "ValueError"
    assert retried[0].values["failures"] == 1


@pytest.mark.promise("P-116")
def test_the_synchronous_face_says_why_too(app: App) -> None:
    @app.task(name="t", queue="mail")
    def t() -> None: ...

    with app:
        job = t.options(delay=60).enqueue_sync()
        assert [one.kind for one in job.why_sync()] == [Why.NOT_DUE, Why.NO_WORKER]


@pytest.mark.promise("P-115", "P-43", "E-67")
async def test_metrics_agree_with_the_counts_after_a_scripted_scenario(app: App, holder: Holder) -> None:
    @app.task(name="t", queue="mail", retry=None)
    async def t(n: int) -> int:
        return n

    async with app:
        for n in range(5):
            await t.options(id=f"j{n}").enqueue(n)
        done, broken, running = await holder.claim("mail", limit=3)
        await holder.returns(done, t, 0)
        await holder.raises(broken, ValueError("no"))
        await holder.returns(broken, t, 1)  # refused
        await t.options(id="later", delay=60).enqueue(9)
        await app.queue("other").pause()

        found = await app.metrics()

        mail, other = found.queues
        counts = await app.queue("mail").counts()
        assert replace(mail, oldest_waiting_ms=counts.oldest_waiting_ms) == counts  # time alone goes on
        states = (mail.scheduled, mail.waiting, mail.active, mail.completed, mail.failed)
        assert (mail.queue, *states) == ("mail", 1, 2, 1, 1, 1)
        assert mail.accepted == sum(states) + mail.blocked + mail.cancelled + mail.expired + mail.removed == 6
        assert (mail.dead_letters, mail.refused, mail.stalls, mail.releases) == (1, 1, 0, 0)
        assert mail.oldest_waiting_ms is not None
        assert (other.queue, other.paused, other.accepted) == ("other", True, 0)
        assert found.workers == ()
        assert running.ref.id == "j2"


@pytest.mark.promise("P-115", "P-84")
def test_metrics_show_how_lately_each_worker_was_heard_of(app: App) -> None:
    @app.task(name="t", queue="mail")
    def t() -> None: ...

    with app:
        assert app.metrics_sync().queues == ()
        t.enqueue_sync()

        async def work() -> None:
            worker = app.worker(queues=["mail"], concurrency=3, name="w")
            running = asyncio.create_task(worker.run())
            await _until_listed(app)
            found = await app.metrics()
            (one,) = found.workers
            assert (one.worker, one.queues, one.slots) == ("w", ("mail",), 3)
            assert 0 <= one.heartbeat_age_ms < 20_000
            assert found.workers_on("mail") == 1
            worker.stop()
            await running

        app.call_sync(work)


@pytest.mark.promise("P-115", "B44")
async def test_the_number_of_series_does_not_grow_with_the_number_of_jobs(app: App, holder: Holder) -> None:
    @app.task(name="t", queue="mail", retry=None)
    async def t(n: int) -> int:
        return n

    async def series() -> list[str]:
        return [line.split(" ")[0] for line in exposition(await app.metrics()).splitlines() if line[0] != "#"]

    async with app:
        await t.enqueue(0)
        before = await series()
        await t.enqueue_many([(n,) for n in range(300)])
        for lease in await holder.claim("mail", limit=100):
            await holder.raises(lease, ValueError(f"error {lease.ref.id}"))

        assert await series() == before
        assert len(before) == len(set(before))
