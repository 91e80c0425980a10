"""How jobs end and how they are deleted: key freed, dependants told, counted, and what hung on them gone."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.backends.sqlite.rows import JobRow, json_array, keep
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import FollowUp, FollowUpKind, Keep, OnParentFailure, Ref, State

FREES_NEVER, FREES_AT_START, FREES_AT_END = 0, 1, 2  # the column frees_key

_JOB_END = statement("job_end")
_KEEP_READ = statement("keep_read")
_HOLD_FREE = statement("hold_free")
_DEPENDANTS = statement("dependants")
_DROP_TRAIL = statement("drop_trail")
_SLIP_KEEP = statement("slip_keep")
_DROPS = tuple(
    statement(f"drop_{table}")
    for table in ("body", "value", "attempt", "refused", "log", "parent", "dependant", "alias", "job")
)


def end(step: Step, book: Book, row: JobRow, state: State, *, reason: str | None = None) -> None:
    """End a job that no settlement ends; with a retention of 0 its record is deleted at once."""
    kept_ms = _keep(step, row.key).for_state(state)
    keep_until_ms = step.now_ms + kept_ms
    place = book.next_place()
    _JOB_END.run(step.connection, state.value, reason, step.now_ms, keep_until_ms, place, row.key)
    let_go(step, book, row, state)
    book.move(row.state, state)
    row.tell(book, EventKind(state.value), state)
    book.ended.append((row.id, row.generation))
    if kept_ms == 0:
        drop(step, book, [row._replace(state=state)])


def let_go(step: Step, book: Book, row: JobRow, outcome: State | None) -> None:
    """Free the key of a job that ends or is deleted, and tell its dependants `outcome`."""
    if row.frees_key:
        free_key(step, book, row)
    if row.dependants:
        tell_dependants(step, book, row, outcome)


def free_key(step: Step, book: Book, row: JobRow) -> None:
    """Free the unique key that this job holds, if it does."""
    found = _KEEP_READ.row(step.connection, row.key)
    if found is not None:
        free_named_key(step, book, found[3], row.id, row.generation)


def free_named_key(step: Step, book: Book, unique_key: str, job_id: str, generation: int) -> None:
    """Free this key, if this life of this job holds it."""
    _HOLD_FREE.run(step.connection, book.key, unique_key, job_id, generation)


def tell_dependants(step: Step, book: Book, row: JobRow, outcome: State | None) -> None:
    """Record a follow-up for each dependant; one that cannot be read is passed over."""
    for dependant in _DEPENDANTS.rows(step.connection, row.key):
        if not _is_dependant(dependant):
            continue
        queue, id_, generation, on_failure = dependant
        book.outbox.append(
            FollowUp(
                id=book.next_follow_up(),
                kind=FollowUpKind.RESOLVE,
                child=Ref(queue=queue, id=id_, generation=generation),
                parent=row.ref(book),
                on_failure=OnParentFailure(on_failure),
                outcome=outcome,
            )
        )


def _is_dependant(row: Row) -> bool:
    return tuple(map(type, row)) == (str, str, int, str) and row[3] in _POLICIES


def drop(step: Step, book: Book, rows: Sequence[JobRow]) -> None:
    """Delete jobs and all that is stored with them; those that never ended tell their dependants so."""
    for row in rows:
        is_open = row.state in _OPEN
        if is_open:
            let_go(step, book, row, None)
        elif row.frees_key:
            free_key(step, book, row)
        count_out(book, row)
    delete(step, book, rows)


def keep_results(step: Step, keys: Sequence[int]) -> None:
    """Keep what completed jobs returned, if it is due to be kept, though their records go in this step."""
    if keys:
        _SLIP_KEEP.run(step.connection, json_array(keys), step.now_ms)


def count_out(book: Book, row: JobRow) -> None:
    """Count a job that is deleted, and write the event."""
    book.move(row.state, None)
    book.tell(row.ref(book), EventKind.REMOVED, None, row.attempts)


def delete(step: Step, book: Book, rows: Sequence[JobRow]) -> None:
    """Delete the rows of these jobs in every table."""
    if rows:
        listed = json_array(row.key for row in rows)
        for deletion in _DROPS:
            deletion.run(step.connection, listed)
    traced = {row.key for row in rows if row.trail}
    if traced:
        book.trail = [entry for entry in book.trail if entry.job not in traced]
        _DROP_TRAIL.run(step.connection, json_array(traced))


_POLICIES = frozenset(policy.value for policy in OnParentFailure)
_OPEN = frozenset({State.SCHEDULED, State.WAITING, State.ACTIVE, State.BLOCKED})


def _keep(step: Step, job: int) -> Keep:
    """The job's own retention, or the default where it cannot be read."""
    found = _KEEP_READ.row(step.connection, job)
    if found is None or any(type(value) is not int for value in found[:3]):
        return Keep()
    return keep(*found[:3])
