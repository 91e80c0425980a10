"""What every backend refuses before it writes anything, so that all refuse the same."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.errors import CursorExpired, InvalidCursor, InvalidSetting
from leasemq.protocol.insight import Schedule
from leasemq.protocol.model import (
    PRIORITIES,
    TRAIL_LIMIT,
    NewJob,
    Note,
    NoteKind,
    Unique,
    UniqueMode,
    UniqueUntil,
)
from leasemq.protocol.names import check_job_id, check_key, check_queue, check_task_name, shown, shown_value
from leasemq.protocol.times import MAX_DURATION_MS

MAX_BATCH = 1_000
MAX_STALLS = 1_000_000
_CURSOR_END = 2**63  # all numbers that cursors stand for are below
LAST_INSTANT_MS = 2**53  # exact as a double, and far beyond what a datetime can show


def check_new_jobs(queue: str, jobs: Sequence[NewJob]) -> None:
    """Check a whole batch. Raises: InvalidQueueName, InvalidJobId, InvalidName, InvalidSetting."""
    check_queue(queue)
    for job in jobs:
        _check_new_job(job)
        if job.parents and any((parent.queue, parent.id) == (queue, job.id) for parent in job.parents):
            raise InvalidSetting(f"job {shown(job.id)} of queue {shown(queue)} would wait for itself")


def check_priority(priority: int) -> int:
    """Answer the priority. Raises: InvalidSetting."""
    if type(priority) is not int or priority not in PRIORITIES:
        raise InvalidSetting(f"priority {shown_value(priority)} is not an integer from -100 to 100")
    return priority


def check_limit(limit: int) -> int:
    """Answer the size of a bounded step. Raises: InvalidSetting."""
    if type(limit) is not int or not 0 <= limit <= MAX_BATCH:
        raise InvalidSetting(f"limit {shown_value(limit)} is not an integer from 0 to {MAX_BATCH}")
    return limit


def check_lease(lease_ms: int) -> int:
    """Answer the lease's length. Raises: InvalidSetting."""
    if type(lease_ms) is not int or not 0 < lease_ms <= MAX_DURATION_MS:
        raise InvalidSetting(
            f"lease_ms {shown_value(lease_ms)} is not an integer from 1 to {MAX_DURATION_MS}"
        )
    return lease_ms


def check_notes(notes: Sequence[Note]) -> None:
    """Check the children that running jobs offer, as an enqueue would. Raises: as `check_new_jobs`."""
    for note in notes:
        if note.kind is NoteKind.OFFER:
            check_new_jobs(note.queue, () if note.child is None else (note.child,))


def check_cursor(cursor: object) -> int:
    """Answer the number that a cursor of ours stands for. Raises: InvalidCursor."""
    text = cursor if isinstance(cursor, str) else ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else _CURSOR_END
    if number >= _CURSOR_END:
        raise InvalidCursor(f"cursor {shown_value(cursor)} was not given by an earlier page")
    return number


def events_after(queue: str, cursor: object, trimmed: int, newest: int) -> int:
    """Answer the number of the last event of a queue that was seen.

    Args:
        trimmed: of the last event that is no longer kept; 0: all are.
        newest: of the last event; a cursor beyond it is of a state that the backend has lost.

    Raises: InvalidCursor, CursorExpired.
    """
    after = check_cursor(cursor)
    if trimmed <= after <= newest:
        return after
    what = f"up to {trimmed} were trimmed" if after < trimmed else f"end at {newest}, before cursor {after}"
    raise CursorExpired(
        f"events of queue {shown(queue)} {what}; start again after {trimmed}", earliest=str(trimmed)
    )


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule's names. Raises: InvalidName, InvalidQueueName."""
    check_key(schedule.name)
    check_queue(schedule.queue)


def _check_new_job(job: NewJob) -> None:
    check_job_id(job.id)
    check_task_name(job.task)
    check_priority(job.priority)
    if job.delay_ms or job.due_at_ms is not None or job.ttl_ms is not None or job.max_stalls != 2:
        _check_duration("delay_ms", job.delay_ms)
        _check_duration("ttl_ms", job.ttl_ms)
        _check_range("due_at_ms", job.due_at_ms, LAST_INSTANT_MS)
        _check_range("max_stalls", job.max_stalls, MAX_STALLS)
    if job.trail != 0:
        _check_range("trail", job.trail, TRAIL_LIMIT)
    if job.unique is not None:
        _check_unique(job.unique)
        _check_duration("at_most_ms", job.at_most_ms)
    for parent in job.parents:
        check_queue(parent.queue)
        check_job_id(parent.id)


def _check_unique(unique: Unique) -> None:
    check_key(unique.key)
    _check_duration("window_ms", unique.window_ms)
    if type(unique.mode) is not UniqueMode or type(unique.until) is not UniqueUntil:
        given = f"{shown_value(unique.mode)} until {shown_value(unique.until)}"
        raise InvalidSetting(f"unique {given} is not given as UniqueMode and UniqueUntil")
    if unique.window_ms is None and unique.mode in (UniqueMode.DEBOUNCE, UniqueMode.THROTTLE):
        raise InvalidSetting(f"unique mode {unique.mode.value} needs a window; window_ms is None")


def _check_duration(field: str, value: int | None) -> None:
    _check_range(field, value, MAX_DURATION_MS)


def _check_range(field: str, value: int | None, most: int) -> None:
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise InvalidSetting(f"{field} is {shown_value(value)}; use an integer from 0 to {most}")
