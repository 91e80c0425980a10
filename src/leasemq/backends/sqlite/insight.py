"""What can be read. None of it changes anything. See `leasemq.backend.Insight`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec

from leasemq.backends.sqlite.records import records
from leasemq.backends.sqlite.rows import json_array
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import PackedEvent, Step
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_cursor, events_after
from leasemq.protocol.insight import (
    Counts,
    Event,
    EventKind,
    EventPage,
    Filter,
    JobRecord,
    Page,
    Slip,
    fitting,
)
from leasemq.protocol.model import Ref, State

_GET = statement("get")
_FIND = statement("find")
_FIND_OLDEST = statement("find_oldest")
_FIND_FEW = statement("find_few")
_QUEUE_LIST = statement("queue_list")
_LONGEST_WAITING = statement("longest_waiting")
_EVENTS = statement("events")
_SLIP_READ = statement("slip_read")

_PAGE_LIMIT = 1_000
_PART = 50
_LAST_KEY = 2**63 - 1
_FEW = 10_000  # jobs that are better sorted than searched for among all
_LANES = (State.WAITING, State.SCHEDULED, State.BLOCKED, State.ACTIVE)  # as find_few.sql asks for them
_unpack_events = msgspec.msgpack.Decoder(list[PackedEvent]).decode


def get(step: Step, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
    """See `Insight.get`. Raises: CorruptRecord."""
    book = step.book(queue)
    if book is None:
        return (None,) * len(ids)
    keys: dict[str, int] = {row[0]: row[1] for row in _GET.rows(step.connection, book.key, json_array(ids))}
    found = records(step, queue, list(keys.values()))
    answers: list[JobRecord | None] = []
    for job_id in ids:
        record = found[keys[job_id]] if job_id in keys else None
        if isinstance(record, CorruptRecord):
            raise record
        answers.append(record)
    return tuple(answers)


def slips(step: Step, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
    """See `Insight.slips`. Raises: CorruptRecord."""
    book = step.book(queue)
    found: dict[int, Slip] = {}
    if book is not None:
        for place, *row in _SLIP_READ.rows(step.connection, book.key, json_array(lives), step.now_ms):
            if tuple(map(type, row)) != (str, int, str, bytes, int):
                raise CorruptRecord(f"the result kept of job {row[0]!r} in queue {queue!r} cannot be read")
            ref = Ref(queue=queue, id=row[0], generation=row[1])
            found[place] = Slip(ref=ref, task=row[2], result=row[3], until_ms=row[4])
    return tuple(found.get(place) for place in range(len(lives)))


def find(step: Step, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
    """See `Insight.find`. Records that cannot be read are left out: `get` says what is wrong with them."""
    past = None if cursor is None else check_cursor(cursor)
    book = step.book(queue)
    if book is None:
        return Page(jobs=(), cursor=None)
    if past is None:
        past = 0 if where.oldest_first else _LAST_KEY
    limit = max(0, min(limit, _PAGE_LIMIT))
    asked = (
        book.key,
        past,
        json_array(sorted(where.states)) if where.states else None,
        where.task,
        where.id_prefix,
        where.reason,
        None if where.newer_than_ms is None else step.now_ms - where.newer_than_ms,
        None if where.older_than_ms is None else step.now_ms - where.older_than_ms,
        limit + 1,
    )
    if where.states and sum(book.counts[state] for state in where.states) < _FEW:
        way = 1 if where.oldest_first else -1
        lanes = (state in where.states for state in _LANES)
        rows = _FIND_FEW.rows(step.connection, *asked, way, *lanes)
    else:
        rows = (_FIND_OLDEST if where.oldest_first else _FIND).rows(step.connection, *asked)
    keys = [row[0] for row in rows[:limit]]
    found = list(fitting(_in_parts(step, queue, keys)))
    jobs = tuple(record for record in found if isinstance(record, JobRecord))
    has_more = len(found) < len(rows)
    return Page(jobs=jobs, cursor=str(keys[len(found) - 1]) if found and has_more else None)


def _in_parts(step: Step, queue: str, keys: Sequence[int]) -> Iterator[JobRecord | CorruptRecord]:
    """Read records in small parts, so that no more are in memory than fit on a page, and a few."""
    for start in range(0, len(keys), _PART):
        part = keys[start : start + _PART]
        found = records(step, queue, part)
        yield from (found[key] for key in part)


def counts(step: Step, queue: str) -> Counts:
    """See `Insight.counts`."""
    book = step.book(queue)
    if book is None:
        return Counts(queue=queue)
    longest = _LONGEST_WAITING.row(step.connection, book.key) if book.counts[State.WAITING] else None
    return Counts(
        queue=queue,
        accepted=book.accepted,
        removed=book.removed,
        refused=book.refused,
        stalls=book.stalls,
        releases=book.releases,
        paused=book.paused,
        oldest_waiting_ms=None if longest is None else step.now_ms - longest[0],
        **{State(state).value: number for state, number in book.counts.items()},
    )


def queues(step: Step) -> Sequence[str]:
    """See `Insight.queues`."""
    return tuple(row[0] for row in _QUEUE_LIST.rows(step.connection, step.namespace))


def events(step: Step, queue: str, cursor: str | None, limit: int) -> EventPage:
    """See `Insight.events`. A cursor is the number of the last event that was seen."""
    book = step.book(queue)
    newest = 0 if book is None else book.event_number
    if cursor is None:
        return EventPage(events=(), cursor=str(newest))
    trimmed = 0 if book is None else max(book.event_floor, newest - step.event_limit)
    after = trimmed if cursor == "" else events_after(queue, cursor, trimmed, newest)
    page: list[Event] = []
    if book is not None and limit > 0:
        # A row has one event or many: so many rows are enough, and mostly far too many.
        with closing(_EVENTS.each(step.connection, book.key, after, limit)) as rows:
            for first, at_ms, entries in rows:
                page.extend(_unpacked(queue, first, at_ms, entries, after))
                if len(page) >= limit:
                    break
    page = page[:limit]
    return EventPage(events=tuple(page), cursor=page[-1].cursor if page else str(after))


def unpacked(queue: str, entries: bytes) -> list[PackedEvent]:
    """Answer the events of one row. Raises: CorruptRecord."""
    try:
        return _unpack_events(entries)
    except (msgspec.MsgspecError, TypeError) as error:
        raise CorruptRecord(f"events of queue {queue!r} cannot be read: {error}") from error


def _unpacked(queue: str, first: int, at_ms: int, entries: bytes, after: int) -> list[Event]:
    return [
        Event(
            cursor=str(number),
            at_ms=at_ms,
            ref=Ref(queue=queue, id=id_, generation=generation),
            kind=EventKind(kind),
            state=None if state is None else State(state),
            attempt=attempt,
        )
        for number, (id_, generation, kind, state, attempt) in enumerate(
            unpacked(queue, entries), start=first
        )
        if number > after
    ]
