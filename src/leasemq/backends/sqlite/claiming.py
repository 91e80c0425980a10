"""Claim: hand out waiting jobs under new fences. See `Work.claim`."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.backends.sqlite.ending import FREES_AT_START, end, free_named_key
from leasemq.backends.sqlite.rows import (
    LEASE_ATTEMPTS,
    LEASE_FENCE,
    LEASE_FREES_KEY,
    LEASE_GENERATION,
    LEASE_ID,
    LEASE_KEY,
    LEASE_OUTCOME,
    LEASE_TRAIL,
    LEASE_UNIQUE_KEY,
    JobRow,
    claimed_lease,
    dated,
    is_lease,
    jobs_by_key,
    json_array,
    lease,
)
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.checks import check_lease
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    HISTORY_LIMIT,
    Claimant,
    Claimed,
    Fence,
    Lease,
    NothingClaimed,
    State,
)

_PICK = statement("claim_pick")
_REPEAT = statement("claim_repeat")
_TAKE = statement("claim_take")
_CLAIMED_BY = statement("claimed_by")
_EXPIRED = statement("expired")
_UNDATED = statement("undated")
_OVERDUE = statement("overdue")
_SUSPECT_WAITS = statement("suspect_waits")
_NEXT_DUE = statement("next_due")
_NEXT_LAPSE = statement("next_lapse")
_ATTEMPT_KEEP = statement("attempt_keep")
_ATTEMPT_TRIM = statement("attempt_trim")

_PICKS = 10  # at most so many looks past jobs that cannot be read, each at so many of them
_PAST_CORRUPT = 100

_CLAIMED, _ACTIVE = EventKind.CLAIMED.value, State.ACTIVE.value


def claim(step: Step, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
    """See `Work.claim`."""
    check_lease(lease_ms)
    book = step.book(queue)
    if book is None:
        return Claimed(reason=NothingClaimed.EMPTY if limit > 0 else None)
    mine = _REPEAT.rows(step.connection, book.key, claimant.request_id)
    if mine:
        return Claimed(leases=_leases(queue, mine), next_due_in_ms=next_due_in_ms(step, book))
    expire_overdue(step, book, limit)
    if book.paused:
        return Claimed(
            next_due_in_ms=next_due_in_ms(step, book),
            next_lapse_in_ms=_next_lapse_in_ms(step, book),
            reason=NothingClaimed.PAUSED,
        )
    if claimant.takes_suspect and limit > 0:
        suspects = _picked(step, book, suspect=1, limit=1)
        if suspects:
            book.suspect_incarnation, book.suspect_until_ms = "", 0
            taken = _take(step, book, suspects, lease_ms, claimant)
            return Claimed(leases=taken, next_due_in_ms=next_due_in_ms(step, book))
    suspect_waits = _suspect_waits(step, book, claimant.incarnation, lease_ms)
    taken = _take(step, book, _picked(step, book, suspect=0, limit=limit), lease_ms, claimant)
    is_short = len(taken) < limit
    return Claimed(
        leases=taken,
        next_due_in_ms=next_due_in_ms(step, book),
        next_lapse_in_ms=_next_lapse_in_ms(step, book) if is_short else None,
        reason=NothingClaimed.EMPTY if is_short else None,
        suspect_waits=suspect_waits,
    )


def claimed_by(step: Step, queue: str, incarnation: str) -> Sequence[Lease]:
    """See `Work.claimed_by`."""
    book = step.book(queue)
    return () if book is None else _leases(queue, _CLAIMED_BY.rows(step.connection, book.key, incarnation))


def expired(step: Step, queue: str, limit: int) -> Sequence[Lease]:
    """See `Work.expired`."""
    book = step.book(queue)
    return () if book is None else _leases(queue, lapsed_leases(step, book, limit))


def lapsed_leases(step: Step, book: Book, limit: int) -> list[Row]:
    """Read the lease rows of active jobs past their deadline, or without one, readable or not."""
    rows = _EXPIRED.rows(step.connection, book.key, step.now_ms, limit)
    if len(rows) < limit:
        rows += _UNDATED.rows(step.connection, book.key, limit - len(rows))
    return [dated(row) for row in rows]


def expire_overdue(step: Step, book: Book, limit: int) -> int:
    """Expire up to `limit` jobs past their ttl; answers how many."""
    if limit <= 0:
        return 0
    rows = _OVERDUE.rows(step.connection, book.key, step.now_ms, limit)
    for row in rows:
        end(step, book, JobRow._make(row), State.EXPIRED)
    return len(rows)


def next_due_in_ms(step: Step, book: Book) -> int | None:
    """Answer how long until a scheduled job is due."""
    if not book.counts[State.SCHEDULED]:
        return None
    row = _NEXT_DUE.row(step.connection, book.key)
    return None if row is None else max(0, row[0] - step.now_ms)


def _next_lapse_in_ms(step: Step, book: Book) -> int | None:
    if not book.counts[State.ACTIVE]:
        return None
    row = _NEXT_LAPSE.row(step.connection, book.key)
    return None if row is None else max(0, row[0] - step.now_ms)


def end_corrupt(step: Step, book: Book, keys: Sequence[int]) -> None:
    """End jobs that cannot be read, as failed, so that the others go on."""
    for row in jobs_by_key(step, keys):
        end(step, book, row, State.FAILED, reason="corrupt")


def _leases(queue: str, rows: Sequence[Row]) -> tuple[Lease, ...]:
    return tuple(lease(queue, row) for row in map(dated, rows) if is_lease(row))


def _picked(step: Step, book: Book, *, suspect: int, limit: int) -> list[Row]:
    """Pick the next jobs; those that cannot be read are ended on the way."""
    asked, good = max(limit, 0), list[Row]()
    for _ in range(_PICKS):
        rows = _PICK.rows(step.connection, book.key, suspect, step.now_ms, max(limit, 0))
        good = [row for row in rows if is_lease(row)]
        if len(good) == len(rows):
            break
        end_corrupt(step, book, [row[LEASE_KEY] for row in rows if not is_lease(row)])
        limit = max(limit, _PAST_CORRUPT)
    return good[:asked]


def _suspect_waits(step: Step, book: Book, incarnation: str, lease_ms: int) -> bool:
    """Whether a suspect waits and this incarnation is the one that should run empty, for one lease."""
    if _SUSPECT_WAITS.row(step.connection, book.key, step.now_ms) is None:
        return False
    if book.suspect_incarnation != incarnation and book.suspect_until_ms > step.now_ms:
        return False
    book.suspect_incarnation, book.suspect_until_ms = incarnation, step.now_ms + lease_ms
    book.changed = True
    return True


def _take(
    step: Step, book: Book, rows: Sequence[Row], lease_ms: int, claimant: Claimant
) -> tuple[Lease, ...]:
    """Give each picked job its next fence, and answer the leases in the same order."""
    if not rows:
        return ()
    _keep_attempts(step, [row[LEASE_KEY] for row in rows if row[LEASE_OUTCOME] is not None])
    now, until, least = step.now_ms, step.now_ms + lease_ms, step.now_ms * 1_000
    nonce, incarnation, worker = claimant.request_id, claimant.incarnation, claimant.worker
    keys = json_array([row[LEASE_KEY] for row in rows])
    _TAKE.run(step.connection, least, nonce, incarnation, worker, book.next_place(), now, until, keys)
    taken: list[Lease] = []
    for row in rows:
        number = max(row[LEASE_FENCE] + 1, least)  # as the statement does
        attempts = row[LEASE_ATTEMPTS] + 1
        book.events.append((row[LEASE_ID], row[LEASE_GENERATION], _CLAIMED, _ACTIVE, attempts))
        if row[LEASE_TRAIL]:
            book.trace(row[LEASE_KEY], row[LEASE_TRAIL], attempts, EventKind.CLAIMED, State.ACTIVE)
        fence = Fence(number=number, nonce=nonce)
        taken.append(claimed_lease(book.name, row, fence, attempts, until, incarnation))
        if row[LEASE_FREES_KEY] == FREES_AT_START:
            free_named_key(step, book, row[LEASE_UNIQUE_KEY], row[LEASE_ID], row[LEASE_GENERATION])
    book.counts[State.WAITING] -= len(rows)
    book.counts[State.ACTIVE] += len(rows)
    return tuple(taken)


def _keep_attempts(step: Step, keys: Sequence[int]) -> None:
    """Move these jobs' last attempts into their history: the row is about to hold the next one."""
    if keys:
        listed = json_array(keys)
        _ATTEMPT_KEEP.run(step.connection, listed)
        _ATTEMPT_TRIM.run(step.connection, listed, HISTORY_LIMIT - 1)
