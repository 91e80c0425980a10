"""One attempt while this process holds its lease: what is known of it, and what was decided about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Any, Protocol

import msgspec

from leasemq.context import Ctx, Provider
from leasemq.errors import HandlerTimeout, IllegalMove, LeaseLost, SyncInsideLoop, WouldDeadlock
from leasemq.protocol.model import Lease, NewJob, Note, Noted, NoteKind
from leasemq.protocol.names import shown
from leasemq.protocol.retry import Retry
from leasemq.worker.routine import Routine
from leasemq.worker.settler import Ending

WriteNote = Callable[["Attempt", Note], Coroutine[object, object, Noted]]


class Transacting(Protocol):
    """Opens the transactions of attempts."""

    def in_loop(self, attempt: Attempt, session: object) -> AbstractAsyncContextManager[Any]:
        """See `Ctx.transaction`."""

    def in_thread(self, attempt: Attempt, session: object) -> AbstractContextManager[Any]:
        """See `Ctx.transaction_sync`."""


class Block(Protocol):
    """A transaction that is open."""

    def complete(self, value: object) -> None:
        """Say with which value the job is completed at its end."""


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """One claim of one job. Owner: the worker, in its loop; a function's thread only reads the flags.

    Its own transaction, in the function's thread if it has one, sets `block`, `completed` and `interrupted`.
    """

    lease: Lease
    routine: Routine
    serial: int
    loop: asyncio.AbstractEventLoop
    write_note: WriteNote
    transactions: Transacting
    retry: Retry | None
    timeout_ms: int | None
    cancel_requested: bool
    task: asyncio.Task[object] | None = None
    on_stop: Callable[[], None] | None = None  # set by an executor that stops a function its own way
    started: bool = False  # its function may have been entered
    is_over: bool = False  # its slot was given back
    notes: int = 0  # how many were made: each has its number, by which a repeat is known
    lost: bool = False  # nothing may be reported for it
    interrupted: bool = False  # we end it: shutdown, or a lease that could not be renewed
    timed_out: bool = False  # it was told so
    is_late: Callable[[], bool] | None = None  # whether its time is over, told or not
    block: Block | None = None  # its own transaction, while it is open
    finishing: asyncio.Task[None] | None = None  # what commits it, or rolls it back
    completed: Ending | None = None  # by its transaction, so that nothing else may be reported

    @property
    def is_told_to_stop(self) -> bool:
        """Whether its function should end now. Read from any thread."""
        return self.lost or self.cancel_requested or self.interrupted or self.timed_out or self.is_over

    @property
    def is_out_of_time(self) -> bool:
        """Whether its function ran too long; one that blocks the loop ends before it can be told."""
        return self.timed_out or (self.is_late is not None and self.is_late())

    def context(self, provider: Provider | None = None) -> Ctx:
        """Make what the function sees of its job."""
        return Ctx(self.lease, self, provider)

    def check_counts(self) -> None:
        """Raise where what the function returns will not count, so that its clean-ups see why."""
        if self.lost:
            raise LeaseLost(f"attempt {self.lease.attempts} of job {shown(self.lease.ref.id)} lost its lease")
        if self.is_out_of_time:
            self.timed_out = True
            raise HandlerTimeout(f"task {self.routine.name} ran longer than its timeout")

    async def write(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Record something about the job under its fence; returns when it is stored. Raises: LeaseLost."""
        if asyncio.get_running_loop() is not self.loop:  # a function in a thread may run a loop of its own
            writing = self.write(kind, value, queue=queue, child=child)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(writing, self.loop))
            return
        lease = self.lease
        if self.block is not None:
            raise WouldDeadlock(
                f"the {kind.value} of job {shown(lease.ref.id)} would wait for its own transaction: record "
                "it before or after; a job is enqueued inside with task.options(session=...)"
            )
        if not (self.lost or self.is_over or self.completed is not None):
            self.notes += 1  # and into its lane at once, so that they are written in this order
            note = Note(
                job_id=lease.ref.id,
                fence=lease.fence,
                kind=kind,
                value=value,
                queue=queue,
                child=child,
                number=self.notes,
            )
            if await self.write_note(self, note) is Noted.HELD:
                return
        raise self._lost(kind)

    def write_from_thread(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Like `write`, from the function's thread; blocks until it is stored. Raises: SyncInsideLoop."""
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is self.loop:
                verb = "enqueue" if kind is NoteKind.OFFER else kind.value
                raise SyncInsideLoop(
                    f"ctx.{verb}_sync() would block the loop that has to write it; await ctx.{verb}() instead"
                )
        if self.loop.is_closed():  # the worker has ended, and left this function behind
            raise self._lost(kind)
        writing = self.write(kind, value, queue=queue, child=child)
        asyncio.run_coroutine_threadsafe(writing, self.loop).result()

    def transaction(self, session: object) -> AbstractAsyncContextManager[Any]:
        """See `Ctx.transaction`."""
        return self.transactions.in_loop(self, session)

    def transaction_in_thread(self, session: object) -> AbstractContextManager[Any]:
        """See `Ctx.transaction_sync`."""
        return self.transactions.in_thread(self, session)

    def complete(self, value: object) -> None:
        """See `Ctx.complete`."""
        if self.block is None:
            raise IllegalMove(
                f"job {shown(self.lease.ref.id)} is in no transaction; say ctx.complete(...) inside of "
                "`async with ctx.transaction():`, or return the value"
            )
        self.block.complete(value)

    def _lost(self, kind: NoteKind) -> LeaseLost:
        return LeaseLost(
            f"attempt {self.lease.attempts} of job {shown(self.lease.ref.id)} no longer owns it, so its "
            f"{kind.value} was not recorded; stop, another attempt may be running"
        )
