"""The app's feed: all that happens, live or page by page, from a cursor that is plain text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasemq import App
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.memory.listening import MemoryListener
from leasemq.backends.sqlite import SqliteBackend
from leasemq.client.feed import RECENT_LIMIT, Follower, Tail
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import (
    BackendUnavailable,
    CorruptRecord,
    CursorExpired,
    InvalidCursor,
    InvalidQueueName,
    InvalidSetting,
    WaitTimeout,
)
from leasemq.feed import EARLIEST, JobEvent
from leasemq.notes import Progress, encode_progress
from leasemq.protocol.decide import Snoozed
from leasemq.protocol.insight import EVENT_AGE_MS, Event, EventKind, EventPage
from leasemq.protocol.model import Note, NoteKind, Ref, State, Wake
from leasemq.task import Task
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.manual_clock import ManualClock
from tests.app.holder import Holder
from tests.app.waiting import until

RUN_ONCE = [EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.COMPLETED]


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


async def first(events: AsyncGenerator[JobEvent, None], count: int) -> list[JobEvent]:
    """The next events of a feed, which is then closed."""
    read: list[JobEvent] = []
    async with asyncio.timeout(10), aclosing(events):
        while len(read) < count:
            read.append(await anext(events))
    return read


@pytest.mark.promise("P-62", "A-32")
async def test_a_feed_tells_what_happens_in_all_queues_also_in_those_that_appear_later(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        await task.options(queue="mail", id="before").enqueue(0)
        reading = asyncio.ensure_future(first(app.events(), 6))
        feed = (await app._connections.here()).feed
        await until(lambda: feed.is_watching)
        for queue in ("mail", "new"):
            await task.options(queue=queue, id=f"in {queue}").enqueue(1)
        for lease in [*await holder.claim("mail", 2), *await holder.claim("new")]:
            await holder.returns(lease, task, 1)
        events = await reading

    told = [(event.queue, event.kind) for event in events if event.id == "in new"]
    assert "before" not in {event.id for event in events if event.kind is EventKind.ENQUEUED}
    assert told == [("new", kind) for kind in RUN_ONCE][: len(told)]
    assert {event.queue for event in events} == {"mail", "new"}


@pytest.mark.promise("P-62")
async def test_a_feed_of_named_queues_tells_of_those_alone_also_of_one_that_is_still_unknown(
    app: App, task: Task[[int], Any]
) -> None:
    async with app:
        reading = asyncio.ensure_future(first(app.events(queues=["mail", "unknown"]), 2))
        feed = (await app._connections.here()).feed
        await until(lambda: feed.is_watching)
        for queue in ("other", "mail", "unknown"):
            await task.options(queue=queue).enqueue(1)

        assert {event.queue for event in await reading} == {"mail", "unknown"}
        with pytest.raises(InvalidQueueName):
            await anext(app.events(queues=["no\n"]))


@pytest.mark.promise("P-62", "E-36")
async def test_each_event_s_cursor_goes_on_right_after_it_in_whatever_process(
    app: App, url: str, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        for queue in ("mail", "a,b=c;%", "\u2028"):
            await task.options(queue=queue).enqueue(1)
            await holder.returns_next(task, 1, queue)
        whole = await first(app.events(EARLIEST), 9)
        elsewhere = App(url) if url != "memory://" else App((await app._connections.here()).backend)
        async with elsewhere:
            for number, event in enumerate(whole[:-1], start=1):
                rest = await first(elsewhere.events(event.cursor), 9 - number)
                assert _moments(rest) == _moments(whole[number:])
            page = await elsewhere.events_page(whole[-1].cursor)

    assert page.events == ()
    assert whole[-1].cursor.isprintable()
    assert whole[-1].cursor.isascii()


def _moments(events: Sequence[JobEvent]) -> set[tuple[str, str, EventKind]]:
    return {(event.queue, event.id, event.kind) for event in events}


@pytest.mark.promise("P-62", "E-36")
async def test_pages_tell_the_whole_feed_by_time_without_gap_or_repeat(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        begun = await app.events_page()
        for number in range(12):
            queue = ("mail", "bulk")[number % 2]
            await task.options(queue=queue).enqueue(number)
            await holder.returns_next(task, 1, queue)
        read: list[JobEvent] = []
        cursor = begun.cursor
        while (page := await app.events_page(cursor, limit=7)).events:
            assert len(page.events) <= 7
            read += page.events
            cursor = page.cursor

        for queue in ("mail", "bulk"):
            assert [event.kind for event in read if event.queue == queue] == RUN_ONCE * 6
        assert [event.at for event in read] == sorted(event.at for event in read)
        assert (await app.events_page(EARLIEST, ["bulk"], limit=1_000)).events[-1].queue == "bulk"
        for limit in (0, 1_001, "7"):
            with pytest.raises(InvalidSetting, match="limit"):
                await app.events_page(EARLIEST, limit=limit)  # type: ignore[arg-type]  # what is to be refused
        with pytest.raises(InvalidSetting, match="give a list"):  # else the queues b, u, l, k
            await app.events_page(EARLIEST, "bulk")
        with pytest.raises(InvalidSetting, match="give a list"):
            await anext(app.events(EARLIEST, "bulk"))


@pytest.mark.promise("P-62", "E-36")
@pytest.mark.parametrize(
    "broken", ["7", "1:", "2:{0};", "1:{0};", "{1}x", "{2}", " {1}", "{3}", "{4}", 7, b"1:x:;"]
)
async def test_a_cursor_that_is_broken_or_of_another_store_is_refused(
    app: App, task: Task[[int], Any], broken: Any
) -> None:
    async with app:
        await task.options(queue="mail").enqueue(1)
        cursor = (await app.events_page(EARLIEST)).cursor
        if isinstance(broken, str):
            beyond = cursor.replace("=1", f"={2**63}")
            broken = broken.format("f00d", cursor, cursor[:-2], beyond, cursor.replace("=1", "=-1"))
            assert broken != cursor
        for reading in (app.events(broken), app.events(broken, ["mail"])):
            with pytest.raises(InvalidCursor, match="cursor"):
                await anext(reading)
        with pytest.raises(InvalidCursor, match="cursor"):
            await app.events_page(broken)


@pytest.mark.promise("P-62", "E-36")
async def test_a_feed_of_another_store_is_refused(app: App, task: Task[[int], Any]) -> None:
    other = App("memory://")
    async with app, other:
        cursor = (await other.events_page(EARLIEST)).cursor
        with pytest.raises(InvalidCursor, match="another store"):
            await app.events_page(cursor)


@pytest.mark.promise("P-62", "E-36")
async def test_a_trimmed_cursor_is_refused_with_the_earliest_of_the_whole_feed() -> None:
    clock = ManualClock()
    app = App(MemoryBackend(clock=clock))
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        backend = (await app._connections.here()).backend
        for queue in ("mail", "bulk"):
            await task.options(queue=queue).enqueue(1)
            await task.options(queue=queue).enqueue(2)
        stale = (await app.events_page(EARLIEST, limit=1)).cursor
        clock.advance(EVENT_AGE_MS + 1)
        for queue in ("mail", "bulk"):
            await backend.prune(queue, 10)
            await task.options(queue=queue, id=f"new in {queue}").enqueue(3)
        for reading in (anext(app.events(stale)), app.events_page(stale)):
            with pytest.raises(CursorExpired) as refusal:
                await reading

        page = await app.events_page(refusal.value.earliest)
        assert {event.id for event in page.events} == {"new in mail", "new in bulk"}


@pytest.mark.promise("P-62", "E-36")
@pytest.mark.parametrize("backend_name", ["memory", "sqlite"])
async def test_the_newest_events_of_a_queue_are_kept_and_no_more(backend_name: str, tmp_path: Path) -> None:
    sqlite = SqliteBackend(tmp_path / "few.db", event_limit=10)
    app = App(MemoryBackend(event_limit=10) if backend_name == "memory" else sqlite)
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        begun = (await app.events_page()).cursor
        jobs = await task.enqueue_many([(n,) for n in range(15)])
        with pytest.raises(CursorExpired) as refusal:
            await app.events_page(begun, ["default"])
        for cursor in (EARLIEST, refusal.value.earliest):
            told = [event.id for event in (await app.events_page(cursor)).events]
            assert told == [job.id for job in jobs[5:]]


# ---- who keeps up, and who does not


@pytest.mark.promise("P-62", "A-32")
async def test_a_slow_reader_holds_up_nobody_and_misses_nothing(app: App, task: Task[[int], Any]) -> None:
    async with app:
        slow, quick = app.events(EARLIEST), app.events(EARLIEST)
        await task.enqueue(0)
        async with asyncio.timeout(30), aclosing(slow), aclosing(quick):
            assert (await anext(slow)).kind is EventKind.ENQUEUED
            for _ in range(3):
                await task.enqueue_many([(n,) for n in range(RECENT_LIMIT // 2)])
            told = [(await anext(quick)).id for _ in range(3 * RECENT_LIMIT // 2 + 1)]
            assert [(await anext(slow)).id for _ in range(3 * RECENT_LIMIT // 2)] == told[1:]


@pytest.mark.promise("P-62", "P-82")
async def test_a_feed_survives_an_outage_and_goes_on_where_it_was() -> None:
    wire, backend = Wire(), MemoryBackend()
    app, producer = App(faulty(backend, wire)), App(backend)
    task: Task[[int], Any] = producer.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app, producer:
        events = app.events(EARLIEST)
        async with asyncio.timeout(30), aclosing(events):
            await task.options(id="before").enqueue(1)
            assert (await anext(events)).id == "before"
            waiting = asyncio.ensure_future(anext(events))
            wire.is_down = True
            await task.options(id="meanwhile").enqueue(1)
            assert not (await asyncio.wait({waiting}, timeout=0.05))[0]
            wire.is_down = False
            assert (await waiting).id == "meanwhile"
            await task.options(id="after").enqueue(1)
            assert (await anext(events)).id == "after"


@pytest.mark.promise("P-62", "P-83")
async def test_a_push_that_is_lost_costs_a_feed_about_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(listener: MemoryListener, timeout_ms: int) -> Wake:
        await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=timeout_ms / 1_000)
        return Wake()

    monkeypatch.setattr(MemoryListener, "wait", deaf)
    app = App("memory://")
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        events = app.events(EARLIEST)
        async with asyncio.timeout(10), aclosing(events):
            for id_ in ("a", "b"):
                await task.options(id=id_).enqueue(1)
                assert (await anext(events)).id == id_


class CountingBackend(MemoryBackend):
    """Counts who listens and who reads events."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners = 0
        self.reads = 0

    def listen(self, queues: Sequence[str]) -> Any:
        self.listeners += 1
        return super().listen(queues)

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        self.reads += 1
        return await super().events(queue, cursor, limit)


