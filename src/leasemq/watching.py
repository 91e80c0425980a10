"""One job's story, from the first event that is kept to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from leasemq.client.connection import Connection
from leasemq.client.feed import RECENT_LIMIT, Follower
from leasemq.clock import boot_ms
from leasemq.errors import CursorExpired, JobNotFound, WaitTimeout
from leasemq.feed import JobEvent, instant, progress_of, told
from leasemq.notes import Progress
from leasemq.protocol.feed_cursor import Bookmark, positions_in
from leasemq.protocol.insight import EARLIEST, Event, EventKind, JobRecord
from leasemq.protocol.model import Ref

_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a watcher waits in all: until then by `boot_ms`, or for ever."""

    until_ms: int | None = None
    only_looks: bool = False  # it takes what is there, and waits for nothing

    @classmethod
    def of(cls, timeout_ms: int | None) -> Patience:
        """Answer how long from now on; 0 only looks."""
        if not timeout_ms:
            return cls(only_looks=timeout_ms == 0)
        return cls(until_ms=boot_ms() + timeout_ms)

    @property
    def left_s(self) -> float | None:
        """Seconds that are left for the next events; an outage holds a mere look no longer than this."""
        if self.only_looks:
            return _LOOK_S
        return None if self.until_ms is None else max(0, self.until_ms - boot_ms()) / 1_000


async def watched(
    connection: Connection, ref: Ref, *, name: str, cursor: str | None, patience: Patience
) -> AsyncGenerator[JobEvent, None]:
    """Answer a job's events until it has ended. See `Job.watch`.

    Args:
        ref: generation 0 is the newest life of the id.
        name: of the job, for messages.
    """
    story = await _begun(connection, ref, name, cursor)
    try:
        while not story.is_over:
            try:
                async with asyncio.timeout(patience.left_s):
                    events = await story.next(only_looks=patience.only_looks)
            except TimeoutError as error:
                raise WaitTimeout(f"{name} has not ended yet; it goes on") from error
            for event in events:
                yield event
    finally:
        story.close()


async def _begun(connection: Connection, ref: Ref, name: str, cursor: str | None) -> Story:
    """Answer the story of a job, not read yet. Raises: JobNotFound, InvalidCursor."""
    store_id = connection.capabilities.store_id
    known = positions_in(cursor, store_id) if cursor else {}
    (record,) = await connection.backend.get(ref.queue, [ref.id])
    if ref.generation == 0:
        if record is None:
            raise not_found(name)
        ref = record.ref
    born = record.born if record is not None and record.ref == ref else EARLIEST
    place = Bookmark(store_id, {ref.queue: known.get(ref.queue, born)})
    return Story(connection, ref, name, place, is_resumed=bool(cursor))


class Story:
    """How far the events of one life of a job were read. Owner: one watcher."""

    def __init__(
        self, connection: Connection, ref: Ref, name: str, place: Bookmark, *, is_resumed: bool
    ) -> None:
        self._connection = connection
        self._ref = ref
        self._name = name
        self._place = place
        self._is_resumed = is_resumed
        self._follower = Follower(ref.id)
        self._told: dict[str, None] = {}  # cursors of events that the feed may yet come to
        self._is_joined = False
        self._is_caught_up = False
        self._is_lenient = not is_resumed  # what is not kept any more is not missed at the beginning
        self._may_be_over = True  # without an event that says so: it is trimmed
        self._has_ended = False
        self.is_over = False

    def close(self) -> None:
        """Follow no more."""
        self._connection.feed.leave(self._follower)

    async def next(self, *, only_looks: bool) -> Sequence[JobEvent]:
        """Answer the next events, once there are some; it may be that none are of this job.

        Raises: JobNotFound, CursorExpired; TimeoutError if it only looks, and the job has not ended.
        """
        feed, queue = self._connection.feed, self._ref.queue
        if not self._is_joined:
            self._is_joined = True
            feed.join(self._follower, [queue], begin=self._place.at(queue))
            await feed.is_read(queue)
            self._follower.forget()
        if not self._is_caught_up:
            return await self._read()
        if self._has_ended:
            self.is_over = True
            return ()
        if not self._follower.is_marked:
            if self._may_be_over:
                return await self._looked()
            if only_looks:
                raise TimeoutError
        marks = await self._follower.marks()
        self._place.move(queue, marks[queue])
        self._is_caught_up = False
        return ()

    async def _read(self) -> Sequence[JobEvent]:
        """Read on, and answer what is of this life of the job and was not told yet."""
        feed, queue = self._connection.feed, self._ref.queue
        try:
            page = await feed.after(queue, self._place.at(queue))
        except CursorExpired as expired:
            self._place.move(queue, expired.earliest)
            if not self._is_lenient:
                raise CursorExpired(str(expired), earliest=self._place.text) from expired
            return ()
        self._is_lenient = False
        self._is_caught_up = not page.events
        fresh = [event for event in page.events if event.ref == self._ref and event.cursor not in self._told]
        values = await progress_of(feed, fresh)
        answers = [self._tell(event, values) for event in fresh if self._is_news(event)]
        self._place.move(queue, page.cursor)
        return answers

    def _is_news(self, event: Event) -> bool:
        """Take an event in, and answer whether it belongs to the story."""
        if event.kind is EventKind.REMOVED:
            was_over, self._has_ended = self._has_ended, True
            return not was_over
        self._has_ended = event.state is not None and event.state.is_terminal  # but a replay undoes it
        return True

    def _tell(self, event: Event, values: Mapping[Ref, Progress]) -> JobEvent:
        self._told[event.cursor] = None
        if len(self._told) > RECENT_LIMIT:
            del self._told[next(iter(self._told))]
        self._place.move(event.ref.queue, event.cursor)
        return told(event, self._place, values)

    async def _looked(self) -> Sequence[JobEvent]:
        """Look whether the job is over although no event that is kept says so; if so, tell its end."""
        feed, ref = self._connection.feed, self._ref
        (record,) = await feed.records(ref.queue, [ref.id])
        is_stored = record is not None and record.ref == ref
        if record is not None and is_stored and not record.state.is_terminal:
            self._may_be_over = False
            return ()
        await feed.is_read(ref.queue)
        if self._follower.is_marked:
            return ()  # it ended just now, and there is an event that says so
        self.is_over = True
        if record is not None and is_stored and record.ended_ms is not None:
            return () if self._is_resumed else [self._end(record, record.ended_ms)]
        if not self._told and not self._is_resumed:
            raise not_found(self._name)
        return ()

    def _end(self, record: JobRecord, ended_ms: int) -> JobEvent:
        """Answer how a job ended whose last event is not kept any more."""
        return JobEvent(
            kind=EventKind(record.state.value),
            at=instant(ended_ms),
            queue=record.ref.queue,
            id=record.ref.id,
            generation=record.ref.generation,
            state=record.state,
            attempt=record.attempts,
            cursor=self._place.text,
        )


def not_found(name: str) -> JobNotFound:
    """Answer the refusal for a job of which nothing is kept."""
    return JobNotFound(f"no {name}: it was never enqueued here, or nothing of it is kept any more")
