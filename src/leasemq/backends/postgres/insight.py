"""What can be read of queues and jobs. None of it changes anything. See `leasemq.backend.Insight`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from leasemq.backends.postgres.codes import KINDS, STATE_CODES, STATES
from leasemq.backends.postgres.records import record_of
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_cursor, events_after
from leasemq.protocol.insight import (
    EARLIEST,
    PAGE_BYTES,
    Event,
    EventPage,
    Filter,
    JobRecord,
    Page,
    Slip,
    TrailEntry,
    TrailPage,
    fitting,
)
from leasemq.protocol.model import NoteKind, Ref
from leasemq.protocol.standing import AHEAD_LIMIT, ALONE_LIMIT, Standing
from leasemq.protocol.trail import TRAIL_PAGE, trail_after, trail_page

_PAGE_LIMIT = 1_000
_FIND_COLUMNS = 4  # of find.sql, beyond those of records.sql
_STANDING_COLUMNS = 11
_BORN = re.compile(
    r"e([0-9]{1,18})\.([0-9]{1,9})", re.ASCII
)  # JobRecord.born: an event row, and a place in it
_AFTER, _EARLIEST, _NEWEST = 0, 1, 2  # ways of events.sql
_LOG = 19  # what stands for a log line where else a kind of event is


async def slips(store: Store, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
    """See `Insight.slips`."""
    if not lives:
        return ()
    ids, generations = zip(*lives, strict=True)
    found = {
        place: Slip(
            ref=Ref(queue=queue, id=id_, generation=generation), task=task, result=result, until_ms=until_ms
        )
        for place, id_, generation, task, result, until_ms in await store.call(
            "slips", store.now_ms, queue, ids, generations
        )
    }
    return tuple(found.get(place) for place in range(1, len(lives) + 1))


async def find(store: Store, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
    """See `Insight.find`. Records that cannot be read are left out: `get` says what is wrong with them."""
    past = None if cursor is None else check_cursor(cursor)
    limit = max(0, min(limit, _PAGE_LIMIT))
    while True:
        rows = await store.call(
            "find",
            *(store.now_ms, queue, past, where.oldest_first),
            sorted(STATE_CODES[state] for state in where.states) if where.states else None,
            *(where.task, where.id_prefix, where.reason, where.newer_than_ms, where.older_than_ms),
            *(limit, PAGE_BYTES),
        )
        matching, walked, is_end = rows[0][-_FIND_COLUMNS:-1]
        keyed = [row[:-_FIND_COLUMNS] for row in rows if row[0] is not None]
        keyed.sort(key=lambda row: row[0], reverse=not where.oldest_first)
        found = list(fitting(record_of(queue, row) for row in keyed))
        if found or is_end or matching:
            break
        past = walked  # nothing yet: go on, a bounded way at a time
    jobs = tuple(record for record in found if isinstance(record, JobRecord))
    if len(found) < matching:
        return Page(jobs=jobs, cursor=str(keyed[len(found) - 1][0]) if found else None)
    return Page(jobs=jobs, cursor=None if is_end else str(walked))


async def standing(store: Store, queue: str, job_id: str) -> Standing | None:
    """See `Insight.standing`. Raises: CorruptRecord."""
    rows = await store.call("standing", store.now_ms, queue, job_id, AHEAD_LIMIT, ALONE_LIMIT)
    if not rows:
        return None
    record = record_of(queue, rows[0][:-_STANDING_COLUMNS])
    if isinstance(record, CorruptRecord):
        raise record
    now_ms, merged_id, merged_life, paused, ahead, *suspects, holder_id, holder_life = rows[0][
        -_STANDING_COLUMNS:
    ]
    suspect_waits, reserved_for, reserved_until_ms, alone = suspects
    return Standing(
        now_ms=now_ms,
        record=record,
        merged_into=_ref(queue, merged_id, merged_life),
        paused=paused,
        ahead=ahead,
        suspect_waits=suspect_waits,
        reserved_for=reserved_for,
        reserved_until_ms=reserved_until_ms,
        alone=tuple(alone),
        key_holder=_ref(queue, holder_id, holder_life),
    )


def _ref(queue: str, id_: str | None, generation: int) -> Ref | None:
    return None if id_ is None else Ref(queue=queue, id=id_, generation=generation)


async def queues(store: Store) -> Sequence[str]:
    """See `Insight.queues`."""
    return tuple(name for (name,) in await store.call("queues"))


async def events(store: Store, queue: str, cursor: str | None, limit: int) -> EventPage:
    """See `Insight.events`. A cursor is the number of an event, or the place of one without a number."""
    limit = max(0, min(limit, 2**31 - 1))
    head, *rows = await store.call("events", queue, *_position(cursor), limit, store.settings.event_limit)
    trimmed, newest, after = head[6:]
    if cursor is None:
        return EventPage(events=(), cursor=str(newest))
    if cursor != EARLIEST:
        after = events_after(queue, str(_lost(trimmed, newest) if after is None else after), trimmed, newest)
    page = [event for row in rows for event in _unpacked(queue, row, after)][:limit]
    return EventPage(events=tuple(page), cursor=page[-1].cursor if page else str(after))


def _position(cursor: object) -> tuple[int | None, int | None, int | None, int]:
    if cursor is None:
        return (None, None, None, _NEWEST)
    if cursor == EARLIEST:
        return (None, None, None, _EARLIEST)
    born = _BORN.fullmatch(cursor) if isinstance(cursor, str) else None
    if born is not None:
        return (None, int(born[1]), min(int(born[2]), 2**31 - 1), _AFTER)
    return (check_cursor(cursor), None, None, _AFTER)


def _lost(trimmed: int, newest: int) -> int:
    """Answer the number of an event that is kept no more, or that a restored backend no longer has."""
    return trimmed - 1 if trimmed > 0 else newest + 1


def _unpacked(queue: str, row: Row, after: int) -> Iterator[Event]:
    first, at_ms, ids, lives, whats, attempts = row[:6]
    for place, id_ in enumerate(ids):
        if first + place <= after:
            continue
        what = _nth(whats, place)
        if what // 10 not in KINDS or what % 10 not in (0, *STATES):
            raise CorruptRecord(f"event {first + place} of queue {queue!r} is of the unknown kind {what}")
        yield Event(
            cursor=str(first + place),
            at_ms=at_ms,
            ref=Ref(queue=queue, id=id_, generation=_nth(lives, place)),
            kind=KINDS[what // 10],
            state=STATES.get(what % 10),
            attempt=_nth(attempts, place),
        )


def _nth(column: Sequence[int], place: int) -> int:
    """Answer an element of a column whose last stands for all that follow."""
    return column[min(place, len(column) - 1)]


async def trail(
    store: Store, queue: str, job_id: str, generation: int | None, cursor: str | None, limit: int
) -> TrailPage | None:
    """See `Insight.trail`. Raises: CorruptRecord."""
    number = cursor.partition(".")[0] if isinstance(cursor, str) else ""
    seen = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
    asked = max(0, min(limit, TRAIL_PAGE))
    rows = await store.call("trail", queue, job_id, generation, seen, asked, PAGE_BYTES)
    if not rows:
        return None
    head, *entries = rows
    ref = Ref(queue=queue, id=job_id, generation=head[0])
    oldest, newest = head[1], head[2]
    after = trail_after(cursor, ref, newest)
    return trail_page(ref, oldest, after, (_entry(queue, job_id, row) for row in entries))


def _entry(queue: str, job_id: str, row: Row) -> TrailEntry:
    number, at_ms, attempt, kind, state, value = row
    if (kind not in KINDS and kind != _LOG) or state not in STATES:
        raise CorruptRecord(
            f"entry {number} of the history of job {job_id!r} in queue {queue!r} cannot be read"
        )
    return TrailEntry(
        number=number,
        at_ms=at_ms,
        attempt=attempt,
        kind=NoteKind.LOG if kind == _LOG else KINDS[kind],
        state=STATES[state],
        value=value,
    )
