"""The values that the suite sends, each in one short call. Settlements are decided by `decide`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from leasemq.protocol.decide import (
    Hopeless,
    Interrupted,
    Raised,
    Reason,
    Returned,
    Silent,
    Snoozed,
    Unfit,
    decide,
)
from leasemq.protocol.model import (
    Claimant,
    Lease,
    NewJob,
    Note,
    NoteKind,
    OnParentFailure,
    Parent,
    Settlement,
)
from leasemq.protocol.retry import Retry

LEASE_MS = 30_000
SECOND_MS = 1_000
HOUR_MS = 3_600_000
PAYLOAD = b'{"to": "ada@example.com"}'
ENDLESS = Retry(max_retries=None)

_numbers = count(1)


def new_job(job_id: str = "j", **fields: Any) -> NewJob:  # Any: whatever fields of NewJob the test is about
    """A job with the fields that matter to the test."""
    return NewJob(**{"id": job_id, "task": "tests.send", "payload": PAYLOAD, **fields})


def with_parent(
    job_id: str,
    *parent_ids: str,
    queue: str = "mail",
    on_failure: OnParentFailure = OnParentFailure.FAIL,
    **fields: Any,  # Any: whatever fields of NewJob the test is about
) -> NewJob:
    """A job that waits for others to end first."""
    parents = tuple(Parent(queue=queue, id=parent_id, on_failure=on_failure) for parent_id in parent_ids)
    return new_job(job_id, parents=parents, **fields)


def request_id() -> str:
    """A fresh request id: 128 bits in hex."""
    return f"{next(_numbers):032x}"


def settlement_id() -> int:
    """A fresh settlement id."""
    return next(_numbers)


def claimant(
    worker: str = "A",
    *,
    incarnation: str | None = None,
    request: str | None = None,
    takes_suspect: bool = False,
) -> Claimant:
    """A claimant whose incarnation, unless given, is the first life of the worker."""
    return Claimant(
        worker=worker,
        incarnation=incarnation or f"{worker}-1",
        request_id=request or request_id(),
        takes_suspect=takes_suspect,
    )


def complete(lease: Lease, result: bytes = b"42", *, cancel_requested: bool = False) -> Settlement:
    """The function returned."""
    return decide(
        lease, Returned(result=result), settlement_id=settlement_id(), cancel_requested=cancel_requested
    )


def retry(lease: Lease, delay_ms: int = 0) -> Settlement:
    """The function raised, and its policy allows one more run."""
    raised = Raised(error=b"boom", after_ms=delay_ms)
    return decide(lease, raised, settlement_id=settlement_id(), retry=ENDLESS)


def fail(lease: Lease) -> Settlement:
    """The function raised, and there is no more to try."""
    return decide(lease, Hopeless(error=b"boom", reason=Reason.DEAD), settlement_id=settlement_id())


def release(lease: Lease) -> Settlement:
    """The worker stops, and gives the job back."""
    return decide(lease, Interrupted(), settlement_id=settlement_id())


def release_unfit(lease: Lease) -> Settlement:
    """The worker does not know the task, and leaves the job alone for a while."""
    return decide(lease, Unfit(), settlement_id=settlement_id())


def snooze(lease: Lease, delay_ms: int = 5_000) -> Settlement:
    """The function asked to run later."""
    return decide(lease, Snoozed(delay_ms=delay_ms), settlement_id=settlement_id())


def acknowledge_cancel(lease: Lease) -> Settlement:
    """The holder learned of the cancellation and stopped."""
    return decide(lease, Interrupted(), settlement_id=settlement_id(), cancel_requested=True)


def stall(lease: Lease, *, cancel_requested: bool = False) -> Settlement:
    """A sweep settles for a holder gone silent."""
    return decide(lease, Silent(), settlement_id=settlement_id(), cancel_requested=cancel_requested)


def progress(lease: Lease, value: bytes = b"3/10", *, number: int = 0) -> Note:
    """The function tells how far it is."""
    return Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.PROGRESS, value=value, number=number)


def log_line(lease: Lease, value: bytes = b"halfway", *, number: int = 0) -> Note:
    """The function logs a line."""
    return Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.LOG, value=value, number=number)


def checkpoint(lease: Lease, value: bytes = b"page 7") -> Note:
    """The function hands a value to its next attempt."""
    return Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.CHECKPOINT, value=value)


def offer(lease: Lease, child_id: str = "child", queue: str = "children") -> Note:
    """The function enqueues a child under its fence."""
    child = new_job(child_id, creator=lease.ref)
    return Note(job_id=lease.ref.id, fence=lease.fence, kind=NoteKind.OFFER, queue=queue, child=child)


SETTLEMENTS: dict[str, Callable[[Lease], Settlement]] = {
    "complete": complete,
    "retry": retry,
    "fail": fail,
    "release": release,
    "snooze": snooze,
    "acknowledge_cancel": acknowledge_cancel,
}
NOTES: dict[str, Callable[[Lease], Note]] = {
    "progress": progress,
    "log": log_line,
    "checkpoint": checkpoint,
    "offer": offer,
}
