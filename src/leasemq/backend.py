"""The contract that every backend keeps: what callers may rely on, written once, without code.

Rules that hold for every operation:

* Everything is a batch of one queue; answers come in the order of what was asked.
* Each operation is one atomic step per job, and its rules are comparisons in the write itself.
* Time is the backend's own clock. Operations take durations; nothing compares a caller's clock.
* Names, priorities, durations and limits are checked (`protocol/checks.py`) before anything is written.
* Ordinary outcomes are values. The only errors are `BackendUnavailable` (it did not happen),
  `IndeterminateWrite` (it may have), `CorruptRecord`, and refusals of a bad argument.
* An operation under way is not undone by cancelling its caller.
* A record past its retention exists until `prune` takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from leasemq.protocol.insight import (
    CancelAnswer,
    Capabilities,
    Changed,
    Counts,
    EventPage,
    Filter,
    JobRecord,
    Page,
    Schedule,
    WorkerInfo,
)
from leasemq.protocol.model import (
    Advanced,
    Attached,
    Claimant,
    Claimed,
    Enqueued,
    Fence,
    FollowUp,
    Lease,
    NewJob,
    Note,
    Noted,
    OnParentFailure,
    Ref,
    Renewal,
    Settled,
    Settlement,
    State,
    Wake,
)


class Renewer(Protocol):
    """Renews leases from the keeper's own thread, on a connection of its own. Synchronous."""

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """Push each lease's deadline to now + `lease_ms`; same order as `held`.

        Compares state, number and nonce, never the deadline: an expired lease that nobody took is
        held again. A lost one is noted on the job (newest 20) and nothing else about it changes.
        """

    def close(self) -> None:
        """Give the connection back."""


class Listener(Protocol):
    """Hears what happens in some queues from its opening on, so nothing between two waits is lost."""

    def interest(self, refs: Iterable[Ref]) -> None:
        """Hear of these jobs' ends. Ends that nobody has an interest in cost no push."""

    def forget(self, refs: Iterable[Ref]) -> None:
        """Hear of these jobs' ends no more."""

    async def wait(self, timeout_ms: int) -> Wake:
        """Return what was heard since the last wait, at once if anything was; empty after `timeout_ms`.

        Hints only: a wake may name a queue that is empty, and a push may be lost.
        """


class Joined(Protocol):
    """Enqueue and settle inside a transaction that the caller opened and will commit or roll back."""

    def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Backend.enqueue`; it takes effect with the caller's commit."""

    def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Backend.settle`; it takes effect with the caller's commit."""


class Work(Protocol):
    """What producers, workers and sweeps need."""

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """Store the jobs in this order; durable when it returns, to the backend's class.

        Per job, first match wins: the id is known and its state is not in `reuse`, or the record carries
        this very `request` → existing (an id that was merged into another job stands for that job, until
        `reuse` lets it go its own way; a record of its own from before counts then); the unique key is
        held → by its mode; else created, under the next generation of the id.
        With open parents it is blocked, with a due time ahead scheduled, else waiting.
        Repeating the call answers `existing` for what was stored: nothing is doubled.
        """

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """Take up to `limit` waiting jobs, by priority, then in the order in which they became waiting.

        Jobs past their ttl are never handed out; at most `limit` of them are expired on the way, before
        the jobs are picked, and the rest are passed over.
        Each lease gets a fence: number = the larger of last + 1 and now × 1,000; nonce = the request
        id. A repeat, while any lease of that nonce is active, gets those and no others. `limit` 0
        takes nothing and answers the rest. A claim that came back short says when the first running
        lease of the queue can end, so that an idle worker recovers it right then.

        Suspects wait apart: with `takes_suspect` one of them, alone, comes before all others;
        without, one claiming incarnation at a time is told `suspect_waits`, for one lease.
        """

    async def claimed_by(self, queue: str, incarnation: str) -> Sequence[Lease]:
        """Answer the active leases of one life of a worker, oldest first."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """End attempts. Compared in this order, in one atomic step each:

        no record of that generation → gone · an attempt ended by this settlement's id → replayed · not
        active, or number or nonce differ → lost (noted for a holder, newest 20) · by a sweep while the
        lease runs → held · cancellation requested and not `seen_cancel` → cancel_requested · else
        everything is written → applied: state, counters, result, error, freed unique key, history,
        event, and for a terminal state the follow-ups of its dependants.
        """

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        """Settle, then claim, in one step. Only with the capability `exchange`."""

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """Record progress, log lines, checkpoints and offered children while the fence is the newest.

        An offer becomes a follow-up of this queue, so a child is enqueued only for a live attempt.
        """

    async def advance(self, queue: str, limit: int) -> Advanced:
        """Expire up to `limit` jobs past their ttl, then make up to `limit` due ones waiting.

        A job takes its place in the order when it becomes waiting; due ones by due time.
        """

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """Answer up to `limit` leases past their deadline, oldest first. Reads only."""

    async def prune(self, queue: str, limit: int) -> int:
        """Remove up to `limit` terminal records past their retention, and results and events past theirs.

        Answers how many records were removed.
        """

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """Answer up to `limit` follow-ups, oldest first. Reads only."""

    async def outbox_done(self, queue: str, ids: Sequence[int]) -> None:
        """Forget follow-ups that were carried out; unknown ones are ignored."""

    async def attach(self, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
        """Tell a parent of a dependant; its end will then make a follow-up. Repeats change nothing."""

    async def resolve(self, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
        """Tell a blocked job that a parent no longer blocks it, or (not `passes`) that it can never run.

        With no parent left open it becomes waiting or scheduled; not passing ends it as failed with
        reason `parent`. Answers whether anything changed; a repeat changes nothing.
        """

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[Listener]:
        """Open a listener; cheap enough to keep one per worker and one per app."""

    def renewer(self) -> Renewer:
        """Make a renewer for one thread."""

    def joined(self, session: object) -> Joined:
        """Enqueue and settle on the caller's open transaction. Only with the capability `transactions`."""


