"""Events as a program reads them: all that happens in some queues, as it happens or page by page.

`leasemq.events` is something else: what a worker says about itself in its own process.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from leasemq.client.connection import Connection
from leasemq.client.feed import PAGE_LIMIT, Feed, Follower
from leasemq.errors import CorruptRecord, CursorExpired, InvalidSetting
from leasemq.notes import Progress, decode_progress
from leasemq.protocol.feed_cursor import Bookmark, positions_in
from leasemq.protocol.insight import BEGINNING, EARLIEST, Event, EventKind, JobRecord
from leasemq.protocol.model import Ref, State

__all__ = ["EARLIEST", "FeedPage", "JobEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One thing that happened to one job."""

    kind: EventKind
    at: datetime  # aware, by the backend's clock
    queue: str
    id: str
    generation: int
    state: State | None  # the state it left the job in; None: the record is gone
    attempt: int  # claims so far, since the last replay
    cursor: str  # plain text, to go on after this event
    progress: Progress | None = None  # the newest known of its attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Events after a cursor, by time, each queue's in their order; and the cursor to go on from."""

    events: tuple[JobEvent, ...]
    cursor: str


async def begun(connection: Connection, cursor: str | None, queues: Sequence[str]) -> Bookmark:
    """Answer where a reader begins: after a cursor, or now if it is None. Raises: InvalidCursor."""
    store_id = connection.capabilities.store_id
    known = positions_in(cursor, store_id) if cursor else {}
    names = queues or sorted({*known, *await connection.backend.queues()})
    if cursor is not None:
        unknown = BEGINNING if cursor else EARLIEST
        return Bookmark(store_id, {name: known.get(name, unknown) for name in names})
    newest = [(await connection.backend.events(name, None, 0)).cursor for name in names]
    return Bookmark(store_id, dict(zip(names, newest, strict=True)))


async def followed(
    connection: Connection, cursor: str | None, queues: Sequence[str]
) -> AsyncGenerator[JobEvent, None]:
    """Answer events as they come, for ever. See `App.events`."""
    feed, follower = connection.feed, Follower()
    place = await begun(connection, cursor, queues)
    feed.join(follower, place.positions)
    for queue, position in place.positions.items():
        follower.mark(queue, position)
    if not queues:
        feed.join_all(follower)
    try:
        async for event in _live(connection, place, follower):
            yield event
    finally:
        feed.leave(follower)


async def _live(
    connection: Connection, place: Bookmark, follower: Follower
) -> AsyncGenerator[JobEvent, None]:
    while True:
        for queue in sorted(await follower.marks()):
            before = place.at(queue)
            for event in await _next(connection, place, queue):
                yield event
            if place.at(queue) != before:  # there may be more; the other queues have their turn first
                follower.mark(queue, place.at(queue))


async def _next(connection: Connection, place: Bookmark, queue: str) -> Sequence[JobEvent]:
    """Answer the next events of a queue, and stand after them."""
    try:
        page = await connection.feed.after(queue, place.at(queue))
    except CursorExpired as expired:
        raise await _with_earliest(connection, place, expired) from expired
    answers = await _told_all(connection, place, page.events)
    place.move(queue, page.cursor)
    return answers


async def paged(connection: Connection, cursor: str | None, queues: Sequence[str], limit: int) -> FeedPage:
    """Answer up to `limit` events that are there by now. See `App.events_page`."""
    if type(limit) is not int or not 1 <= limit <= PAGE_LIMIT:
        raise InvalidSetting(f"limit={limit!r} is not a whole number from 1 to {PAGE_LIMIT}")
    place = await begun(connection, cursor, queues)
    events: list[Event] = []  # no more of them at any time than two pages have
    for queue, position in place.positions.items():
        try:
            page = await connection.backend.events(queue, position, limit)
        except CursorExpired as expired:
            raise await _with_earliest(connection, place, expired) from expired
        events = list(islice(heapq.merge(events, page.events, key=lambda event: event.at_ms), limit))
    return FeedPage(events=tuple(await _told_all(connection, place, events)), cursor=place.text)


async def _told_all(connection: Connection, place: Bookmark, events: Sequence[Event]) -> list[JobEvent]:
    values = await progress_of(connection.feed, events)
    answers: list[JobEvent] = []
    for event in events:
        place.move(event.ref.queue, event.cursor)
        answers.append(told(event, place, values))
    return answers


def told(event: Event, place: Bookmark, values: Mapping[Ref, Progress]) -> JobEvent:
    """Answer an event as programs read it, for a reader who then stands at `place`."""
    newest = values.get(event.ref) if event.kind is EventKind.PROGRESS else None
    is_of_it = newest is not None and newest.attempt in (0, event.attempt)
    return JobEvent(
        kind=event.kind,
        at=instant(event.at_ms),
        queue=event.ref.queue,
        id=event.ref.id,
        generation=event.ref.generation,
        state=event.state,
        attempt=event.attempt,
        cursor=place.text,
        progress=newest if is_of_it else None,
    )


def instant(at_ms: int) -> datetime:
    """Answer an instant of the backend's clock."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


async def progress_of(feed: Feed, events: Sequence[Event]) -> Mapping[Ref, Progress]:
    """Answer the newest progress of the jobs that tell of some in these events; reads nothing else.

    A record that cannot be read has none here, so that it does not end the feed; `job.record` says why.
    """
    asked: dict[str, dict[str, None]] = {}
    for event in events:
        if event.kind is EventKind.PROGRESS:
            asked.setdefault(event.ref.queue, {})[event.ref.id] = None
    values: dict[Ref, Progress] = {}
    for queue, ids in asked.items():
        left = list(ids)
        while left:
            some, left = left[: feed.at_once], left[feed.at_once :]
            values |= await _progress_in(feed, queue, some)
    return values


async def _progress_in(feed: Feed, queue: str, ids: Sequence[str]) -> Mapping[Ref, Progress]:
    values: dict[Ref, Progress] = {}
    for record in await _readable(feed, queue, ids):
        with suppress(CorruptRecord):
            if record.progress is not None:
                values[record.ref] = decode_progress(record.progress, job=record.ref.id)
    return values


async def _readable(feed: Feed, queue: str, ids: Sequence[str]) -> list[JobRecord]:
    try:
        found = await feed.records(queue, ids)
    except CorruptRecord:
        if len(ids) == 1:
            return []
        middle = len(ids) // 2
        return [*await _readable(feed, queue, ids[:middle]), *await _readable(feed, queue, ids[middle:])]
    return [record for record in found if record is not None]


async def _with_earliest(connection: Connection, place: Bookmark, expired: CursorExpired) -> CursorExpired:
    """Answer the refusal with the earliest cursor for the whole feed."""
    for queue, position in list(place.positions.items()):
        try:
            await connection.backend.events(queue, position, 0)
        except CursorExpired as trimmed:
            place.move(queue, trimmed.earliest)
    return CursorExpired(str(expired), earliest=place.text)
