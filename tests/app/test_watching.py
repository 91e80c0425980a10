"""One job's story through its handle: what happened, then what happens, to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasemq import App, Job, State
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import CursorExpired, JobFailed, JobNotFound, WaitTimeout
from leasemq.protocol.decide import Reason
from leasemq.protocol.insight import EVENT_AGE_MS, EventKind
from leasemq.task import Task
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.virtual_loop import run_virtual
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


@pytest.mark.promise("P-62", "P-54", "E-36")
async def test_a_story_goes_on_after_a_replay_and_from_any_of_its_cursors(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    whole = [
        *(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.FAILED),
        *(EventKind.REPLAYED, EventKind.CLAIMED, EventKind.COMPLETED),
    ]
    async with app:
        job = await task.enqueue(1)
        (lease,) = await holder.claim()
        await holder.gives_up(lease, ValueError("once"), Reason.DEAD)
        assert await story(job) == whole[:3]
        await app.replay(job)
        with pytest.raises(WaitTimeout):
            await story(job, timeout=0)
        await holder.returns_next(task, 1)

        told = [event async for event in job.watch()]
        assert [event.kind for event in told] == whole
        for number, event in enumerate(told, start=1):
            assert await story(job, cursor=event.cursor) == whole[number:]
        feed = await app.events_page(told[3].cursor)
        assert [event.kind for event in feed.events] == whole[4:]


@pytest.mark.promise("P-62", "P-44")
async def test_each_life_of_an_id_has_its_own_story(app: App, task: Task[[int], Any], holder: Holder) -> None:
    async with app:
        old = await task.options(id="x").enqueue(1)
        await holder.returns_next(task, 1)
        new = await task.options(id="x", reuse=[State.COMPLETED]).enqueue(2)
        await new.cancel()

        assert await story(old) == RUN_ONCE
        assert await story(new) == await story(task.job("x")) == [EventKind.ENQUEUED, EventKind.CANCELLED]


@pytest.mark.promise("P-62")
@pytest.mark.parametrize("begins", ["before", "after"])
async def test_a_job_whose_record_is_removed_is_told_to_its_end(
    app: App, task: Task[[int], Any], holder: Holder, begins: str
) -> None:
    async with app:
        at_once, drained = await task.options(keep_record=0, keep_result=0).enqueue_many([(1,), (2,)])
        watching = []
        if begins == "before":
            watching = [asyncio.ensure_future(story(job, timeout=10)) for job in (at_once, drained)]
            feed = (await app._connections.here()).feed
            await until(lambda: feed.is_watching)
        await holder.returns_next(task, 1)
        await app.queue().drain()
        told = await asyncio.gather(*(watching or map(story, (at_once, drained))))

    assert told == [RUN_ONCE, [EventKind.ENQUEUED, EventKind.REMOVED]]


@pytest.mark.promise("P-62")
async def test_a_job_whose_events_are_trimmed_is_told_how_it_ended() -> None:
    clock = ManualClock()
    app = App(MemoryBackend(clock=clock), keep_record=30 * 86_400)
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        backend = (await app._connections.here()).backend
        over, open_, begun = await task.enqueue_many([(1,), (2,), (3,)])
        await over.cancel()
        (cursor, *_) = [event.cursor async for event in over.watch()]
        clock.advance(EVENT_AGE_MS + 1)
        await backend.prune("default", 10)
        told = [event async for event in over.watch()]
        assert [(event.kind, event.state) for event in told] == [(EventKind.CANCELLED, State.CANCELLED)]
        assert await story(over, cursor=told[0].cursor) == []
        with pytest.raises(CursorExpired) as refusal:
            await story(over, cursor=cursor)
        assert await story(over, cursor=refusal.value.earliest) == []
        with pytest.raises(WaitTimeout):
            await story(open_, timeout=0)
        await begun.cancel()
        assert await story(begun) == [EventKind.CANCELLED]


@pytest.mark.promise("P-62", "P-82")
async def test_a_watcher_outlives_an_outage() -> None:
    wire, backend = Wire(), MemoryBackend()
    app, producer = App(faulty(backend, wire)), App(backend)
    task: Task[[int], Any] = producer.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app, producer:
        job = await task.enqueue(1)
        watching = asyncio.ensure_future(story(app.job("default", job.id), timeout=30))
        feed = (await app._connections.here()).feed
        await until(lambda: feed.is_watching)
        wire.is_down = True
        await job.cancel()
        assert not (await asyncio.wait({watching}, timeout=0.05))[0]
        wire.is_down = False

        assert await watching == [EventKind.ENQUEUED, EventKind.CANCELLED]


@pytest.mark.promise("P-62", "P-82")
def test_a_mere_look_does_not_wait_for_the_end_of_an_outage() -> None:
    async def play() -> None:
        wire = Wire()
        app = App(faulty(MemoryBackend(), wire))
        task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
        async with app:
            job = await task.enqueue(1)
            wire.lose_request("events", times=1_000)
            with pytest.raises(WaitTimeout):
                await story(job, timeout=0)

    run_virtual(play(), max_virtual_s=60)


@pytest.mark.promise("P-60", "P-62")
async def test_watching_inside_a_running_job_is_refused_unless_it_is_asked_for(app: App) -> None:
    @app.task(name="outer")
    async def outer(allow: bool) -> int:
        return len([event async for event in app.job("default", "other").watch(timeout=0, allow_wait=allow)])

    async with app:
        await app.tasks["outer"].options(id="other", delay=600).enqueue(True)
        await app.job("default", "other").cancel()
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        with pytest.raises(JobFailed, match="WouldDeadlock"):
            await (await outer.enqueue(False)).result(timeout=10)
        assert await (await outer.enqueue(True)).result(timeout=10) == 2
        worker.stop()
        await running