class Control(Protocol):
    """What operators and handles do: each move is conditional, in the write, on the state it finds."""

    async def cancel(
        self, queue: str, ids: Sequence[str], generation: int | None = None
    ) -> Sequence[CancelAnswer]:
        """Cancel: scheduled, waiting and blocked end at once; active ones are marked, durably.

        With a `generation`, a job that has another one is answered `not_found` and left alone.
        """

    async def pause(self, queue: str) -> None:
        """Stop claims of this queue in every process; running jobs go on, delayed ones become due."""

    async def resume(self, queue: str) -> None:
        """Undo `pause` and wake the listeners."""

    async def promote(self, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
        """Make scheduled jobs waiting now."""

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
        """Change the priority of jobs that have not started; their place within it is their age."""

    async def reschedule(self, queue: str, ids: Sequence[str], delay_ms: int) -> Sequence[Changed]:
        """Make scheduled or waiting jobs due in `delay_ms`; 0 means now."""

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """Start a new run of failed, expired or cancelled jobs.

        Id, payload, checkpoint and history stay; counters and ttl start afresh. A parent whose end failed
        the job is forgotten; with others left open it is blocked again, and they are told of it anew.
        The unique key is taken again, or answered `conflict` with its holder. Repeated with the same
        request id it answers `done` and changes nothing.
        """

    async def remove(self, queue: str, ids: Sequence[str], *, force: bool) -> Sequence[Changed]:
        """Delete jobs and all that is stored with them; active ones only with `force`."""

    async def drain(self, queue: str, limit: int) -> int:
        """Delete up to `limit` jobs that have not started (waiting, scheduled, blocked); answers how many."""

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """Delete up to `limit` jobs that ended in `states` at least `older_than_ms` ago; answers how many."""

    async def obliterate(self, queue: str, *, force: bool) -> int | None:
        """Delete every job of the queue; answers how many. Repeatable, and cut short it is partly done.

        None: refused, jobs are active and `force` was not given. What is accepted meanwhile stays.
        """


class Insight(Protocol):
    """What can be read. None of it changes anything."""

    async def now_ms(self) -> int:
        """Answer the backend's clock, for display."""

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """Answer the records; None where there is none."""

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """Answer jobs that match, newest accepted first, in pages of at most 1,000, and 1 MiB of values."""

    async def counts(self, queue: str) -> Counts:
        """Answer stored counts; never reads all jobs. An unknown queue has zeros."""

    async def queues(self) -> Sequence[str]:
        """Answer the names of all queues that ever accepted a job or are paused, sorted by bytes."""

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """Answer events after `cursor` ("" the earliest kept; None: none, but the newest cursor).

        Raises:
            CursorExpired: events after it were trimmed; carries the earliest cursor left.
        """

    async def announce(self, worker: WorkerInfo, ttl_ms: int) -> None:
        """Show this life of a worker in `workers` until `ttl_ms` from now."""

    async def retire(self, incarnation: str) -> None:
        """Take a life of a worker out of `workers`."""

    async def workers(self) -> Sequence[WorkerInfo]:
        """Answer the workers whose announcement is still good, by name, then incarnation."""


class Schedules(Protocol):
    """Schedules as data."""

    async def put_schedule(self, schedule: Schedule) -> None:
        """Create or replace by name; a replacement keeps the later of the two cursors."""

    async def delete_schedule(self, name: str) -> bool:
        """Delete; answers whether there was one."""

    async def schedules(self) -> Sequence[Schedule]:
        """Answer all, by name."""

    async def advance_schedule(
        self, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
    ) -> Sequence[Enqueued] | None:
        """Store the ticks' jobs and move the cursor in one step. None: paused, gone, or the cursor moved."""


class Backend(Work, Control, Insight, Schedules, Protocol):
    """The whole contract."""

    async def prepare(self) -> Capabilities:
        """Create or upgrade what is needed. Repeatable, and safe from many processes at once."""

    async def close(self) -> None:
        """Finish what is under way and give everything back. Repeatable."""
