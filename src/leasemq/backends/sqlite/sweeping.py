"""What is done in bounded steps, and without a decision in it: expire, promote, prune, obliterate."""

from __future__ import annotations

from dataclasses import dataclass

from leasemq.backends.sqlite.claiming import end_corrupt, expire_overdue, lapsed_leases, next_due_in_ms
from leasemq.backends.sqlite.ending import drop, keep_results
from leasemq.backends.sqlite.rows import LEASE_KEY, JobRow, is_lease, json_array
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import TERMINAL, Advanced, State
from leasemq.protocol.plain import INT_MAX

_DUE = statement("due")
_PROMOTE = statement("promote")
_LAPSED = statement("lapsed")
_RESULTS = statement("prune_results")
_PURGE = statement("purge")
_SLIP_LAPSE = statement("slip_lapse")
_SLIP_TRIM = statement("slip_trim")
_SLIP_OBLITERATE = statement("slip_obliterate")
_HOLD_LAPSE = statement("hold_lapse")
_EVENT_FIRST_KEPT = statement("event_first_kept")
_EVENT_TRIM = statement("event_trim")
_OBLITERATE_PART = statement("obliterate_part")

_PART = 1_000  # jobs that one step of obliterate deletes; whoever else wants to write waits for one step


def advance(step: Step, queue: str, limit: int) -> Advanced:
    """See `Work.advance`."""
    book = step.book(queue)
    if book is None:
        return Advanced()
    # Nobody can be handed the lease of a job that cannot be read, so no sweep would ever settle it.
    end_corrupt(step, book, [row[LEASE_KEY] for row in lapsed_leases(step, book, limit) if not is_lease(row)])
    expired = expire_overdue(step, book, limit)
    rows = [JobRow._make(row) for row in _DUE.rows(step.connection, book.key, step.now_ms, max(limit, 0))]
    _PROMOTE.many(step.connection, [(book.next_place(), step.now_ms, row.key) for row in rows])
    for row in rows:
        book.move(row.state, State.WAITING)
        row.tell(book, EventKind.PROMOTED, State.WAITING)
    return Advanced(promoted=len(rows), expired=expired, next_due_in_ms=next_due_in_ms(step, book))


def prune(step: Step, queue: str, limit: int, event_age_ms: int, newest: int) -> int:
    """See `Work.prune`."""
    book = step.book(queue)
    if book is None:
        return 0
    _HOLD_LAPSE.run(step.connection, book.key, step.now_ms)
    _forget_old_events(step, book, event_age_ms)
    limit = max(limit, 0)
    rows = _LAPSED.rows(step.connection, book.key, step.now_ms, limit)
    results = [row[2] for row in rows if not row[0]]
    if results:
        _RESULTS.run(step.connection, json_array(results))
    keep_results(step, [row[2] for row in rows if row[0] and row[1]])
    drop(step, book, [JobRow._make(row[2:]) for row in rows if row[0]])
    beyond = _prune_beyond(step, book, newest, limit - len(rows))
    lapsed = _SLIP_LAPSE.run(step.connection, book.key, step.now_ms, limit)
    return len(rows) + beyond + lapsed + _SLIP_TRIM.run(step.connection, book.key, newest, limit - lapsed)


def _prune_beyond(step: Step, book: Book, newest: int, limit: int) -> int:
    """Drop up to `limit` records beyond the newest of each terminal state. No result stays of them."""
    taken = 0
    for state in sorted(TERMINAL):
        part = min(book.counts[state] - newest, limit - taken)
        if part > 0:
            rows = _PURGE.rows(step.connection, book.key, state.value, INT_MAX, part)
            drop(step, book, [JobRow._make(row[1:]) for row in rows])
            taken += len(rows)
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one step of obliterate did."""

    removed: int
    until_key: int  # up to here goes the whole: what is accepted meanwhile stays
    has_more: bool


def obliterate(step: Step, queue: str, until_key: int | None, *, force: bool) -> Part | None:
    """Delete some jobs of a queue. The first step, without a key, is refused as `Control.obliterate` is."""
    book = step.book(queue)
    if book is None:
        return Part(removed=0, until_key=0, has_more=False)
    if until_key is None:
        if book.counts[State.ACTIVE] and not force:
            return None
        until_key = book.newest_key
    rows = _OBLITERATE_PART.rows(step.connection, book.key, until_key, force, _PART)
    drop(step, book, [JobRow._make(row) for row in rows])
    slips = _SLIP_OBLITERATE.run(step.connection, book.key, _PART)
    return Part(removed=len(rows), until_key=until_key, has_more=_PART in (len(rows), slips))


def _forget_old_events(step: Step, book: Book, age_ms: int) -> None:
    first = _EVENT_FIRST_KEPT.row(step.connection, book.key, step.now_ms - age_ms)
    floor = book.event_number if first is None else first[0] - 1
    if floor > book.event_floor:
        book.event_floor, book.changed = floor, True
        _EVENT_TRIM.run(step.connection, book.key, floor)
