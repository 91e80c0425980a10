"""A job's own trail: every event, progress and log line of one life, in one order, and only if asked for."""

from __future__ import annotations

import pytest

from leasemq.errors import InvalidCursor, InvalidSetting
from leasemq.protocol.insight import EventKind, TrailEntry, TrailPage
from leasemq.protocol.model import TRAIL_LIMIT, Keep, Noted, NoteKind, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.conformance.store import Hooks

AT_ONCE = Keep(result_ms=0, record_ms=0, dead_ms=0)
BRIEFLY = Keep(result_ms=HOUR_MS, record_ms=HOUR_MS, dead_ms=HOUR_MS)


async def trail(
    queue: QueueUnderTest, job_id: str = "j", *, generation: int | None = None,
    cursor: str | None = None, limit: int = ALL,
) -> TrailPage:  # fmt: skip
    """One page of the trail of a job that must be there."""
    page = await queue.backend.trail(queue.name, job_id, generation, cursor, limit)
    assert page is not None, f"job {job_id!r} has no trail"
    return page


async def every_entry(queue: QueueUnderTest, limit: int) -> list[TrailEntry]:
    """The whole trail of `j`, page by page of this size."""
    entries, cursor = list[TrailEntry](), None
    while True:
        page = await trail(queue, cursor=cursor, limit=limit)
        assert len(page.entries) <= limit
        if not page.entries:
            return entries
        entries += page.entries
        cursor = page.cursor


def told(entries: list[TrailEntry] | tuple[TrailEntry, ...]) -> list[tuple[str, str, int]]:
    """What each entry says, but for its number, time and value."""
    return [(entry.kind.value, entry.state.value, entry.attempt) for entry in entries]


