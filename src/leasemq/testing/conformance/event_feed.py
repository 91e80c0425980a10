"""Events: one per change, in order, followed from a cursor, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from leasemq.backend import Backend
from leasemq.errors import CursorExpired
from leasemq.protocol.insight import BEGINNING, EVENT_AGE_MS, Event, EventKind
from leasemq.protocol.model import Keep, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

RUN_ONCE = [EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.COMPLETED]


@pytest.mark.promise("P-62", "E-35", "A-32")
async def test_each_change_of_a_job_is_one_event_in_order(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    await queue.settle(builders.retry(await queue.lease()))
    await queue.settle(builders.release(await queue.lease()))
    await queue.stall_once()
    lease = await queue.lease()
    await queue.settle(builders.complete(lease))

    events = await queue.events("j")

    assert [(event.kind, event.state, event.attempt) for event in events] == [
        (EventKind.ENQUEUED, State.SCHEDULED, 0),
        (EventKind.PROMOTED, State.WAITING, 0),
        (EventKind.CLAIMED, State.ACTIVE, 1),
        (EventKind.RETRIED, State.WAITING, 1),
        (EventKind.CLAIMED, State.ACTIVE, 2),
        (EventKind.RELEASED, State.WAITING, 2),
        (EventKind.CLAIMED, State.ACTIVE, 3),
        (EventKind.STALLED, State.WAITING, 3),
        (EventKind.CLAIMED, State.ACTIVE, 4),
        (EventKind.COMPLETED, State.COMPLETED, 4),
    ]
    assert {event.ref for event in events} == {lease.ref}


@pytest.mark.promise("P-62")
async def test_an_event_carries_the_time_of_its_change(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    queue.clock.advance(SECOND_MS)
    await queue.cancel()

    enqueued, cancelled = await queue.events("j")

    assert cancelled.at_ms - enqueued.at_ms == SECOND_MS
    assert cancelled.at_ms == queue.clock()


@pytest.mark.promise("P-62", "E-36")
async def test_reading_goes_on_from_a_cursor_without_gap_or_repeat(queue: QueueUnderTest) -> None:
    for number in range(20):
        await queue.finish(f"j{number}")
    whole = await queue.events()

    read: list[Event] = []
    cursor: str | None = ""
    while page := (await queue.backend.events(queue.name, cursor, 7)).events:
        assert len(page) <= 7
        read += page
        cursor = page[-1].cursor

    assert read == whole
    assert [event.kind for event in whole] == RUN_ONCE * 20


@pytest.mark.promise("P-62", "P-03")
async def test_whoever_reads_on_while_others_write_is_told_every_event(
    queue: QueueUnderTest, second: Backend
) -> None:
    async def write(backend: Backend, who: str) -> None:
        for number in range(25):
            await backend.enqueue(queue.name, [builders.new_job(f"{who}{number}")])
            await backend.cancel(queue.name, [f"{who}{number}"])

    writing = asyncio.gather(write(queue.backend, "a"), write(second, "b"), write(queue.backend, "c"))
    read: list[Event] = []
    cursor = ""
    has_all = False
    while not has_all:
        is_over = writing.done()  # asked before the page is read: what it does not have then is not there
        page = await queue.backend.events(queue.name, cursor, 7)
        read += page.events
        cursor = page.cursor
        has_all = is_over and not page.events
        await asyncio.sleep(0)
    await writing

    assert read == await queue.events()
    assert len(read) == 2 * 3 * 25


@pytest.mark.promise("P-62", "E-36")
async def test_a_page_gives_the_cursor_to_go_on_from_even_when_it_is_empty(queue: QueueUnderTest) -> None:
    await queue.enqueue("a")
    first = await queue.backend.events(queue.name, "", ALL)
    empty = await queue.backend.events(queue.name, first.cursor, ALL)
    await queue.enqueue("b")

    news = await queue.backend.events(queue.name, empty.cursor, ALL)

    assert empty.events == ()
    assert [event.ref.id for event in news.events] == ["b"]


@pytest.mark.promise("P-62", "E-36")
async def test_following_can_begin_at_the_newest(queue: QueueUnderTest) -> None:
    await queue.enqueue("before")

    start = await queue.backend.events(queue.name, None, ALL)
    await queue.enqueue("after")
    page = await queue.backend.events(queue.name, start.cursor, ALL)

    assert start.events == ()
    assert [event.ref.id for event in page.events] == ["after"]


@pytest.mark.promise("P-62")
async def test_a_queue_without_events_can_be_followed_from_its_beginning(queue: QueueUnderTest) -> None:
    start = await queue.backend.events(queue.name, None, ALL)
    assert start.events == ()
    await queue.enqueue("j")

    page = await queue.backend.events(queue.name, start.cursor, ALL)

    assert [event.kind for event in page.events] == [EventKind.ENQUEUED]


@pytest.mark.promise("P-62", "E-36")
async def test_a_trimmed_cursor_is_refused_with_the_earliest_one_left(queue: QueueUnderTest) -> None:
    await queue.enqueue("old")
    stale = (await queue.events())[0].cursor
    await queue.cancel("old")
    queue.clock.advance(EVENT_AGE_MS + 1)
    await queue.enqueue("new")
    await queue.backend.prune(queue.name, ALL)

    with pytest.raises(CursorExpired) as refusal:
        await queue.backend.events(queue.name, stale, ALL)

    page = await queue.backend.events(queue.name, refusal.value.earliest, ALL)
    assert page.events == (await queue.backend.events(queue.name, "", ALL)).events
    assert page.events[0].kind in {EventKind.ENQUEUED, EventKind.REMOVED}


@pytest.mark.promise("P-62", "E-36")
async def test_the_beginning_of_a_queue_is_a_cursor_too_and_is_trimmed_as_any(queue: QueueUnderTest) -> None:
    assert (await queue.backend.events(queue.name, BEGINNING, ALL)).events == ()
    await queue.finish()
    assert list(await _after(queue, BEGINNING)) == await queue.events()
    queue.clock.advance(EVENT_AGE_MS + 1)
    await queue.backend.prune(queue.name, ALL)

    with pytest.raises(CursorExpired):
        await _after(queue, BEGINNING)


@pytest.mark.promise("P-62", "E-36")
async def test_the_cursor_of_the_last_trimmed_event_has_missed_nothing(queue: QueueUnderTest) -> None:
    await queue.enqueue("old")
    last = (await queue.events())[-1].cursor
    queue.clock.advance(EVENT_AGE_MS + 1)
    await queue.backend.prune(queue.name, ALL)
    await queue.enqueue("new")

    page = await queue.backend.events(queue.name, last, ALL)

    assert [event.ref.id for event in page.events] == ["new"]


@pytest.mark.promise("P-62", "E-36")
async def test_a_cursor_from_a_state_that_was_lost_is_refused(queue: QueueUnderTest) -> None:
    await queue.finish()
    newest = (await queue.backend.events(queue.name, None, 0)).cursor

    with pytest.raises(CursorExpired) as refusal:  # it would miss what is written under these numbers
        await queue.backend.events(queue.name, str(int(newest) + 1), ALL)

    assert list(await _after(queue, refusal.value.earliest)) == await queue.events()


@pytest.mark.promise("P-62", "E-36")
async def test_events_do_not_outlive_their_age(queue: QueueUnderTest) -> None:
    await queue.enqueue("old")
    queue.clock.advance(EVENT_AGE_MS - SECOND_MS)
    await queue.enqueue("young")
    await queue.backend.prune(queue.name, ALL)
    assert len(await queue.events()) == 2
    queue.clock.advance(2 * SECOND_MS)

    await queue.backend.prune(queue.name, ALL)

    assert [event.ref.id for event in await queue.events()] == ["young"]


@pytest.mark.promise("P-62")
async def test_a_record_says_from_where_its_events_are_to_be_read(queue: QueueUnderTest) -> None:
    await queue.finish("other")
    await queue.finish("j")
    await queue.enqueue("a", "b")
    await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))
    await queue.cancel("j")

    for id_ in ("a", "b", "j"):
        first, *_ = await _after(queue, (await queue.record(id_)).born)
        assert (first.ref, first.kind) == ((await queue.record(id_)).ref, EventKind.ENQUEUED)


async def _after(queue: QueueUnderTest, cursor: str) -> Sequence[Event]:
    return (await queue.backend.events(queue.name, cursor, ALL)).events


@pytest.mark.promise("P-62", "E-30")
async def test_events_have_a_retention_of_their_own(queue: QueueUnderTest) -> None:
    await queue.finish("kept", keep=Keep(result_ms=HOUR_MS, record_ms=HOUR_MS))
    await queue.finish("gone", keep=Keep(result_ms=SECOND_MS, record_ms=SECOND_MS))
    queue.clock.advance(2 * SECOND_MS)
    await queue.backend.prune(queue.name, ALL, 3 * SECOND_MS)
    assert await queue.story("gone") == [*RUN_ONCE, EventKind.REMOVED]
    queue.clock.advance(SECOND_MS)

    await queue.backend.prune(queue.name, ALL, 3 * SECOND_MS)

    assert [event.kind for event in await queue.events()] == [EventKind.REMOVED]
    assert (await queue.record("kept")).state is State.COMPLETED


@pytest.mark.promise("P-62", "P-43")
async def test_a_record_removed_in_the_step_that_ended_it_still_tells_how_it_ended(
    queue: QueueUnderTest,
) -> None:
    await queue.finish(keep=Keep(record_ms=0))

    kinds = await queue.story()

    assert kinds[:3] == RUN_ONCE
    assert kinds[3:] == [EventKind.REMOVED]


@pytest.mark.promise("P-62")
async def test_events_belong_to_their_queue(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    await queue.backend.enqueue("other", [builders.new_job("o")])

    assert [event.ref.id for event in await queue.events()] == ["j"]


@pytest.mark.promise("P-62", "P-11")
async def test_what_changes_no_state_makes_no_event(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    before = await queue.events()

    await queue.renew(lease)
    await queue.note(builders.log_line(lease))
    await queue.note(builders.checkpoint(lease))
    await queue.claim()
    await queue.backend.advance(queue.name, ALL)
    await queue.backend.prune(queue.name, ALL)
    await queue.backend.pause(queue.name)
    await queue.backend.resume(queue.name)

    assert await queue.events() == before
