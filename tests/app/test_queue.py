"""The operator's side of a queue."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from leasemq import App, State
from leasemq.errors import (
    IllegalMove,
    InvalidDelay,
    InvalidQueueName,
    InvalidSetting,
    JobNotFound,
    UniqueConflict,
)
from leasemq.protocol.decide import Reason
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Ref
from leasemq.task import Task
from tests.app.holder import Holder


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t", queue="q")
    async def t(n: int) -> Any: ...

    return t


@pytest.mark.promise("P-43", "A-35")
async def test_counts_and_names_of_queues(app: App, task: Task[[int], Any], holder: Holder) -> None:
    async with app:
        assert await app.queues() == ()
        assert (await app.queue("q").counts()).accepted == 0
        await task.enqueue_many([(1,), (2,), (3,)])
        await task.options(queue="other", delay=60).enqueue(1)
        await holder.returns_next(task, 1, "q")
        counts = await app.queue("q").counts()
        assert (counts.waiting, counts.completed, counts.accepted) == (2, 1, 3)
        assert await app.queues() == ("other", "q")
        with pytest.raises(InvalidQueueName):
            app.queue("")


@pytest.mark.promise("P-52", "A-20")
async def test_a_paused_queue_gives_nothing_until_it_is_resumed(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        await task.enqueue(1)
        queue = app.queue("q")
        await queue.pause()
        await queue.pause()
        assert await holder.claim("q") == []
        assert (await queue.counts()).paused
        await queue.resume()
        assert len(await holder.claim("q")) == 1


@pytest.mark.promise("A-35", "E-55")
async def test_jobs_are_found_by_state_task_and_id_in_pages(app: App, task: Task[[int], Any]) -> None:
    other = app.task(name="other", queue="q")(lambda n: n)
    async with app:
        for n in range(7):
            await task.options(id=f"inv-{n}").enqueue(n)
        await other.options(delay=5).enqueue(1)
        queue = app.queue("q")
        page = await queue.find(task="t", limit=5)
        assert [record.ref.id for record in page.jobs] == [f"inv-{n}" for n in (6, 5, 4, 3, 2)]
        rest = await queue.find(task="t", limit=5, cursor=page.cursor)
        assert ([record.ref.id for record in rest.jobs], rest.cursor) == (["inv-1", "inv-0"], None)
        assert len((await queue.find(states=["scheduled"])).jobs) == 1
        assert len((await queue.find(states="waiting")).jobs) == 7
        assert len((await queue.find(id_prefix="inv-3")).jobs) == 1
        assert (await queue.find(older_than=3600)).jobs == ()
        for wrong in ({"limit": 0}, {"limit": 1_001}, {"limit": 1.5}, {"states": ["done"]}):
            with pytest.raises(InvalidSetting):
                await queue.find(**wrong)
        with pytest.raises(InvalidDelay):
            await queue.find(older_than=-1)


@pytest.mark.promise("P-54", "A-23")
async def test_dead_letters_are_listed_and_replayed(app: App, task: Task[[int], Any], holder: Holder) -> None:
    async with app:
        failed, fine = await task.enqueue_many([(1,), (2,)])
        (lease,) = await holder.claim("q")
        await holder.gives_up(lease, ValueError("no"), Reason.DEAD)
        assert [record.ref.id for record in (await app.queue("q").dead()).jobs] == [failed.id]
        assert [record.ref.id async for record in app.dead()] == [failed.id]
        assert [record.ref.id async for record in app.dead("elsewhere")] == []
        await app.replay(failed)
        assert await failed.state() is State.WAITING
        assert (await failed.record()).payload == lease.payload
        with pytest.raises(IllegalMove, match=r"is waiting, so it cannot be replayed"):
            await app.queue("q").replay(fine.id)
        with pytest.raises(JobNotFound, match="unknown"):
            await app.queue("q").replay("unknown")


@pytest.mark.promise("P-41", "P-54")
async def test_a_replay_whose_unique_key_is_taken_names_the_holder(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        await task.options(unique="k").enqueue(1)
        (lease,) = await holder.claim("q")
        await holder.gives_up(lease, ValueError("no"), Reason.DEAD)
        second = await task.options(unique="k").enqueue(2)
        with pytest.raises(UniqueConflict, match=second.id):
            await app.queue("q").replay(lease.ref.id)


@pytest.mark.promise("P-53", "A-22")
async def test_one_job_is_promoted_reprioritised_rescheduled_cancelled_and_removed(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        queue = app.queue("q")
        job = await task.options(delay=3600).enqueue(1)
        await queue.promote(job.id)
        assert await job.state() is State.WAITING
        await queue.reprioritise(job.id, 7)
        assert (await job.record()).priority == 7
        await queue.reschedule(job.id, 60)
        assert await job.state() is State.SCHEDULED
        assert (await queue.get(job.id)) == await job.record()
        await queue.reschedule(job.id, 0)
        (lease,) = await holder.claim("q")
        with pytest.raises(IllegalMove, match="removed"):
            await queue.remove(job.id)
        with pytest.raises(IllegalMove, match="promoted"):
            await queue.promote(job.id)
        assert await queue.cancel(job.id) is CancelAnswer.CANCELLING
        await queue.remove(job.id, force=True)
        with pytest.raises(JobNotFound):
            await queue.cancel(job.id)
        assert await queue.get(job.id) is None
        with pytest.raises(InvalidSetting, match="priority"):
            await queue.reprioritise(job.id, 1_000)
    assert lease.ref == Ref(queue="q", id=job.id, generation=1)


@pytest.mark.promise("P-53", "A-36")
async def test_drain_purge_and_obliterate_answer_how_many(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        queue = app.queue("q")
        await task.enqueue_many([(n,) for n in range(5)])
        await holder.returns_next(task, 1, "q")
        (lease,) = await holder.claim("q")
        assert await queue.purge(older_than=3_600) == 0
        assert await queue.purge(["completed"]) == 1
        assert await queue.drain() == 3
        with pytest.raises(IllegalMove, match="force"):
            await queue.obliterate()
        assert await queue.obliterate(force=True) == 1
        with pytest.raises(
            InvalidSetting, match="purge takes the states cancelled, completed, expired, failed, not waiting"
        ):
            await queue.purge(["waiting"])
    assert lease.attempts == 1


async def test_every_dead_letter_is_read_across_pages(app: App, task: Task[[int], Any]) -> None:
    async with app:
        await task.options(ttl=0.001).enqueue_many([(n,) for n in range(250)])
        backend = (await app._connections.here()).backend
        while (await app.queue("q").counts()).expired < 250:
            await backend.advance("q", 100)
        assert len({record.ref.id async for record in app.dead()}) == 250


@pytest.mark.promise("P-43", "P-101", "B34")
async def test_large_jobs_are_listed_in_pages_of_at_most_a_mebibyte(app: App) -> None:
    task: Task[[str], Any] = app.task(name="large", queue="q")(lambda text: None)
    async with app:
        jobs = await task.enqueue_many([("x" * 200 * 1024,)] * 300)
        read: list[str] = []
        cursor: str | None = None
        tracemalloc.start()
        try:
            while not read or cursor is not None:
                page = await app.queue("q").find(limit=50, cursor=cursor)
                read += [record.ref.id for record in page.jobs]
                cursor = page.cursor
                assert 1 <= len(page.jobs) <= 50
                assert sum(len(record.payload) for record in page.jobs) <= 1024 * 1024
            _, grown_by = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert read == [job.id for job in reversed(jobs)]
        assert grown_by <= 50 * 1024 * 1024