@pytest.mark.promise("P-63", "E-37")
async def test_a_trail_has_events_progress_and_log_lines_in_one_order(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", trail=100, delay_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    first = await queue.lease()
    await queue.backend.note(
        queue.name,
        [builders.progress(first, b"1"), builders.log_line(first, b"2"), builders.progress(first, b"3")],
    )
    await queue.note(builders.checkpoint(first))
    await queue.settle(builders.retry(first))
    second = await queue.lease()
    queue.clock.advance(5)
    await queue.note(builders.log_line(second, b"4"))
    await queue.cancel()
    await queue.settle(builders.acknowledge_cancel(second))

    entries = (await trail(queue)).entries
    assert told(entries) == [
        ("enqueued", "scheduled", 0),
        ("promoted", "waiting", 0),
        ("claimed", "active", 1),
        ("progress", "active", 1),
        ("log", "active", 1),
        ("progress", "active", 1),
        ("retried", "waiting", 1),
        ("claimed", "active", 2),
        ("log", "active", 2),
        ("cancel_requested", "active", 2),
        ("cancelled", "cancelled", 2),
    ]
    assert [entry.value for entry in entries if entry.value is not None] == [b"1", b"2", b"3", b"4"]
    assert [entry.number for entry in entries] == list(range(1, 12))
    assert [type(entry.kind) for entry in entries].count(NoteKind) == 2
    assert entries[8].at_ms - entries[7].at_ms == 5
    assert (await queue.record()).trail == 100


@pytest.mark.promise("P-62", "P-63", "A-31")
async def test_each_progress_is_an_event_of_its_job(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    await queue.backend.note(queue.name, [builders.progress(lease, b"1"), builders.log_line(lease)])
    await queue.note(builders.progress(lease, b"2"))

    events = await queue.events()
    assert [(event.kind, event.state, event.attempt) for event in events[2:]] == [
        (EventKind.PROGRESS, State.ACTIVE, 1)
    ] * 2


@pytest.mark.promise("E-37", "P-63")
async def test_every_way_to_move_a_job_is_in_its_trail(queue: QueueUnderTest) -> None:
    await queue.put(builders.with_parent("j", "p", trail=100))
    await queue.backend.resolve((await queue.record()).ref, queue.name, "p", passes=True)
    await queue.backend.reschedule(queue.name, ["j"], SECOND_MS)
    await queue.backend.promote(queue.name, ["j"])
    await queue.settle(builders.snooze(await queue.lease()))
    await queue.backend.promote(queue.name, ["j"])
    await queue.settle(builders.release(await queue.lease()))
    await queue.stall_once()
    await queue.settle(builders.fail(await queue.lease(takes_suspect=True)))
    await queue.replay()
    await queue.settle(builders.complete(await queue.lease()))

    assert [entry.kind for entry in (await trail(queue)).entries] == await queue.story()


@pytest.mark.promise("E-37", "P-63")
async def test_expiry_and_replacement_are_in_the_trail(queue: QueueUnderTest) -> None:
    unique = Unique(key="k", mode=UniqueMode.REPLACE)
    await queue.enqueue("j", trail=9, ttl_ms=SECOND_MS, unique=unique)
    await queue.enqueue("other", unique=unique)
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)

    kinds = [entry.kind for entry in (await trail(queue)).entries]
    assert kinds == [EventKind.ENQUEUED, EventKind.REPLACED, EventKind.EXPIRED]


@pytest.mark.promise("E-37")
async def test_a_job_that_asks_for_no_trail_has_none(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.note(builders.progress(lease))
    await queue.settle(builders.complete(lease))

    page = await trail(queue)
    assert (page.entries, page.truncated) == ((), False)
    assert (await trail(queue, cursor=page.cursor)).entries == ()
    assert await queue.backend.trail(queue.name, "nobody", None, None, ALL) is None
    assert await queue.backend.trail("nowhere", "j", None, None, ALL) is None


@pytest.mark.promise("E-37")
async def test_a_trail_costs_statements_only_where_it_is_asked_for(
    queue: QueueUnderTest, hooks: Hooks
) -> None:
    if hooks.count_statements is None:
        pytest.skip("left out: there is no fixture count_statements")

    async def cost(job_id: str, keep_entries: int) -> int:
        assert hooks.count_statements is not None
        before = hooks.count_statements()
        lease = await queue.start(job_id, trail=keep_entries, keep=AT_ONCE)
        await queue.note(builders.progress(lease))
        await queue.note(builders.log_line(lease))
        await queue.settle(builders.complete(lease))
        return hooks.count_statements() - before

    await cost("first", 0)  # registers the queue
    plain = await cost("plain", 0)
    assert await cost("with", 5) >= plain  # in memory it may cost none
    assert await cost("again", 0) == plain


@pytest.mark.promise("E-38", "P-63")
async def test_a_long_trail_is_read_in_pages_without_a_gap_or_a_repeat(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=200)
    notes = [builders.progress(lease, b"%d" % number, number=number) for number in range(1, 111)]
    for start in range(0, 110, 25):
        await queue.backend.note(queue.name, notes[start : start + 25])
    await queue.settle(builders.complete(lease))

    entries = await every_entry(queue, 2)

    assert [entry.number for entry in entries] == list(range(1, 114))
    assert [entry.value for entry in entries[2:-1]] == [b"%d" % number for number in range(1, 111)]
    assert entries[-1].kind is EventKind.COMPLETED
    assert await every_entry(queue, 100) == entries


@pytest.mark.promise("E-38")
async def test_a_reader_goes_on_where_it_was_while_the_job_runs(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=50)
    page = await trail(queue)

    await queue.note(builders.log_line(lease, b"new"))
    later = await trail(queue, cursor=page.cursor)

    assert told(page.entries) == [("enqueued", "waiting", 0), ("claimed", "active", 1)]
    assert [entry.value for entry in later.entries] == [b"new"]
    assert (await trail(queue, cursor=later.cursor)).entries == ()


@pytest.mark.promise("E-38")
@pytest.mark.parametrize("cap", [1, 3])
async def test_exactly_the_newest_entries_are_kept(queue: QueueUnderTest, cap: int) -> None:
    lease = await queue.start(trail=cap)
    early = await trail(queue, limit=1)
    for number in range(1, 8):
        await queue.note(builders.log_line(lease, b"%d" % number))

    page = await trail(queue)

    assert [entry.number for entry in page.entries] == list(range(10 - cap, 10))
    assert [entry.value for entry in page.entries] == [b"%d" % number for number in range(8 - cap, 8)]
    assert page.truncated
    assert (await trail(queue, cursor=early.cursor)).truncated
    assert not (await trail(queue, cursor=page.cursor)).truncated


@pytest.mark.promise("E-38")
async def test_a_cursor_right_before_the_oldest_entry_has_missed_nothing(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=3)
    first = await trail(queue, limit=1)
    await queue.backend.note(queue.name, [builders.log_line(lease, b"a"), builders.log_line(lease, b"b")])

    at_the_boundary = await trail(queue, cursor=first.cursor)
    await queue.note(builders.log_line(lease, b"c"))
    behind = await trail(queue, cursor=first.cursor)

    assert ([entry.number for entry in at_the_boundary.entries], at_the_boundary.truncated) == (
        [2, 3, 4],
        False,
    )
    assert ([entry.number for entry in behind.entries], behind.truncated) == ([3, 4, 5], True)


@pytest.mark.promise("E-38")
async def test_a_cursor_of_another_trail_is_refused(queue: QueueUnderTest) -> None:
    await queue.finish("j", trail=9)
    await queue.enqueue("k", trail=9)
    await queue.backend.enqueue("other", [builders.new_job("j", trail=9)])
    here, there = (await trail(queue)).cursor, (await trail(queue, "k")).cursor
    elsewhere = await queue.backend.trail("other", "j", None, None, ALL)
    assert elsewhere is not None
    number, _, mark = here.partition(".")
    events = await queue.backend.events(queue.name, None, ALL)
    far = f"{int(number) + 1}.{mark}"

    for cursor in (there, elsewhere.cursor, far, f"-1.{mark}", number, "", "x", events.cursor):
        with pytest.raises(InvalidCursor, match="cursor"):
            await trail(queue, cursor=cursor)
    await queue.enqueue("j", reuse=frozenset({State.COMPLETED}), trail=9)
    with pytest.raises(InvalidCursor, match="generation 2"):
        await trail(queue, cursor=here)


@pytest.mark.promise("E-38")
async def test_a_page_of_a_trail_is_bounded(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=10)
    half = b"x" * (512 * 1024)
    for _ in range(3):
        await queue.note(builders.log_line(lease, half))

    page = await trail(queue)
    rest = await trail(queue, cursor=page.cursor)

    assert [len(one.entries) for one in (page, rest)] == [4, 1]
    assert (await trail(queue, limit=0)).entries == (await trail(queue, limit=-1)).entries == ()


@pytest.mark.promise("E-38")
@pytest.mark.parametrize("bad", [-1, TRAIL_LIMIT + 1, True, "9"])
async def test_a_trail_without_bound_is_refused(queue: QueueUnderTest, bad: object) -> None:
    with pytest.raises(InvalidSetting, match="trail"):
        await queue.enqueue("j", trail=bad)

    assert await queue.backend.queues() == ()


@pytest.mark.promise("E-40", "E-37")
@pytest.mark.parametrize("way", ["prune", "remove", "purge", "obliterate", "drain", "reuse", "keep 0"])
async def test_a_trail_goes_with_its_record(queue: QueueUnderTest, way: str) -> None:
    keep = AT_ONCE if way == "keep 0" else BRIEFLY
    if way == "drain":
        await queue.enqueue("j", trail=9)
        await queue.backend.drain(queue.name, ALL)
    else:
        lease = await queue.start(trail=9, keep=keep)
        await queue.note(builders.progress(lease))
        await queue.settle(builders.complete(lease))
        queue.clock.advance(HOUR_MS)
    match way:
        case "prune":
            await queue.backend.prune(queue.name, ALL)
        case "remove":
            await queue.remove()
        case "purge":
            await queue.backend.purge(queue.name, frozenset({State.COMPLETED}), 0, ALL)
        case "obliterate":
            await queue.backend.obliterate(queue.name, force=False)
        case "reuse":
            await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))

    assert await queue.backend.trail(queue.name, "j", 1, None, ALL) is None
    if way != "reuse":
        await queue.enqueue("j", trail=9)  # what was there must not come back
    assert told((await trail(queue)).entries) == ([] if way == "reuse" else [("enqueued", "waiting", 0)])


@pytest.mark.promise("E-40", "P-11")
async def test_late_progress_never_brings_a_trail_back(queue: QueueUnderTest) -> None:
    lease = await queue.start(trail=9)
    await queue.remove(force=True)

    answers = [await queue.note(builders.progress(lease)), await queue.note(builders.log_line(lease))]
    assert answers == [Noted.LOST, Noted.LOST]
    assert await queue.backend.trail(queue.name, "j", None, None, ALL) is None
    await queue.start(trail=9)
    assert await queue.note(builders.progress(lease)) is Noted.LOST
    assert [entry.value for entry in (await trail(queue)).entries] == [None, None]


@pytest.mark.promise("P-11", "E-39")
async def test_a_stale_attempt_adds_nothing_to_the_trail(queue: QueueUnderTest) -> None:
    stale = await queue.start(trail=9)
    queue.clock.advance(LEASE_MS + 1)
    await queue.sweep()
    await queue.lease()

    for note in (builders.progress(stale), builders.log_line(stale)):
        assert await queue.note(note) is Noted.LOST

    kinds = [entry.kind.value for entry in (await trail(queue)).entries]
    assert kinds == ["enqueued", "claimed", "stalled", "claimed"]