@pytest.mark.promise("P-61", "P-62")
async def test_a_thousand_watchers_cost_one_listener_and_few_reads() -> None:
    backend = CountingBackend()
    app = App(backend)

    @app.task(name="t")
    async def t(n: int) -> Any: ...

    told: dict[str, list[EventKind]] = {}

    async def watch(job: Any) -> None:
        async for event in job.watch(timeout=60):
            told.setdefault(job.id, []).append(event.kind)

    async with app:
        jobs = await t.enqueue_many([(i,) for i in range(1_000)])
        watching = [asyncio.ensure_future(watch(job)) for job in jobs]
        await until(lambda: len(told) == 1_000)
        holder = Holder(app)
        for lease in await holder.claim(limit=1_000):
            await holder.returns(lease, t, 1)
        await asyncio.gather(*watching)
        assert list(told.values()) == [RUN_ONCE] * 1_000
        feed = (await app._connections.here()).feed
        await until(lambda: not feed.is_watching)
    assert backend.listeners == 1
    assert backend.reads < 100


@pytest.mark.promise("P-61", "P-62")
async def test_an_app_that_nobody_watches_follows_nothing() -> None:
    backend = CountingBackend()
    app = App(backend)
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        await task.enqueue_many([(i,) for i in range(100)])
        await first(app.events(EARLIEST), 1)
        feed = (await app._connections.here()).feed
        await until(lambda: not feed.is_watching)
        before = backend.reads
        await task.enqueue_many([(i,) for i in range(100)])

    assert backend.reads == before > 0


