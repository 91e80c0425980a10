"""One request inside a transaction, and the books of the queues that it touches.

Counts, order, numbers of events and follow-ups live in one row per queue. A step reads that row once,
moves the numbers in memory, and writes it back once, with one row for all its events; so they become
true together with the change itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from leasemq.backends.sqlite.statements import statement
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import FollowUp, NoteKind, Ref, State

_QUEUE_READ = statement("queue_read")
_QUEUE_ADD = statement("queue_add")
_QUEUE_WRITE = statement("queue_write")
_EVENT_ADD = statement("event_add")
_EVENT_TRIM = statement("event_trim")
_OUTBOX_ADD = statement("outbox_add")
_TRAIL_ADD = statement("trail_add")
_TRAIL_TRIM = statement("trail_trim")

STATES = (
    State.SCHEDULED,
    State.WAITING,
    State.ACTIVE,
    State.BLOCKED,
    State.COMPLETED,
    State.FAILED,
    State.CANCELLED,
    State.EXPIRED,
)  # in the order of the columns
EVENTS_PER_ROW = 1_000
PackedEvent = tuple[str, int, str, str | None, int]  # id, generation, kind, state, attempt
Life = tuple[str, int]  # id, generation
_pack = msgspec.msgpack.Encoder().encode


def number_or_zero(value: int) -> int:
    """Answer the number, or 0 for what a damaged row has in its place."""
    return value if type(value) is int else 0


class Traced(NamedTuple):
    """One entry on its way into a job's trail."""

    job: int
    keep: int
    attempt: int
    kind: EventKind | NoteKind
    state: State
    value: bytes | None


