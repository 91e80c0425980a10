"""A handle on one life of one job: what enqueue answers, and what survives as plain data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from leasemq.client.connection import Connections
from leasemq.client.explaining import explained
from leasemq.context import running_job
from leasemq.errors import (
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotFound,
    Refused,
    ResultExpired,
    WaitTimeout,
    WouldDeadlock,
)
from leasemq.feed import JobEvent
from leasemq.notes import HistoryPage, Progress, decode_log_line, decode_progress, history_page
from leasemq.option_checks import whole
from leasemq.protocol.failure import ErrorRecord, decode_error
from leasemq.protocol.insight import CancelAnswer, JobRecord, Slip
from leasemq.protocol.model import Acceptance, Ref, State
from leasemq.protocol.names import check_job_id, check_queue, shown
from leasemq.protocol.reasons import Reason, many
from leasemq.protocol.times import seconds_to_ms
from leasemq.protocol.trail import TRAIL_PAGE
from leasemq.protocol.why import Asked
from leasemq.settings import Seconds
from leasemq.watching import Patience, watched

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[R]):
    """How what a job stored is read, by the name of its task."""

    value: Callable[[str, bytes, str], R]  # task, stored result, id of the job
    error: Callable[[str, ErrorRecord], Exception | None]  # the declared error, made again


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What one attempt failed with. `error` is the exception itself, made again, if the task declares it."""

    attempt: int
    error_type: str
    error_message: str
    traceback: str
    error: Exception | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[R]):
    """One job, named by queue, id and generation. Without a generation it is the newest life of the id."""

    queue: str
    id: str
    generation: int | None = None
    acceptance: Acceptance | None = field(default=None, compare=False)  # None: not from an enqueue
    _connections: Connections = field(repr=False, compare=False)
    _reading: Reading[R] = field(repr=False, compare=False)

    @property
    def created(self) -> bool:
        """Whether the enqueue that answered this handle stored the job; False for a known id."""
        return self.acceptance is Acceptance.CREATED

    def to_plain(self) -> dict[str, str | int | None]:
        """Answer the handle as plain data, for `task.handle` in any process."""
        return {"queue": self.queue, "id": self.id, "generation": self.generation}

    async def state(self) -> State:
        """Answer where the job is now. Raises: JobNotFound."""
        return (await self.record()).state

    async def record(self) -> JobRecord:
        """Answer all that is stored about this life of the job.

        Raises: JobNotFound if it is not stored (any more), or another generation took the id.
        """
        record = await self._newest()
        if record is None:
            raise JobNotFound(f"no {self}: it was never enqueued here, or its record is no longer kept")
        if self.generation not in (None, record.ref.generation):
            raise JobNotFound(f"no {self} any more: the id is now at generation {record.ref.generation}")
        return record

    async def why(self, *, elsewhere: bool = True) -> Sequence[Reason]:
        """Answer why the job does not run, or ran more than once: the true reason first.

        By the same facts as a claim. Never empty: of a job that nobody knows it says so; and, after a look
        at each unless `elsewhere` is False, which other queues have the id.
        """
        asked = Asked(id=self.id, generation=self.generation, acceptance=self.acceptance)
        backend = (await self._connections.here()).backend
        return await explained(backend, self.queue, asked, elsewhere=elsewhere)

    async def progress(self) -> Progress | None:
        """Answer what the job said last with `ctx.progress`; None if it said nothing. Raises: JobNotFound."""
        stored = (await self.record()).progress
        return None if stored is None else decode_progress(stored, job=self.id)

    async def log(self) -> tuple[str, ...]:
        """Answer the lines of the job's own log, the oldest first, the newest 100. Raises: JobNotFound."""
        return tuple(decode_log_line(line, job=self.id) for line in (await self.record()).log)

    async def errors(self) -> tuple[Failure, ...]:
        """Answer what the kept attempts failed with, the oldest first, at most 100. Raises: JobNotFound."""
        record = await self.record()
        kept = [(past.number, past.error) for past in record.history if past.error is not None]
        return tuple(self._failure(record.task, number, error) for number, error in kept)

    async def history(self, cursor: str | None = None, limit: int = 100) -> HistoryPage:
        """Answer a page of what happened to the job: events, progress and log lines, the oldest first.

        Empty unless the task or the enqueue says `history=N`: then the newest N are kept with the record.

        Args:
            cursor: of the page before; None begins with the oldest entry kept.
            limit: entries on the page, 1 to 1,000.

        Raises: JobNotFound; InvalidSetting, InvalidCursor for one that no page of this job gave.
        """
        whole("limit", limit, range(1, TRAIL_PAGE + 1))
        backend = (await self._connections.here()).backend
        page = await backend.trail(self.queue, self.id, self.generation, cursor, limit)
        if page is None:
            await self.record()  # says why there is none
            raise JobNotFound(f"no {self}: its record has just gone")
        return history_page(page, job=self.id)

    async def cancel(self) -> CancelAnswer:
        """Cancel: `cancelled` (it never starts), `cancelling` (it runs) or `finished` (too late).

        Raises: JobNotFound.
        """
        backend = (await self._connections.here()).backend
        (answer,) = await backend.cancel(self.queue, [self.id], self.generation)
        if answer is not CancelAnswer.NOT_FOUND:
            return answer
        if self.generation is not None and await self._newest() is not None:
            return CancelAnswer.FINISHED  # only an ended life is replaced by another
        raise JobNotFound(f"no {self}: there is nothing to cancel")

    async def result(self, timeout: Seconds | None = None, *, allow_wait: bool = False) -> R:
        """Wait for the end of this life of the job and answer the task's value.

        Args:
            timeout: seconds or timedelta; 0 looks once; None waits for ever. It is the waiter's own
                and does not touch the job.
            allow_wait: wait even inside a running job, whose slot is taken meanwhile: if every slot
                waits so, nothing is left to run what they wait for.

        Raises: JobFailed, JobCancelled, JobExpired, ResultExpired, JobNotFound, WaitTimeout; WouldDeadlock.
        A declared error (`raises=`) is JobFailed's `error` and its cause.
        """
        if not allow_wait:
            check_may_wait(str(self))
        timeout_ms = None if timeout is None else seconds_to_ms(timeout, "timeout")
        generation = self.generation
        if generation is None or timeout_ms == 0:
            newest = await self._kept(generation)
            if not isinstance(newest, JobRecord) or newest.state.is_terminal:
                return self._outcome(newest, generation)
            if generation not in (None, newest.ref.generation):
                return self._outcome(newest, generation)
            generation = newest.ref.generation
        if timeout_ms == 0:
            raise WaitTimeout(f"{self} has not ended", job=self)
        ends = (await self._connections.here()).ends
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                found = await ends.ended(Ref(queue=self.queue, id=self.id, generation=generation))
        except TimeoutError as error:
            within = "" if timeout_ms is None else f" within {timeout_ms / 1_000:g} s"
            raise WaitTimeout(f"{self} has not ended{within}; it goes on", job=self) from error
        return self._outcome(found, generation)

    async def watch(
        self, cursor: str | None = None, timeout: Seconds | None = None, *, allow_wait: bool = False
    ) -> AsyncGenerator[JobEvent, None]:
        """Answer what happens to this life of the job: first the events that are kept, then live, to its end.

        A job that is over has its last event too, made from its record if it is not kept any more. What
        comes after the end (a removal) is not told. Survives an outage of the backend.

        Args:
            cursor: goes on after the event that had it; None begins with the first that is kept.
            timeout: seconds or timedelta in all; 0 takes what is kept; None waits for ever.
            allow_wait: wait even inside a running job, as for `result`.

        Raises: JobNotFound, WaitTimeout, InvalidCursor, WouldDeadlock; CursorExpired if events after the
            cursor, or after the reader who fell behind, were trimmed.
        """
        if not allow_wait:
            check_may_wait(str(self))
        timeout_ms = None if timeout is None else seconds_to_ms(timeout, "timeout")
        patience = Patience.of(timeout_ms)
        ref = Ref(queue=self.queue, id=self.id, generation=self.generation or 0)
        connection = await self._connections.here()
        story = watched(connection, ref, name=str(self), cursor=cursor, patience=patience)
        async with aclosing(story):
            async for event in story:
                yield event

    def state_sync(self) -> State:
        """See `state`; for callers without an event loop."""
        return self._connections.call(self.state, "job.state()")

    def record_sync(self) -> JobRecord:
        """See `record`; for callers without an event loop."""
        return self._connections.call(self.record, "job.record()")

    def why_sync(self, *, elsewhere: bool = True) -> Sequence[Reason]:
        """See `why`; for callers without an event loop."""
        return self._connections.call(lambda: self.why(elsewhere=elsewhere), "job.why()")

    def progress_sync(self) -> Progress | None:
        """See `progress`; for callers without an event loop."""
        return self._connections.call(self.progress, "job.progress()")

    def log_sync(self) -> tuple[str, ...]:
        """See `log`; for callers without an event loop."""
        return self._connections.call(self.log, "job.log()")

    def errors_sync(self) -> tuple[Failure, ...]:
        """See `errors`; for callers without an event loop."""
        return self._connections.call(self.errors, "job.errors()")

    def history_sync(self, cursor: str | None = None, limit: int = 100) -> HistoryPage:
        """See `history`; for callers without an event loop."""
        return self._connections.call(lambda: self.history(cursor, limit), "job.history(...)")

    def cancel_sync(self) -> CancelAnswer:
        """See `cancel`; for callers without an event loop."""
        return self._connections.call(self.cancel, "job.cancel()")

    def result_sync(self, timeout: Seconds | None = None, *, allow_wait: bool = False) -> R:
        """See `result`; for callers without an event loop."""
        if not allow_wait:
            check_may_wait(str(self))
        return self._connections.call(lambda: self.result(timeout, allow_wait=True), "job.result()")

    def watch_sync(
        self, cursor: str | None = None, timeout: Seconds | None = None, *, allow_wait: bool = False
    ) -> Iterator[JobEvent]:
        """See `watch`; for callers without an event loop."""
        if not allow_wait:
            check_may_wait(str(self))
        return self._connections.iterate(
            lambda: self.watch(cursor, timeout, allow_wait=True), "job.watch()", at_once=1
        )

    def __str__(self) -> str:
        life = "" if self.generation is None else f" (generation {self.generation})"
        return f"job {shown(self.id)} in queue {shown(self.queue)}{life}"

    async def _newest(self) -> JobRecord | None:
        backend = (await self._connections.here()).backend
        (record,) = await backend.get(self.queue, [self.id])
        return record

    async def _kept(self, generation: int | None) -> JobRecord | Slip | None:
        """Answer the record of this life or of the newest, else its result, else what has the id now."""
        backend = (await self._connections.here()).backend
        (record,) = await backend.get(self.queue, [self.id])
        if record is not None and generation in (None, record.ref.generation):
            return record
        (slip,) = await backend.slips(self.queue, [(self.id, generation or 0)])
        return record if slip is None else slip

    def _outcome(self, found: JobRecord | Slip | None, generation: int | None) -> R:
        """Answer the value of a job that is over, or raise what it is instead."""
        if isinstance(found, Slip):
            return self._reading.value(found.task, found.result, self.id)
        if found is None:
            if generation is None:
                raise JobNotFound(f"no {self}: it was never enqueued here, or its record is no longer kept")
            raise ResultExpired(f"the result of {self} is gone: its record is no longer kept")
        if generation not in (None, found.ref.generation):
            raise ResultExpired(
                f"the result of {self} is gone: the id is now at generation {found.ref.generation}"
            )
        if found.state is not State.COMPLETED:
            self._raise_end(found)
        if found.result is None:
            raise ResultExpired(f"{self} completed, but its result is no longer kept")
        return self._reading.value(found.task, found.result, self.id)

    def _raise_end(self, record: JobRecord) -> NoReturn:
        match record.state:
            case State.CANCELLED:
                raise JobCancelled(f"{self} was cancelled")
            case State.EXPIRED:
                raise JobExpired(f"{self} was not started within its time to live")
            case _:
                failed = self._failed(record)
                raise failed from failed.error

    def _failed(self, record: JobRecord) -> JobFailed:
        reason = record.reason or "error"
        if record.error is None:
            return JobFailed(
                f"{self} failed, reason {reason}, after {many(record.attempts, 'attempt')} "
                f"and {many(record.stalls, 'stall')}",
                error_type=reason,
                error_message="",
                traceback="",
            )
        failure = self._failure(record.task, record.attempts, record.error)
        return JobFailed(
            f"{self} failed, reason {reason}, after {many(record.attempts, 'attempt')}: "
            f"{failure.error_type}: {failure.error_message}",
            error_type=failure.error_type,
            error_message=failure.error_message,
            traceback=failure.traceback,
            error=failure.error,
        )

    def _failure(self, task: str, attempt: int, stored: bytes) -> Failure:
        error = decode_error(stored, job=self.id)
        return Failure(
            attempt=attempt,
            error_type=error.type,
            error_message=error.message,
            traceback=error.traceback,
            error=self._reading.error(task, error),
        )


def check_may_wait(what: str) -> None:
    """Raise WouldDeadlock inside a running job, which would hold its slot while it waits for `what`."""
    waiter = running_job.get()
    if waiter is not None:
        raise WouldDeadlock(
            f"job {shown(waiter.id)} waits for {what} inside its function, and holds a slot meanwhile; "
            "enqueue what comes after instead, or say job.result(allow_wait=True)"
        )


def ref_of_plain(plain: Mapping[str, object]) -> tuple[str, str, int | None]:
    """Answer queue, id and generation of a handle that was stored as plain data. Raises: Refused."""
    if not isinstance(plain, Mapping):
        raise Refused(f"{plain!r} is no handle: it needs the mapping that job.to_plain() gave")
    queue, id_, generation = plain.get("queue"), plain.get("id"), plain.get("generation")
    if not isinstance(queue, str) or not isinstance(id_, str):
        raise Refused(f"{dict(plain)!r} is no handle: it needs the texts queue and id, as in job.to_plain()")
    if generation is not None and (type(generation) is not int or generation < 1):
        raise Refused(f"{dict(plain)!r} is no handle: generation is a whole number from 1")
    return check_queue(queue), check_job_id(id_), generation