@pytest.mark.promise("P-63", "A-31")
async def test_an_event_of_progress_carries_the_newest_that_is_known(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        await task.enqueue(1)
        (lease,) = await holder.claim()
        backend = (await app._connections.here()).backend
        told = Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.PROGRESS)
        for number in (1, 2):
            value = encode_progress(number, 10, None, None, 1)
            await backend.note("default", [replace(told, number=number, value=value)])
        events = (await app.events_page(EARLIEST)).events

    assert [event.kind for event in events][2:] == [EventKind.PROGRESS] * 2
    newest = Progress(current=2, total=10, attempt=1)
    assert [event.progress for event in events] == [None, None, newest, newest]


@pytest.mark.promise("P-63", "A-31")
async def test_an_event_of_progress_carries_nothing_that_a_later_attempt_told(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        job = await task.enqueue(1)
        for attempt in (1, 2):
            (lease,) = await holder.claim()
            value = encode_progress(attempt, 10, None, None, attempt)
            note = Note(job_id=job.id, fence=lease.fence, kind=NoteKind.PROGRESS, number=1, value=value)
            await (await app._connections.here()).backend.note("default", [note])
            await holder.ends(lease, Snoozed(delay_ms=0))
        page = await app.events_page(EARLIEST)
        watched = []
        with pytest.raises(WaitTimeout):
            async for event in job.watch(timeout=0):
                watched.append(event)

    told = [event.progress for event in page.events if event.kind is EventKind.PROGRESS]
    assert told == [None, Progress(current=2, total=10, attempt=2)]
    assert [event.progress for event in watched if event.kind is EventKind.PROGRESS] == told


@pytest.mark.promise("P-62", "P-63")
async def test_the_progress_of_large_jobs_is_read_in_bounded_parts() -> None:
    class Careful(MemoryBackend):
        async def get(self, queue: str, ids: Sequence[str]) -> Any:
            read.append(len(ids))
            return await super().get(queue, ids)

    read: list[int] = []
    app = App(Careful())

    @app.task(name="t")
    async def t(text: str) -> Any: ...

    async with app:
        await t.enqueue_many([("x" * 500_000,) for _ in range(90)])
        begun = await app.events_page()
        backend = (await app._connections.here()).backend
        for lease in await Holder(app).claim(limit=90):
            value = encode_progress(1, 2, None, None, 1)
            note = Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.PROGRESS, value=value)
            await backend.note("default", [note])
        page = await app.events_page(begun.cursor, limit=1_000)

    assert sum(event.progress == Progress(current=1, total=2, attempt=1) for event in page.events) == 90
    assert sum(read) == 90
    assert max(read) == read[0] <= 64
    assert max(read[1:]) <= 10