@dataclass(slots=True)
class Book:
    """What one queue's row says, and what the step adds to it. Owner: the step."""

    name: str
    key: int
    paused: bool
    suspect_incarnation: str
    suspect_until_ms: int
    place: int  # the last place given in the queue's order
    newest_key: int  # the last key given to one of its jobs
    event_number: int
    event_floor: int  # the newest event that was trimmed
    follow_up: int
    accepted: int
    removed: int
    refused: int
    stalls: int
    releases: int
    counts: dict[str, int]
    events: list[PackedEvent] = field(default_factory=list)
    outbox: list[FollowUp] = field(default_factory=list)
    trail: list[Traced] = field(default_factory=list)
    changed: bool = False
    woken: bool = False
    cancels: set[Ref] = field(default_factory=set)
    ended: list[Life] = field(default_factory=list)

    def next_place(self) -> int:
        """Answer the next place in the order."""
        self.changed = True
        self.place += 1
        return self.place

    def take_places(self, count: int) -> None:
        """Count the next so many places as given away."""
        self.changed = True
        self.place += count

    def next_follow_up(self) -> int:
        """Answer a fresh id for an outbox entry."""
        self.changed = True
        self.follow_up += 1
        return self.follow_up

    def move(self, before: str | None, after: State | None, number: int = 1) -> None:
        """Count jobs out of a state and into another. None: not stored; an unknown one counts nowhere."""
        self.changed = True
        if before is None:
            self.accepted += number
        elif before in self.counts:
            self.counts[before] -= number
        if after is None:
            self.removed += number
        else:
            self.counts[after] += number
        if after is State.WAITING or after is State.SCHEDULED:
            self.woken = True

    def tell(self, ref: Ref, kind: EventKind, state: State | None, attempt: int) -> None:
        """Add one event, readable even if the job's row is not."""
        self.changed = True
        id_ = ref.id if type(ref.id) is str else repr(ref.id)
        self.events.append((id_, number_or_zero(ref.generation), kind, state, number_or_zero(attempt)))

    def trace(
        self,
        job: int,
        keep: int,
        attempt: int,
        kind: EventKind | NoteKind,
        state: State,
        value: bytes | None = None,
    ) -> None:
        """Add an entry to the trail of a job that keeps one."""
        self.changed = True
        self.trail.append(Traced(job, keep, number_or_zero(attempt), kind, state, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What listeners hear of one queue when the step is committed."""

    queue: str
    woken: bool
    cancels: frozenset[Ref]
    ended: Sequence[Life]  # told to those who have an interest in them
    event_number: int  # of this step's last event; 0: it had none, or they are another process's
    changed: bool  # events were added; told to those who follow the queue


class Step:
    """One request inside a transaction. Owner: the lane, until the request is done."""

    __slots__ = ("_books", "connection", "event_limit", "namespace", "now_ms")

    def __init__(
        self, connection: sqlite3.Connection, *, namespace: str, now_ms: int, event_limit: int
    ) -> None:
        self.connection = connection
        self.namespace = namespace
        self.now_ms = now_ms
        self.event_limit = event_limit
        self._books: dict[str, Book] = {}

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues whose books were read so far."""
        return tuple(self._books)

    def book(self, queue: str) -> Book | None:
        """Answer the queue's books; None: it never had a job."""
        known = self._books.get(queue)
        if known is not None:
            return known
        row = _QUEUE_READ.row(self.connection, self.namespace, queue)
        if row is None:
            return None
        if type(row[1]) is not int or any(type(number) is not int for number in row[3:]):
            raise CorruptRecord(f"the books of queue {queue!r} cannot be read: {row[1:]!r}")
        book = Book(
            name=queue,
            key=row[0],
            paused=row[1] != 0,
            suspect_incarnation=row[2],
            suspect_until_ms=row[3],
            place=row[4],
            newest_key=row[5],
            event_number=row[6],
            event_floor=row[7],
            follow_up=row[8],
            accepted=row[9],
            removed=row[10],
            refused=row[11],
            stalls=row[12],
            releases=row[13],
            counts=dict(zip(STATES, row[14:], strict=True)),
        )
        self._books[queue] = book
        return book

    def open_book(self, queue: str) -> Book:
        """Answer the queue's books, registering it first if it is new."""
        book = self.book(queue)
        if book is None:
            _QUEUE_ADD.run(self.connection, self.namespace, queue)
            book = self.book(queue)
            assert book is not None
        return book

    def finish(self) -> list[Heard]:
        """Write the books, events and follow-ups, and answer what listeners are to hear after the commit."""
        touched = [book for book in self._books.values() if book.changed or book.cancels]
        return [self._write(book) for book in touched]

    def _write_gathered(self, book: Book) -> None:
        if book.outbox:
            _OUTBOX_ADD.many(self.connection, [_outbox_row(book.key, entry) for entry in book.outbox])
            book.outbox = []
        if book.trail:
            self._write_trail(book)
        for start in range(0, len(book.events), EVENTS_PER_ROW):
            entries = book.events[start : start + EVENTS_PER_ROW]
            first = book.event_number + 1
            book.event_number += len(entries)
            _EVENT_ADD.run(self.connection, book.key, book.event_number, first, self.now_ms, _pack(entries))
        book.events = []

    def _write_trail(self, book: Book) -> None:
        rows = [(one.job, self.now_ms, *one[2:]) for one in book.trail]
        _TRAIL_ADD.many(self.connection, rows)
        _TRAIL_TRIM.many(self.connection, {one[:2] for one in book.trail})
        book.trail = []

    def _write(self, book: Book) -> Heard:
        before = book.event_number
        self._write_gathered(book)
        if book.event_number > max(before, self.event_limit):
            _EVENT_TRIM.run(self.connection, book.key, book.event_number - self.event_limit)
        if book.changed:
            self._write_row(book)
        return Heard(
            queue=book.name,
            woken=book.woken,
            cancels=frozenset(book.cancels),
            ended=book.ended,
            event_number=book.event_number if book.event_number > before else 0,
            changed=book.event_number > before,
        )

    def _write_row(self, book: Book) -> None:
        _QUEUE_WRITE.run(
            self.connection,
            *(book.key, book.paused, book.suspect_incarnation, book.suspect_until_ms, book.place),
            *(book.newest_key, book.event_number, book.event_floor, book.follow_up),
            *(book.accepted, book.removed, book.refused, book.stalls, book.releases),
            *(book.counts[state] for state in STATES),
        )


def _outbox_row(queue: int, entry: FollowUp) -> tuple[object, ...]:
    parent = entry.parent
    return (
        *(queue, entry.id, entry.kind, entry.child.queue, entry.child.id, entry.child.generation),
        *((None, None, None) if parent is None else (parent.queue, parent.id, parent.generation)),
        *(entry.on_failure, entry.outcome, None if entry.job is None else _pack(entry.job)),
    )
