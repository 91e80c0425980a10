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

from leasemq.operations import Control, Insight, Joined, Schedules
from leasemq.protocol.insight import EVENT_AGE_MS, RECORD_LIMIT, Capabilities
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

    def follow(self, queues: Iterable[str]) -> None:
        """Hear when events were added to these queues; a queue that nobody follows costs no push."""

    def unfollow(self, queues: Iterable[str]) -> None:
        """Hear of these queues' events no more."""

    async def wait(self, timeout_ms: int) -> Wake:
        """Return what was heard since the last wait, at once if anything was; empty after `timeout_ms`.

        Hints only: a wake may name a queue that is empty, and a push may be lost.
        """


class Work(Protocol):
    """What producers, workers and sweeps need."""

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """Store the jobs in this order; durable when it returns, to the backend's class.

        Per job, first match wins: the id is known and its state is not in `reuse`, or the record carries
        this very `request` → existing (an id that was merged into another job stands for that job, until
        `reuse` lets it go its own way; a record of its own from before counts then); the unique key is
        held (a holder past its ttl expires here and now, and holds it no more) → by its mode; else created,
        under the next generation of the id.
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

        An offer becomes a follow-up of this queue, so a child is enqueued only for a live attempt. A note
        whose number is not above the attempt's last one is a repeat: held, and nothing changes.
        """

    async def advance(self, queue: str, limit: int) -> Advanced:
        """Expire up to `limit` jobs past their ttl, then make up to `limit` due ones waiting.

        A job takes its place in the order when it becomes waiting; due ones by due time.
        """

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """Answer up to `limit` leases past their deadline, oldest first. Reads only."""

    async def prune(
        self, queue: str, limit: int, event_age_ms: int = EVENT_AGE_MS, newest: int = RECORD_LIMIT
    ) -> int:
        """Remove up to `limit` terminal records past their retention, and results and events past theirs.

        Then what is beyond the `newest` of each terminal state, the longest ended first and with their
        results; and beyond as many results without a record, the first to lapse first.
        Answers how many records and results it took; `limit` or more says that more may be left.
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
        """Join the caller's open transaction. Only with the capability `transactions`.

        Raises: InvalidSession for what is no session, or one of another kind of store.
        """

    def transaction(self, *, blocks: bool, idle_ms: int) -> AbstractAsyncContextManager[Joined]:
        """Open a transaction on a connection of its own, rolled back at its end unless it was committed.

        `blocks`: for a thread; nothing suspends. Where a server can, it ends one whose owner has been silent
        for `idle_ms`. Only with the capability `transactions`. Raises: BackendUnavailable.
        """


class Backend(Work, Control, Insight, Schedules, Protocol):
    """The whole contract."""

    async def prepare(self) -> Capabilities:
        """Create or upgrade what is needed. Repeatable, and safe from many processes at once."""

    async def close(self) -> None:
        """Finish what is under way and give everything back. Repeatable."""
