"""What operators and handles do to jobs. See `leasemq.backend.Control`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from leasemq.backends.sqlite.accepting import attach_to_parents, held_key, take_key
from leasemq.backends.sqlite.ending import drop, end
from leasemq.backends.sqlite.rows import JobRow, corrupt, jobs_by_id, json_array, stored_state
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Book, Step
from leasemq.protocol.checks import check_priority
from leasemq.protocol.insight import CancelAnswer, Change, Changed, EventKind
from leasemq.protocol.model import (
    HISTORY_LIMIT,
    NOT_STARTED,
    TERMINAL,
    OnParentFailure,
    Parent,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)

_CANCEL = statement("cancel")
_RESUME = statement("resume")
_REPRIORITISE = statement("reprioritise")
_SET_DUE = statement("set_due")
_REPLAY = statement("replay")
_REPLAY_READ = statement("replay_read")
_REPLAY_VALUES = statement("replay_values")
_RECORD_PARENTS = statement("record_parents")
_ATTEMPT_KEEP = statement("attempt_keep")
_ATTEMPT_TRIM = statement("attempt_trim")
_DRAINS = (
    (State.BLOCKED, statement("drain_blocked")),
    (State.SCHEDULED, statement("drain_scheduled")),
    (State.WAITING, statement("drain_waiting")),
)  # each state in the order of its own index, so that no step walks past what has ended
_PURGE = statement("purge")
_SLIP_FORGET = statement("slip_forget")

_REPLAYABLE = frozenset({State.FAILED, State.EXPIRED, State.CANCELLED})

_Change = Callable[[Step, Book, JobRow], Changed]


def _not_found(step: Step, book: Book, job_id: str) -> Changed:
    return Changed(change=Change.NOT_FOUND)


def _changed(
    step: Step,
    queue: str,
    ids: Sequence[str],
    change: _Change,
    without_record: Callable[[Step, Book, str], Changed] = _not_found,
) -> Sequence[Changed]:
    """Apply a change to each job in turn; a job named twice is read anew for the second."""
    book = step.book(queue)
    if book is None:
        return (Changed(change=Change.NOT_FOUND),) * len(ids)
    answers: list[Changed] = []
    for job_id in ids:
        row = jobs_by_id(step, book, [job_id]).get(job_id)
        answers.append(without_record(step, book, job_id) if row is None else change(step, book, row))
    return tuple(answers)


def cancel(step: Step, queue: str, ids: Sequence[str], generation: int | None) -> Sequence[CancelAnswer]:
    """See `Control.cancel`."""
    book = step.book(queue)
    if book is None:
        return (CancelAnswer.NOT_FOUND,) * len(ids)
    return tuple(_cancelled(step, book, job_id, generation) for job_id in ids)


def _cancelled(step: Step, book: Book, job_id: str, generation: int | None) -> CancelAnswer:
    row = jobs_by_id(step, book, [job_id]).get(job_id)
    if row is None or generation not in (None, row.generation):
        return CancelAnswer.NOT_FOUND
    if row.state in NOT_STARTED:
        end(step, book, row, State.CANCELLED)
        return CancelAnswer.CANCELLED
    if row.state != State.ACTIVE:
        return CancelAnswer.FINISHED
    if not row.cancel_requested:
        _CANCEL.run(step.connection, row.key)
        row.tell(book, EventKind.CANCEL_REQUESTED, State.ACTIVE)
    book.cancels.add(row.ref(book))
    return CancelAnswer.CANCELLING


def pause(step: Step, queue: str) -> None:
    """See `Control.pause`."""
    book = step.open_book(queue)
    book.paused, book.changed = True, True


def resume(step: Step, queue: str) -> None:
    """See `Control.resume`."""
    book = step.open_book(queue)
    book.paused, book.changed, book.woken = False, True, True
    _RESUME.run(step.connection, book.key)


def promote(step: Step, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
    """See `Control.promote`."""
    return _changed(step, queue, ids, _promoted)


def _promoted(step: Step, book: Book, row: JobRow) -> Changed:
    return _rescheduled(step, book, row, step.now_ms) if row.state == State.SCHEDULED else _illegal(book, row)


def reprioritise(step: Step, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
    """See `Control.reprioritise`."""
    check_priority(priority)
    return _changed(step, queue, ids, lambda step, book, row: _reprioritised(step, book, row, priority))


def _reprioritised(step: Step, book: Book, row: JobRow, priority: int) -> Changed:
    if row.state not in NOT_STARTED:
        return _illegal(book, row)
    _REPRIORITISE.run(step.connection, priority, row.key)
    return _done(book, row)


def reschedule(
    step: Step, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None
) -> Sequence[Changed]:
    """See `Control.reschedule`."""
    due_ms = max(step.now_ms, step.now_ms + delay_ms if due_at_ms is None else due_at_ms)
    return _changed(step, queue, ids, lambda step, book, row: _rescheduled(step, book, row, due_ms))


def _rescheduled(step: Step, book: Book, row: JobRow, due_ms: int) -> Changed:
    if row.state not in (State.SCHEDULED, State.WAITING):
        return _illegal(book, row)
    if row.state == State.WAITING and due_ms == step.now_ms:
        return _done(book, row)
    state, kind = State.WAITING, EventKind.PROMOTED
    if due_ms > step.now_ms:
        state, kind = State.SCHEDULED, EventKind.RESCHEDULED
    _SET_DUE.run(step.connection, state.value, due_ms, book.next_place(), step.now_ms, row.key)
    book.move(row.state, state)
    row.tell(book, kind, state)
    return _done(book, row)


class _ReplayRow(NamedTuple):
    request: int | None
    ttl_ms: int | None
    unique_key: str | None
    unique_mode: str | None
    unique_until: str | None
    unique_window_ms: int | None


def replay(step: Step, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
    """See `Control.replay`."""
    return _changed(step, queue, ids, lambda step, book, row: _replayed(step, book, row, request_id))


def _replayed(step: Step, book: Book, row: JobRow, request_id: int) -> Changed:
    found = _REPLAY_READ.row(step.connection, row.key)
    if found is None:
        raise corrupt(book.name, row.id, "its body is missing")
    asked = _ReplayRow._make(found)
    if asked.request == request_id:
        return _done(book, row)
    if row.state not in _REPLAYABLE:
        return _illegal(book, row)
    conflict = _retaken(step, book, row, asked)
    if conflict is not None:
        return conflict
    listed = json_array([row.key])
    _ATTEMPT_KEEP.run(step.connection, listed)
    _ATTEMPT_TRIM.run(step.connection, listed, HISTORY_LIMIT)
    _REPLAY_VALUES.run(step.connection, row.key)
    parents = _RECORD_PARENTS.rows(step.connection, listed)
    attach_to_parents(
        book, row.ref(book), [Parent(queue=p[1], id=p[2], on_failure=OnParentFailure(p[3])) for p in parents]
    )
    state = State.BLOCKED if parents else State.WAITING
    expires_ms = None if asked.ttl_ms is None else step.now_ms + asked.ttl_ms
    _REPLAY.run(step.connection, state.value, request_id, step.now_ms, expires_ms, book.next_place(), row.key)
    book.move(row.state, state)
    row.tell(book, EventKind.REPLAYED, state, attempt=0)
    return _done(book, row)


def _retaken(step: Step, book: Book, row: JobRow, asked: _ReplayRow) -> Changed | None:
    """Take the unique key again; answers the conflict if somebody else holds it."""
    if asked.unique_key is None or asked.unique_mode == UniqueMode.THROTTLE:
        return None
    holder = held_key(step, book, asked.unique_key)
    if holder is not None and holder != row.ref(book):
        return Changed(change=Change.CONFLICT, state=stored_state(book, row), holder=holder)
    unique = Unique(
        key=asked.unique_key,
        mode=UniqueMode(asked.unique_mode or ""),
        until=UniqueUntil(asked.unique_until or ""),
        window_ms=asked.unique_window_ms,
    )
    take_key(step, book, row.ref(book), unique)
    return None


def remove(
    step: Step, queue: str, ids: Sequence[str], states: frozenset[State], *, force: bool
) -> Sequence[Changed]:
    """See `Control.remove`. A record that cannot be read goes too."""
    without_record = _result_removed if State.COMPLETED in states else _not_found
    return _changed(
        step,
        queue,
        ids,
        lambda step, book, row: _removed(step, book, row, states, force=force),
        without_record,
    )


def _result_removed(step: Step, book: Book, job_id: str) -> Changed:
    """Remove results that outlived their record."""
    if _SLIP_FORGET.run(step.connection, book.key, json_array([job_id])):
        return Changed(change=Change.DONE, state=State.COMPLETED)
    return Changed(change=Change.NOT_FOUND)


def _removed(step: Step, book: Book, row: JobRow, states: frozenset[State], *, force: bool) -> Changed:
    is_elsewhere = row.state in book.counts and row.state not in states
    if is_elsewhere or (row.state == State.ACTIVE and not force):
        return _illegal(book, row)
    _drop_with_results(step, book, [row])
    return Changed(change=Change.DONE, state=State(row.state) if row.state in book.counts else None)


def drain(step: Step, queue: str, states: frozenset[State], limit: int) -> int:
    """See `Control.drain`."""
    book = step.book(queue)
    if book is None:
        return 0
    rows: list[JobRow] = []
    for state, selection in _DRAINS:
        left = max(limit - len(rows), 0)
        if state in states and left:
            rows += [JobRow._make(row) for row in selection.rows(step.connection, book.key, left)]
    _drop_with_results(step, book, rows)
    return len(rows)


def _drop_with_results(step: Step, book: Book, rows: Sequence[JobRow]) -> None:
    """Delete jobs on an operator's word: no result of any life of their ids stays."""
    drop(step, book, rows)
    _SLIP_FORGET.run(step.connection, book.key, json_array(row.id for row in rows))


def purge(step: Step, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
    """See `Control.purge`; the longest ended first."""
    book = step.book(queue)
    if book is None:
        return 0
    until_ms = step.now_ms - older_than_ms
    found = [
        row
        for state in sorted(states & TERMINAL)
        for row in _PURGE.rows(step.connection, book.key, state.value, until_ms, max(limit, 0))
    ]
    found.sort(key=lambda row: row[:2])  # ended, then key: order of acceptance
    rows = [JobRow._make(row[1:]) for row in found[: max(limit, 0)]]
    _drop_with_results(step, book, rows)
    return len(rows)


def _done(book: Book, row: JobRow) -> Changed:
    return Changed(change=Change.DONE, state=stored_state(book, row))


def _illegal(book: Book, row: JobRow) -> Changed:
    return Changed(change=Change.ILLEGAL, state=stored_state(book, row))
