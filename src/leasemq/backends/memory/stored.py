"""One stored job and its attempts, as the mutable objects that a shelf owns."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

import msgspec

from leasemq.protocol.insight import Attempt, EventKind, JobRecord, RefusedWrite, TrailEntry
from leasemq.protocol.model import (
    HISTORY_LIMIT,
    REFUSED_LIMIT,
    Fence,
    Keep,
    Lease,
    NewJob,
    NoteKind,
    OnParentFailure,
    Outcome,
    Parent,
    Ref,
    State,
    Unique,
)

NEVER_CLAIMED = Fence(number=0, nonce="")
T = TypeVar("T")


class Past(msgspec.Struct, kw_only=True, eq=False):
    """One attempt. Owner: its job."""

    number: int
    worker: str
    incarnation: str
    fence: Fence
    claimed_ms: int
    renewed_ms: int
    replay: bool
    ended_ms: int | None = None
    outcome: Outcome | None = None
    error: bytes | None = None
    settled_by: int | None = None

    def attempt(self) -> Attempt:
        """Answer it as a value."""
        return Attempt(
            number=self.number,
            worker=self.worker,
            incarnation=self.incarnation,
            fence=self.fence.number,
            claimed_ms=self.claimed_ms,
            renewed_ms=self.renewed_ms,
            ended_ms=self.ended_ms,
            outcome=self.outcome,
            error=self.error,
            replay=self.replay,
        )


class Stored(msgspec.Struct, kw_only=True, eq=False):
    """One job. Owner: its shelf."""

    ref: Ref
    accepted: int  # order of acceptance in the queue
    task: str
    payload: bytes
    priority: int
    max_stalls: int
    keep: Keep
    unique: Unique | None
    creator: Ref | None
    request: int
    overrides: bytes
    headers: bytes
    ttl_ms: int | None
    created_ms: int
    due_ms: int
    expires_ms: int | None
    state: State | None = None  # None until first placed
    born: str = ""
    order: int = 0  # order in which it became waiting or scheduled
    since_ms: int = 0  # when it entered its state
    attempts: int = 0
    failures: int = 0
    stalls: int = 0
    suspect: bool = False
    cancel_requested: bool = False
    fence: Fence = NEVER_CLAIMED
    incarnation: str = ""
    lease_until_ms: int | None = None
    ended_ms: int | None = None
    keep_until_ms: int | None = None
    result: bytes | None = None
    result_until_ms: int | None = None
    error: bytes | None = None
    reason: str | None = None
    progress: bytes | None = None
    checkpoint: bytes | None = None
    open_parents: dict[tuple[str, str], OnParentFailure] = {}
    dependants: dict[Ref, OnParentFailure] = {}
    aliases: list[str] = []  # ids merged into this job
    replays: int = 0
    replay_request: int | None = None
    replay_starts: bool = False  # the next attempt is the first after a replay
    history: list[Past] = []  # this and the next two by `keep_newest` only
    refused: list[RefusedWrite] = []
    refused_count: int = 0
    log: list[bytes] = []
    noted: int = 0  # the number of the newest attempt's last note
    trail: deque[TrailEntry] | None = None  # most jobs keep none, and an empty one takes 600 bytes
    trail_number: int = 0

    @classmethod
    def new(cls, job: NewJob, ref: Ref, accepted: int, now: int, last_fence: int) -> Stored:
        """Make a job that is not placed yet; `last_fence` is that of the id's last generation."""
        due = now + job.delay_ms if job.due_at_ms is None else job.due_at_ms
        return cls(
            ref=ref,
            accepted=accepted,
            task=job.task,
            payload=job.payload,
            priority=job.priority,
            max_stalls=job.max_stalls,
            keep=job.keep,
            unique=job.unique,
            creator=job.creator,
            request=job.request,
            overrides=job.overrides,
            headers=job.headers,
            ttl_ms=job.ttl_ms,
            created_ms=now,
            due_ms=max(due, now),
            expires_ms=None if job.ttl_ms is None else now + job.ttl_ms,
            fence=Fence(number=last_fence, nonce=""),
            open_parents={(p.queue, p.id): p.on_failure for p in job.parents},
            trail=deque(maxlen=job.trail) if job.trail else None,
        )

    def is_held_by(self, fence: Fence) -> bool:
        """Whether this fence is the newest and the job is active."""
        return self.state is State.ACTIVE and self.fence == fence

    @property
    def prune_ms(self) -> int:
        """When pruning has something to take of an ended job: its result, or all of it."""
        assert self.keep_until_ms is not None
        if self.result is None or self.result_until_ms is None:
            return self.keep_until_ms
        return min(self.result_until_ms, self.keep_until_ms)

    def is_overdue(self, now: int) -> bool:
        """Whether it was not started within its ttl."""
        is_pending = self.state in (State.SCHEDULED, State.WAITING, State.BLOCKED)
        return is_pending and self.expires_ms is not None and self.expires_ms <= now

    def was_ended_by(self, settlement_id: int) -> bool:
        """Whether this very settlement ended one of the kept attempts."""
        return any(past.settled_by == settlement_id for past in self.history)

    def trace(self, now: int, kind: EventKind | NoteKind, value: bytes | None = None) -> None:
        """Add an entry to the trail, if it keeps one. A record that is gone has none."""
        if self.trail is not None and self.state is not None:
            self.trail_number += 1
            self.trail.append(
                TrailEntry(
                    number=self.trail_number,
                    at_ms=now,
                    attempt=self.attempts,
                    kind=kind,
                    state=self.state,
                    value=value,
                )
            )

    def refuse(self, now: int, fence: Fence, write: str) -> None:
        """Note a stale write: all that it changes."""
        keep_newest(self.refused, RefusedWrite(at_ms=now, fence=fence.number, write=write), REFUSED_LIMIT)
        self.refused_count += 1

    def lease(self) -> Lease:
        """Answer the lease of an active job."""
        assert self.lease_until_ms is not None
        return Lease(
            ref=self.ref,
            fence=self.fence,
            task=self.task,
            payload=self.payload,
            attempts=self.attempts,
            failures=self.failures,
            stalls=self.stalls,
            max_stalls=self.max_stalls,
            keep=self.keep,
            created_ms=self.created_ms,
            lease_until_ms=self.lease_until_ms,
            incarnation=self.incarnation,
            suspect=self.suspect,
            cancel_requested=self.cancel_requested,
            checkpoint=self.checkpoint,
            overrides=self.overrides,
            headers=self.headers,
        )

    def record(self, now: int) -> JobRecord:
        """Answer everything, a result only while it is kept."""
        assert self.state is not None
        is_kept = self.result_until_ms is None or self.result_until_ms > now
        return JobRecord(
            ref=self.ref,
            task=self.task,
            payload=self.payload,
            state=self.state,
            priority=self.priority,
            created_ms=self.created_ms,
            due_ms=self.due_ms,
            expires_ms=self.expires_ms,
            attempts=self.attempts,
            failures=self.failures,
            stalls=self.stalls,
            max_stalls=self.max_stalls,
            suspect=self.suspect,
            cancel_requested=self.cancel_requested,
            fence=self.fence.number,
            lease_until_ms=self.lease_until_ms,
            ended_ms=self.ended_ms,
            keep_until_ms=self.keep_until_ms,
            result=self.result if is_kept else None,
            result_until_ms=self.result_until_ms,
            error=self.error,
            reason=self.reason,
            progress=self.progress,
            checkpoint=self.checkpoint,
            keep=self.keep,
            unique=self.unique,
            open_parents=tuple(
                Parent(queue=queue, id=id_, on_failure=policy)
                for (queue, id_), policy in self.open_parents.items()
            ),
            creator=self.creator,
            replays=self.replays,
            overrides=self.overrides,
            headers=self.headers,
            history=tuple(past.attempt() for past in self.history),
            refused=tuple(self.refused),
            refused_count=self.refused_count,
            log=tuple(self.log),
            trail=0 if self.trail is None else self.trail.maxlen or 0,
            born=self.born,
        )


def keep_newest(entries: list[T], entry: T, limit: int = HISTORY_LIMIT) -> None:
    """Add an entry, and let the oldest go if there are too many. An empty deque takes 600 bytes a job."""
    entries.append(entry)
    if len(entries) > limit:
        del entries[0]
