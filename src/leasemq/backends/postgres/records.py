"""Whole records of jobs, as records.sql answers them, and counts. See `Insight.get`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leasemq.backends.postgres.codes import OUTCOMES, STATES
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import Attempt, Counts, JobRecord, RefusedWrite
from leasemq.protocol.model import Keep, OnParentFailure, Parent, Ref, Unique, UniqueMode, UniqueUntil


class _Row(NamedTuple):
    """The columns of records.sql."""

    key: int
    id: str
    generation: int
    task: str
    payload: bytes
    state: int | None
    priority: int
    created_ms: int
    due_ms: int
    expires_ms: int | None
    attempts: int
    failures: int
    stalls: int
    max_stalls: int
    suspect: bool
    cancel_requested: bool
    fence: int
    lease_until_ms: int | None
    ended_ms: int | None
    keep_until_ms: int | None
    result: bytes | None
    result_until_ms: int | None
    error: bytes | None
    reason: str | None
    progress: bytes | None
    checkpoint: bytes | None
    keep_result_ms: int
    keep_record_ms: int
    keep_dead_ms: int
    unique_key: str | None
    unique_mode: str | None
    unique_until: str | None
    unique_window_ms: int | None
    creator_queue: str | None
    creator_id: str | None
    creator_generation: int | None
    replays: int
    overrides: bytes
    headers: bytes
    trail: int
    born: str
    past_numbers: list[int] | None
    past_workers: list[str]
    past_incarnations: list[str]
    past_fences: list[int]
    past_claimed: list[int]
    past_renewed: list[int]
    past_ended: list[int | None]
    past_outcomes: list[int | None]
    past_errors: list[bytes | None]
    past_replays: list[bool]
    refused_at: list[int] | None
    refused_fences: list[int]
    refused_writes: list[str]
    refused_count: int
    log: list[bytes] | None
    parent_queues: list[str] | None
    parent_ids: list[str]
    parent_policies: list[str]


async def get(store: Store, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
    """See `Insight.get`. Raises: CorruptRecord."""
    if not ids:
        return ()
    found = {row[1]: row for row in await store.call("get", store.now_ms, queue, list(ids))}
    answers: list[JobRecord | None] = []
    for job_id in ids:
        row = found.get(job_id)
        record = None if row is None else record_of(queue, row)
        if isinstance(record, CorruptRecord):
            raise record
        answers.append(record)
    return tuple(answers)


async def counts(store: Store, queue: str) -> Counts:
    """See `Insight.counts`."""
    rows = await store.call("counts", store.now_ms, queue)
    if not rows:
        return Counts(queue=queue)
    row = rows[0]
    return Counts(
        queue=queue,
        accepted=row[0],
        removed=row[1],
        scheduled=row[2],
        waiting=row[3],
        active=row[4],
        blocked=row[5],
        completed=row[6],
        failed=row[7],
        cancelled=row[8],
        expired=row[9],
        refused=row[10],
        stalls=row[11],
        releases=row[12],
        paused=row[13],
        oldest_waiting_ms=row[14],
    )


def record_of(queue: str, row: Row) -> JobRecord | CorruptRecord:
    """Answer the record that a row of records.sql tells of, or why it cannot be read."""
    stored = _Row._make(row)
    try:
        return _record(queue, stored)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return CorruptRecord(f"job {stored.id!r} in queue {queue!r} cannot be read: {error!r}")


def _record(queue: str, row: _Row) -> JobRecord:
    if row.state is None:
        raise ValueError("it is in no state")
    return JobRecord(
        ref=Ref(queue=queue, id=row.id, generation=row.generation),
        task=row.task,
        payload=row.payload,
        state=STATES[row.state],
        priority=row.priority,
        created_ms=row.created_ms,
        due_ms=row.due_ms,
        expires_ms=row.expires_ms,
        attempts=row.attempts,
        failures=row.failures,
        stalls=row.stalls,
        max_stalls=row.max_stalls,
        suspect=row.suspect,
        cancel_requested=row.cancel_requested,
        fence=row.fence,
        lease_until_ms=row.lease_until_ms,
        ended_ms=row.ended_ms,
        keep_until_ms=row.keep_until_ms,
        result=row.result,
        result_until_ms=row.result_until_ms,
        error=row.error,
        reason=row.reason,
        progress=row.progress,
        checkpoint=row.checkpoint,
        keep=Keep(result_ms=row.keep_result_ms, record_ms=row.keep_record_ms, dead_ms=row.keep_dead_ms),
        unique=_unique(row),
        open_parents=_parents(row),
        creator=_creator(row),
        replays=row.replays,
        overrides=row.overrides,
        headers=row.headers,
        history=_history(row),
        refused=_refused(row),
        refused_count=row.refused_count,
        log=tuple(row.log or ()),
        trail=row.trail,
        born=row.born,
    )


def _unique(row: _Row) -> Unique | None:
    if row.unique_key is None:
        return None
    return Unique(
        key=row.unique_key,
        mode=UniqueMode(row.unique_mode or ""),
        until=UniqueUntil(row.unique_until or ""),
        window_ms=row.unique_window_ms,
    )


def _parents(row: _Row) -> tuple[Parent, ...]:
    if row.parent_queues is None:
        return ()
    columns = zip(row.parent_queues, row.parent_ids, row.parent_policies, strict=True)
    return tuple(
        Parent(queue=queue, id=id_, on_failure=OnParentFailure(policy)) for queue, id_, policy in columns
    )


def _creator(row: _Row) -> Ref | None:
    if row.creator_queue is None or row.creator_id is None or row.creator_generation is None:
        return None
    return Ref(queue=row.creator_queue, id=row.creator_id, generation=row.creator_generation)


def _history(row: _Row) -> tuple[Attempt, ...]:
    if row.past_numbers is None:
        return ()
    columns = zip(
        row.past_numbers,
        row.past_workers,
        row.past_incarnations,
        row.past_fences,
        row.past_claimed,
        row.past_renewed,
        row.past_ended,
        row.past_outcomes,
        row.past_errors,
        row.past_replays,
        strict=True,
    )
    return tuple(
        Attempt(
            number=number,
            worker=worker,
            incarnation=incarnation,
            fence=fence,
            claimed_ms=claimed_ms,
            renewed_ms=renewed_ms,
            ended_ms=ended_ms,
            outcome=None if outcome is None else OUTCOMES[outcome],
            error=error,
            replay=replay,
        )
        for (
            number,
            worker,
            incarnation,
            fence,
            claimed_ms,
            renewed_ms,
            ended_ms,
            outcome,
            error,
            replay,
        ) in columns
    )


def _refused(row: _Row) -> tuple[RefusedWrite, ...]:
    if row.refused_at is None:
        return ()
    columns = zip(row.refused_at, row.refused_fences, row.refused_writes, strict=True)
    return tuple(RefusedWrite(at_ms=at_ms, fence=fence, write=write) for at_ms, fence, write in columns)
