"""One job's story through its handle: what happened, then what happens, to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasemq import App, Job, State
from leasemq.errors import JobNotFound, WaitTimeout
from leasemq.protocol.insight import EventKind
from leasemq.task import Task
from tests.app.holder import Holder
from tests.app.waiting import until

RUN_ONCE = [EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.COMPLETED]


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


async def story(job: Job[Any], **options: Any) -> list[EventKind]:
    """What kinds of events a watcher is told."""
    return [event.kind async for event in job.watch(**options)]


@pytest.mark.promise("P-62", "A-32")
async def test_a_watcher_is_told_the_story_from_the_start_and_live_to_its_end(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        job = await task.enqueue(1)
        told: list[Any] = []

        async def watch() -> None:
            told.extend([event async for event in job.watch(timeout=10)])

        watching = asyncio.ensure_future(watch())
        (lease,) = await holder.claim()
        await holder.returns(lease, task, 7)
        await watching

    assert [(event.kind, event.state, event.attempt) for event in told] == [
        (EventKind.ENQUEUED, State.WAITING, 0),
        (EventKind.CLAIMED, State.ACTIVE, 1),
        (EventKind.COMPLETED, State.COMPLETED, 1),
    ]
    assert {(event.queue, event.id, event.generation) for event in told} == {("default", job.id, 1)}
    assert [event.at for event in told] == sorted(event.at for event in told)
    assert all(event.at.tzinfo is not None for event in told)


@pytest.mark.promise("P-62")
async def test_a_watcher_of_a_job_that_is_over_is_told_it_all_and_does_not_wait(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        job = await task.enqueue(1)
        await holder.returns_next(task, 7)

        assert await story(job) == RUN_ONCE
        assert await story(task.job(job.id)) == RUN_ONCE


@pytest.mark.promise("P-62")
async def test_no_event_is_lost_or_doubled_however_the_job_and_the_watch_interleave(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        for turns in range(40):
            job = await task.enqueue(turns)
            watching = asyncio.ensure_future(story(job, timeout=10))
            for _ in range(turns % 14):
                await asyncio.sleep(0)
            await holder.returns_next(task, turns)
            assert await watching == RUN_ONCE


@pytest.mark.promise("P-62")
async def test_what_is_unknown_cannot_be_watched(app: App, task: Task[[int], Any]) -> None:
    async with app:
        job = await task.enqueue(1)
        with pytest.raises(JobNotFound, match="unknown"):
            await story(task.job("unknown"))
        with pytest.raises(JobNotFound, match="generation 3"):
            await story(app.job("default", job.id, generation=3))


@pytest.mark.promise("P-62")
async def test_a_watcher_s_time_is_its_own(app: App, task: Task[[int], Any]) -> None:
    async with app:
        job = await task.enqueue(1)
        told = []
        with pytest.raises(WaitTimeout):
            async for event in job.watch(timeout=0):
                told.append(event.kind)
        with pytest.raises(WaitTimeout):
            await story(job, timeout=0.02)

        assert told == [EventKind.ENQUEUED]
        assert await job.state() is State.WAITING
        feed = (await app._connections.here()).feed
        await until(lambda: not feed.is_watching)
