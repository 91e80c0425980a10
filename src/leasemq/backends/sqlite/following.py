"""What must happen elsewhere because of a job, and what a running job writes about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasemq.backends.sqlite.ending import end
from leasemq.backends.sqlite.rows import JobRow, jobs_by_id, json_array, stored_state
from leasemq.backends.sqlite.settling import refuse
from leasemq.backends.sqlite.statements import Row, statement
from leasemq.backends.sqlite.step import Book, Step, number_or_zero
from leasemq.protocol.checks import check_notes
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    HISTORY_LIMIT,
    Attached,
    FollowUp,
    FollowUpKind,
    NewJob,
    Note,
    Noted,
    NoteKind,
    OnParentFailure,
    Ref,
    State,
)

_OUTBOX = statement("outbox")
_OUTBOX_DONE = statement("outbox_done")
_ATTACH = statement("attach")
_ATTACH_MARK = statement("attach_mark")
_RESOLVE = statement("resolve")
_OPEN_PARENT = statement("open_parent")
_OPEN_PARENTS = statement("open_parents")
_SET_DUE = statement("set_due")
_VALUE_PUT = statement("value_put")
_NOTE_LOG = statement("note_log")
_NOTE_LOG_TRIM = statement("note_log_trim")
_NOTED = statement("noted")

_unpack_job = msgspec.msgpack.Decoder(NewJob).decode


def note(step: Step, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
    """See `Work.note`."""
    check_notes(notes)
    book = step.book(queue)
    if book is None:
        return (Noted.LOST,) * len(notes)
    rows = jobs_by_id(step, book, [entry.job_id for entry in notes])
    last = {row.key: number_or_zero(row.noted) for row in rows.values()}
    before = dict(last)
    answers = tuple(_noted(step, book, rows.get(entry.job_id), entry, last) for entry in notes)
    _NOTED.many(step.connection, [(last[key], key) for key in last if last[key] != before[key]])
    return answers


def _noted(step: Step, book: Book, row: JobRow | None, entry: Note, last: dict[int, int]) -> Noted:
    """Write one note. `last`: by key, the number of the newest attempt's last one, moved on here."""
    if row is None:
        return Noted.LOST
    if row.state != State.ACTIVE or (row.fence, row.nonce) != (entry.fence.number, entry.fence.nonce):
        refuse(step, book, row.key, entry.fence.number, entry.kind.value)
        return Noted.LOST
    if 0 < entry.number <= last[row.key]:
        return Noted.HELD
    last[row.key] = max(last[row.key], entry.number)
    match entry.kind:
        case NoteKind.PROGRESS:
            _VALUE_PUT.run(step.connection, row.key, entry.kind.value, entry.value)
            book.tell(row.ref(book), EventKind.PROGRESS, State.ACTIVE, row.attempts)
            _trace(book, row, EventKind.PROGRESS, entry.value)
        case NoteKind.CHECKPOINT:
            _VALUE_PUT.run(step.connection, row.key, entry.kind.value, entry.value)
        case NoteKind.LOG:
            _trace(book, row, entry.kind, entry.value)
            _NOTE_LOG.run(step.connection, row.key, entry.value)
            _NOTE_LOG_TRIM.run(step.connection, row.key, HISTORY_LIMIT)
        case NoteKind.OFFER:
            assert entry.child is not None
            _offer(book, entry.queue, replace(entry.child, creator=row.ref(book)))
    return Noted.HELD


def _trace(book: Book, row: JobRow, kind: EventKind | NoteKind, value: bytes) -> None:
    if row.trail:
        book.trace(row.key, number_or_zero(row.trail), row.attempts, kind, State.ACTIVE, value)


def _offer(book: Book, queue: str, child: NewJob) -> None:
    book.outbox.append(
        FollowUp(
            id=book.next_follow_up(),
            kind=FollowUpKind.OFFER,
            child=Ref(queue=queue, id=child.id, generation=0),
            job=child,
        )
    )


def outbox(step: Step, queue: str, limit: int) -> Sequence[FollowUp]:
    """See `Work.outbox`."""
    book = step.book(queue)
    if book is None:
        return ()
    entries = [_follow_up(row) for row in _OUTBOX.rows(step.connection, book.key, max(limit, 0))]
    return tuple(entry for entry in entries if entry is not None)


def _follow_up(row: Row) -> FollowUp | None:
    """Answer the entry; one that cannot be read stays where it is, out of the others' way."""
    try:
        return FollowUp(
            id=row[0],
            kind=FollowUpKind(row[1]),
            child=Ref(queue=row[2], id=row[3], generation=row[4]),
            parent=None if row[5] is None else Ref(queue=row[5], id=row[6], generation=row[7]),
            on_failure=OnParentFailure(row[8]),
            outcome=None if row[9] is None else State(row[9]),
            job=None if row[10] is None else _unpack_job(row[10]),
        )
    except (ValueError, TypeError, msgspec.MsgspecError):
        return None


def outbox_done(step: Step, queue: str, ids: Sequence[int]) -> None:
    """See `Work.outbox_done`."""
    book = step.book(queue)
    if book is not None:
        _OUTBOX_DONE.run(step.connection, book.key, json_array(ids))


def attach(step: Step, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
    """See `Work.attach`."""
    book = step.book(queue)
    row = None if book is None else jobs_by_id(step, book, [parent_id]).get(parent_id)
    if book is None or row is None:
        return Attached(known=False)
    _ATTACH.run(step.connection, row.key, child.queue, child.id, child.generation, on_failure.value)
    _ATTACH_MARK.run(step.connection, row.key)
    state = stored_state(book, row)
    return Attached(known=True, ended=state if state.is_terminal else None)


def resolve(step: Step, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
    """See `Work.resolve`."""
    book = step.book(child.queue)
    row = None if book is None else jobs_by_id(step, book, [child.id]).get(child.id)
    if book is None or row is None or row.generation != child.generation or row.state != State.BLOCKED:
        return False
    if _OPEN_PARENT.row(step.connection, row.key, parent_queue, parent_id) is None:
        return False
    _RESOLVE.run(step.connection, row.key, parent_queue, parent_id)
    if not passes:
        end(step, book, row, State.FAILED, reason="parent")
        return True
    if _OPEN_PARENTS.row(step.connection, row.key) is None:
        _unblock(step, book, row)
    return True


def _unblock(step: Step, book: Book, row: JobRow) -> None:
    state = State.SCHEDULED if row.due_ms > step.now_ms else State.WAITING
    _SET_DUE.run(step.connection, state.value, row.due_ms, book.next_place(), step.now_ms, row.key)
    book.move(row.state, state)
    row.tell(book, EventKind.UNBLOCKED, state)
