"""What a running job sees: its identity, its fence, and the fenced writes that do not end it."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from leasemq.errors import JobCancelled
from leasemq.protocol.envelope import decode_plain, encode_plain
from leasemq.protocol.model import Lease, NewJob, NoteKind, Ref
from leasemq.protocol.names import shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

running_job: ContextVar[Ref | None] = ContextVar("leasemq_running_job", default=None)
"""The job whose function runs here; None outside of one. Set in the function's task and its thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """What a line in the log says about the attempt that it was written in."""

    ref: Ref
    task: str
    attempt: int
    fence: int


running_attempt: ContextVar[RunningAttempt | None] = ContextVar("leasemq_running_attempt", default=None)
"""The same as `running_job`, told in full; for logs."""


class Desk(Protocol):
    """What a context needs of the attempt behind it."""

    @property
    def is_told_to_stop(self) -> bool:
        """Whether the function should end now."""

    async def write(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Record something under the attempt's fence. Raises: LeaseLost."""

    def write_from_thread(self, kind: NoteKind, value: bytes) -> None:
        """Like `write`, from the function's own thread."""


class Ctx:
    """The first argument of a function that asks for it. Owner: the attempt; it means nothing after it."""

    __slots__ = ("_desk", "_lease")

    def __init__(self, lease: Lease, desk: Desk) -> None:
        self._lease = lease
        self._desk = desk

    def __repr__(self) -> str:
        return f"<Ctx {shown(self.queue)}/{shown(self.job_id)} attempt {self.attempt} fence {self.fence}>"

    @property
    def ref(self) -> Ref:
        """Queue, id and generation: what a handle names."""
        return self._lease.ref

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._lease.ref.id

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._lease.ref.queue

    @property
    def generation(self) -> int:
        """Which life of the id this is; 1 is the first."""
        return self._lease.ref.generation

    @property
    def task(self) -> str:
        """The task's name as it was enqueued."""
        return self._lease.task

    @property
    def attempt(self) -> int:
        """Which claim of the job this is; 1 is the first."""
        return self._lease.attempts

    @property
    def failures(self) -> int:
        """How often it has failed before."""
        return self._lease.failures

    @property
    def stalls(self) -> int:
        """How often a lease on it has expired before."""
        return self._lease.stalls

    @property
    def fence(self) -> int:
        """The lease's number, larger at every claim: hand it on, and others can refuse a stale attempt."""
        return self._lease.fence.number

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued, by the backend's clock, in UTC."""
        return _EPOCH + timedelta(milliseconds=self._lease.created_ms)

    def idempotency_key(self, step: str = "") -> str:
        """Answer a key that is the same on every attempt of this job, and differs for each step."""
        parts = (self.queue, self.job_id, str(self.generation), step)
        told = b"".join(len(part).to_bytes(8, "big") + part for part in map(str.encode, parts))
        return hashlib.blake2b(told, digest_size=16).hexdigest()

    @property
    def cancelled(self) -> bool:
        """Whether it should stop: cancelled, out of time, or its lease is lost. Read from any thread."""
        return self._desk.is_told_to_stop

    def check_cancelled(self) -> None:
        """Raise JobCancelled if the function should stop; for loops in functions that block."""
        if self._desk.is_told_to_stop:
            raise JobCancelled(f"job {shown(self.job_id)} was told to stop at attempt {self.attempt}")

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt left with `checkpoint`; None if there was nothing."""
        stored = self._lease.checkpoint
        return None if stored is None else decode_plain(stored, what="checkpoint", job=self.job_id)

    async def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Record how far the job is. Raises: LeaseLost."""
        await self._desk.write(NoteKind.PROGRESS, _progress(current, total, message))

    async def log(self, message: str) -> None:
        """Add a line to the job's own log; the newest 100 are kept. Raises: LeaseLost."""
        await self._desk.write(NoteKind.LOG, encode_plain(message, what="log line"))

    async def checkpoint(self, value: Any) -> None:
        """Leave plain data for the next attempt. Raises: LeaseLost, PayloadRejected, PayloadTooLarge."""
        await self._desk.write(NoteKind.CHECKPOINT, encode_plain(value, what="checkpoint"))

    async def offer(self, queue: str, child: NewJob) -> None:
        """Enqueue a child job, if this attempt still owns its own. Raises: LeaseLost."""
        await self._desk.write(NoteKind.OFFER, b"", queue=queue, child=child)

    def progress_sync(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Like `progress`, for a function in a thread. Raises: LeaseLost, SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.PROGRESS, _progress(current, total, message))

    def log_sync(self, message: str) -> None:
        """Like `log`, for a function in a thread. Raises: LeaseLost, SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.LOG, encode_plain(message, what="log line"))

    def checkpoint_sync(self, value: Any) -> None:
        """Like `checkpoint`, for a function in a thread. Raises: LeaseLost, SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.CHECKPOINT, encode_plain(value, what="checkpoint"))


def _progress(current: float, total: float | None, message: str | None) -> bytes:
    return encode_plain({"current": current, "total": total, "message": message}, what="progress")
