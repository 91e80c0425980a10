"""A job's own trail, read a page at a time. See `Insight.trail`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from leasemq.backends.sqlite.rows import JobRow, corrupt, jobs_by_id
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.insight import EventKind, TrailEntry, TrailPage
from leasemq.protocol.model import NoteKind, State
from leasemq.protocol.trail import TRAIL_PAGE, trail_after, trail_page

_TRAIL = statement("trail")
_TRAIL_BOUNDS = statement("trail_bounds")

_PART = 50  # entries that are in memory beyond those that fit on a page


def trail(
    step: Step, queue: str, job_id: str, generation: int | None, cursor: str | None, limit: int
) -> TrailPage | None:
    """See `Insight.trail`. Raises: CorruptRecord."""
    book = step.book(queue)
    row = None if book is None else jobs_by_id(step, book, [job_id]).get(job_id)
    if book is None or row is None or generation not in (None, row.generation):
        return None
    bounds = _TRAIL_BOUNDS.row(step.connection, row.key) if row.trail else None
    oldest, newest = (0, 0) if bounds is None or bounds[0] is None else bounds
    ref = row.ref(book)
    after = trail_after(cursor, ref, newest)
    return trail_page(ref, oldest, after, _entries(step, book, row, after, min(limit, TRAIL_PAGE)))


def _entries(step: Step, book: Book, row: JobRow, after: int, limit: int) -> Iterator[TrailEntry]:
    """Read up to `limit` entries in small parts: their values may be large."""
    left = limit if row.trail else 0
    while left > 0:
        rows = _TRAIL.rows(step.connection, row.key, after, min(left, _PART))
        for found in rows:
            yield _entry(book, row, found)
        left = left - len(rows) if len(rows) == _PART else 0
        after = rows[-1][0] if rows else after


_SHAPE = ((int,), (int,), (int,), (str,), (str,), (bytes, type(None)))


def _entry(book: Book, job: JobRow, row: Row) -> TrailEntry:
    number, at_ms, attempt, kind, state, value = row
    if all(type(found) in kinds for found, kinds in zip(row, _SHAPE, strict=True)):
        with suppress(ValueError):
            return TrailEntry(
                number=number,
                at_ms=at_ms,
                attempt=attempt,
                kind=NoteKind.LOG if kind == NoteKind.LOG else EventKind(kind),
                state=State(state),
                value=value,
            )
    raise corrupt(book.name, job.id, f"entry {number!r:.60} of its history is {row[1:5]!r:.120}")
