"""The contract's other half: what operators and handles do to stored jobs, and what they can read.

The rules on top of `leasemq.backend` hold here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leasemq.protocol.insight import (
    CancelAnswer,
    Changed,
    Counts,
    EventPage,
    Filter,
    JobRecord,
    Page,
    Schedule,
    Slip,
    TrailPage,
    WorkerInfo,
)
from leasemq.protocol.model import (
    NOT_STARTED,
    Enqueued,
    Fence,
    NewJob,
    Renewal,
    Settled,
    Settlement,
    State,
)
from leasemq.protocol.standing import Standing

ANY_STATE = frozenset(State)


class Joined(Protocol):
    """An open transaction to enqueue and settle in: its commit makes all of it true, or nothing.

    Where the session blocks (not `is_async`) no call suspends, so that who has no loop can drive it. A call
    that raises leaves nothing behind in the transaction; PostgreSQL then takes nothing but a rollback.
    """

    is_async: bool
    session: object  # what its owner writes with
    locked_store: str | None  # the id of the store in which nobody else can write until the end, if so

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`. Raises: InvalidSession."""

    async def check(self, queue: str, job_id: str, fence: Fence) -> Renewal:
        """Compare the fence, and lock the job: until the transaction ends nobody else changes its state.

        It waits for transactions that have it locked. Changes nothing; a stale fence is not noted.
        """

    async def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Work.settle`."""

    async def commit(self) -> None:
        """Make it true. Raises: BackendUnavailable (nothing of it is), IndeterminateWrite (all may be)."""

    async def roll_back(self) -> bool:
        """Undo it, whatever happened; answers whether its connection still works."""


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

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None = None
    ) -> Sequence[Changed]:
        """Make scheduled or waiting jobs due in `delay_ms`, or at an instant, which wins; past means now."""

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """Start a new run of failed, expired or cancelled jobs.

        Id, payload, checkpoint and history stay; counters and ttl start afresh. A parent whose end failed
        the job is forgotten; with others left open it is blocked again, and they are told of it anew.
        The unique key is taken again, or answered `conflict` with its holder. Repeated with the same
        request id it answers `done` and changes nothing.
        """

    async def remove(
        self, queue: str, ids: Sequence[str], *, force: bool, states: frozenset[State] = ANY_STATE
    ) -> Sequence[Changed]:
        """Delete jobs and all that is stored under their ids; active ones only with `force`.

        One that is found in another state than `states` is answered `illegal` and left alone. Of an id
        without a record, results that outlived theirs are deleted, as a completed job.
        """

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> int:
        """Delete up to `limit` jobs that have not started and are in `states`; answers how many.

        Blocked ones go first, then scheduled ones by due time, then waiting ones in the order of claims.
        """

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """Delete up to `limit` jobs that ended in `states` at least `older_than_ms` ago; answers how many.

        As by `remove` and `drain`, results of earlier lives of their ids go too.
        """

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

    async def slips(self, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
        """Answer results that outlived their record, by id and generation (0: the newest kept).

        A result due to be kept leaves a slip in the very step in which retention or `reuse` takes the
        completed record. An operator's removal leaves none, and takes those of the id along.
        """

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """Answer jobs that match, by acceptance, in pages of at most 1,000, and 1 MiB of values."""

    async def counts(self, queue: str) -> Counts:
        """Answer stored counts; never reads all jobs. An unknown queue has zeros."""

    async def standing(self, queue: str, id_: str) -> Standing | None:
        """Answer how the newest life of an id stands, or the job that it was merged into; in one snapshot.

        A claimable job is taken by a claim of more than `ahead`. None: there is no record.
        """

    async def queues(self) -> Sequence[str]:
        """Answer the names of all queues that ever accepted a job or are paused, sorted by bytes."""

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """Answer events after `cursor`: "" the earliest kept, "0" the first; None: only the newest cursor.

        Raises:
            CursorExpired: events after it were trimmed, or it is beyond the newest, which a restored backend
                no longer has; carries the earliest cursor left.
        """

    async def trail(
        self, queue: str, id_: str, generation: int | None, cursor: str | None, limit: int
    ) -> TrailPage | None:
        """Answer a job's own trail, oldest first, in pages of at most 1,000, and 1 MiB of values.

        Every event of the job but its removal, and every progress and log note, in one order; the newest
        `NewJob.trail` of them are kept, as long as the record is. None: there is no record of that life.

        Raises: InvalidCursor for one that no page of this life has given.
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