# ---- how a feed ends


async def test_closing_the_app_ends_whoever_still_follows(app: App, task: Task[[int], Any]) -> None:
    async with app:
        job = await task.enqueue(1)
        waiting = [asyncio.ensure_future(anext(app.events())), asyncio.ensure_future(_last(job))]
        feed = (await app._connections.here()).feed
        await until(lambda: feed.is_watching)
    for reading in waiting:
        with pytest.raises(BackendUnavailable, match="closed"):
            await reading


async def _last(job: Any) -> list[JobEvent]:
    return [event async for event in job.watch()]


@pytest.mark.promise("P-99")
@pytest.mark.parametrize("defect", [RuntimeError("a defect"), CorruptRecord("events cannot be read")])
async def test_a_defect_of_a_backend_reaches_who_follows(defect: Exception) -> None:
    class DefectiveBackend(MemoryBackend):
        async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
            if cursor is not None:
                raise defect
            return await super().events(queue, cursor, limit)

    app = App(DefectiveBackend())
    task: Task[[int], Any] = app.task(name="t")(sorted)  # type: ignore[arg-type]  # nobody runs it
    async with app:
        job = await task.enqueue(1)
        async with asyncio.timeout(10):
            for reading in (app.events(), job.watch()):
                with pytest.raises(type(defect), match=str(defect)):
                    await anext(reading)


@pytest.mark.promise("A-48")
def test_a_script_without_a_loop_reads_the_feed(app: App, task: Task[[int], Any]) -> None:
    with app:
        job = task.enqueue_sync(1)
        events = app.events_sync(EARLIEST)
        told = next(events)
        task.enqueue_sync(2)
        assert (told.id, next(events).kind) == (job.id, EventKind.ENQUEUED)
        app.call_sync(lambda: Holder(app).returns_next(task, "value"))
        assert [event.kind for event in job.watch_sync(timeout=10)] == RUN_ONCE
        page = app.events_page_sync(told.cursor, limit=2)
        assert [event.kind for event in page.events] == [EventKind.ENQUEUED, EventKind.CLAIMED]
    loop_thread().close()


@pytest.mark.promise("P-62")
async def test_a_follower_reads_from_before_the_first_event_that_is_for_it() -> None:
    everybody, one = Follower(), Follower("wanted")
    tail = Tail("mail", "")
    tail.add(everybody)
    tail.add(one)
    tail.begin("10")
    for follower in (everybody, one):
        follower.forget()

    tail.take([_event("11", "other"), _event("12", "wanted"), _event("13", "wanted")])

    assert await everybody.marks() == {"mail": "10"}
    assert await one.marks() == {"mail": "11"}


def _event(cursor: str, id_: str) -> Event:
    ref = Ref(queue="mail", id=id_, generation=1)
    return Event(cursor=cursor, at_ms=0, ref=ref, kind=EventKind.ENQUEUED, state=State.WAITING, attempt=0)
