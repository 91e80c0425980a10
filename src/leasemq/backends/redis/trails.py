"""What happened: the events of a queue, and a job's own trail, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.control import life
from leasemq.backends.redis.layout import EVENTS, STATES, long, short, u48
from leasemq.backends.redis.leasing import unreadable
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_cursor, events_after
from leasemq.protocol.insight import EARLIEST, Event, EventKind, EventPage, TrailEntry, TrailPage
from leasemq.protocol.model import NoteKind, Ref
from leasemq.protocol.names import shown
from leasemq.protocol.trail import TRAIL_PAGE, trail_after, trail_page

_FROM_EARLIEST, _NEWEST_ONLY = -1, -2
_EVENTS_PART = 10_000
_EVENT_BYTES = 12
_ENTRY_BYTES = 19


async def events(calls: Calls, queue: str, cursor: str | None, limit: int) -> EventPage:
    """See `Insight.events`. A cursor is the number of the last event that was seen."""
    if cursor is None:
        _, newest, _ = await calls.ask("events", queue, _NEWEST_ONLY, 0)
        return EventPage(events=(), cursor=newest.decode())
    after = _FROM_EARLIEST if cursor == EARLIEST else check_cursor(cursor)
    page: list[Event] = []
    while True:
        asked = max(0, min(limit - len(page), _EVENTS_PART))
        trimmed, newest, entries = await calls.ask("events", queue, min(after, 2**53), asked)
        if after == _FROM_EARLIEST:
            after = int(trimmed)
        events_after(queue, str(after), int(trimmed), int(newest))
        found = [event for entry in entries for event in _unpacked(queue, entry, after)][:asked]
        page += found
        if found:
            after = int(found[-1].cursor)
        if not found or len(page) >= limit:
            return EventPage(events=tuple(page), cursor=str(after))


def _unpacked(queue: str, entry: Sequence[Any], after: int) -> Iterator[Event]:
    """Answer the events of one entry after a number. Raises: CorruptRecord."""
    last, at_ms, many, packed = entry
    at, number = 0, int(last) - many
    try:
        while at < len(packed):
            size = int.from_bytes(packed[at + 10 : at + 12])
            number += 1
            if number > after:
                yield _event(queue, number, int(at_ms), packed[at : at + _EVENT_BYTES + size])
            at += _EVENT_BYTES + size
    except (ValueError, LookupError) as error:
        raise CorruptRecord(f"events of queue {shown(queue)} cannot be read: {error}") from error


def _event(queue: str, number: int, at_ms: int, raw: bytes) -> Event:
    generation = int.from_bytes(raw[6:10])
    return Event(
        cursor=str(number),
        at_ms=at_ms,
        ref=Ref(queue=queue, id=long(raw[_EVENT_BYTES:]), generation=generation),
        kind=EventKind(EVENTS[raw[0] - 1]),
        state=STATES[raw[1] - 1] if raw[1] else None,
        attempt=int.from_bytes(raw[2:6]),
    )


async def trail(
    calls: Calls, queue: str, job_id: str, generation: int | None, cursor: str | None, limit: int
) -> TrailPage | None:
    """See `Insight.trail`. Raises: CorruptRecord."""
    asked = (_number_in(cursor), max(0, min(limit, TRAIL_PAGE)))
    answer: Any = await calls.ask("trail", queue, short(job_id), life(generation), *asked)
    if answer is None:
        return None
    if answer == -1:
        raise unreadable(queue, job_id, "its history was asked for")
    found, oldest, newest, entries = answer
    ref = Ref(queue=queue, id=job_id, generation=found)
    after = trail_after(cursor, ref, newest)
    return trail_page(ref, oldest, after, (_entry(ref, raw) for raw in entries))


def _number_in(cursor: str | None) -> int:
    """The number that a cursor begins with; whether it is one of ours is asked when its life is known."""
    number = cursor.partition(".")[0] if isinstance(cursor, str) else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0


def _entry(ref: Ref, raw: bytes) -> TrailEntry:
    try:
        kind = EVENTS[raw[16] - 1]
        return TrailEntry(
            number=u48(raw, 0),
            at_ms=u48(raw, 6),
            attempt=int.from_bytes(raw[12:16]),
            kind=kind if kind is NoteKind.LOG else EventKind(kind),
            state=STATES[raw[17] - 1],
            value=raw[_ENTRY_BYTES:] if raw[18] else None,
        )
    except (ValueError, LookupError) as error:
        raise unreadable(ref.queue, ref.id, f"an entry of its history is {raw[:60]!r}") from error
