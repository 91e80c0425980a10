"""Enqueue: what is sent for a batch of jobs, and what the answer says. See `Work.enqueue`."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.backends.postgres.codes import ACCEPTANCES, STATES, state_bits
from leasemq.backends.postgres.store import Store, T, packed
from leasemq.backends.postgres.wire import Row
from leasemq.protocol.checks import check_new_jobs
from leasemq.protocol.model import Enqueued, NewJob, Ref, Unique

_NO_CREATOR = (None, None, None)
_NO_UNIQUE = (None, None, None, None)


async def enqueue(store: Store, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """See `Work.enqueue`."""
    check_new_jobs(queue, jobs)
    if not jobs:
        return ()
    rows = await store.call("enqueue", store.now_ms, store.channel, queue, *arguments_of(jobs))
    return enqueued(queue, jobs, rows)


def arguments_of(jobs: Sequence[NewJob]) -> tuple[object, ...]:
    """Answer the arguments of enqueue.sql after the queue; there is at least one job."""
    return (
        [job.id for job in jobs],
        packed([job.task for job in jobs]),
        packed([job.payload for job in jobs]),
        packed([job.priority for job in jobs]),
        packed([job.delay_ms for job in jobs]),
        packed([job.due_at_ms for job in jobs]),
        packed([job.ttl_ms for job in jobs]),
        packed([job.max_stalls for job in jobs]),
        packed([job.keep.result_ms for job in jobs]),
        packed([job.keep.record_ms for job in jobs]),
        packed([job.keep.dead_ms for job in jobs]),
        packed([job.overrides for job in jobs]),
        packed([job.headers for job in jobs]),
        packed([job.request for job in jobs]),
        packed([job.trail for job in jobs]),
        *_creators(jobs),
        packed([state_bits(job.reuse) for job in jobs]) if any(job.reuse for job in jobs) else None,
        *_uniques(jobs),
        packed([job.at_most_ms for job in jobs]),
        *_parents(jobs),
    )


def enqueued(queue: str, jobs: Sequence[NewJob], rows: Sequence[Row]) -> Sequence[Enqueued]:
    """Answer what the one row of enqueue.sql says, in the order of the jobs."""
    count = len(jobs)
    acceptances, ids, generations, states, sames = (spread(column, count) for column in rows[0])
    return tuple(
        Enqueued(
            ref=Ref(queue=queue, id=ids[place] if ids else job.id, generation=generations[place]),
            acceptance=ACCEPTANCES[acceptances[place]],
            state=None if states[place] is None else STATES[states[place]],
            same_payload=sames[place],
        )
        for place, job in enumerate(jobs)
    )


def spread(column: list[T], count: int) -> list[T]:
    """Answer a column whose single element may stand for all."""
    return column * count if len(column) == 1 else column


def _creators(jobs: Sequence[NewJob]) -> tuple[object, ...]:
    if all(job.creator is None for job in jobs):
        return _NO_CREATOR
    rows = [
        _NO_CREATOR if job.creator is None else (job.creator.queue, job.creator.id, job.creator.generation)
        for job in jobs
    ]
    return tuple(packed(list(column)) for column in zip(*rows, strict=True))


def _uniques(jobs: Sequence[NewJob]) -> tuple[object, ...]:
    if all(job.unique is None for job in jobs):
        return _NO_UNIQUE
    rows = [_NO_UNIQUE if job.unique is None else _unique(job.unique) for job in jobs]
    return tuple(packed(list(column)) for column in zip(*rows, strict=True))


def _unique(unique: Unique) -> tuple[str, str, str, int | None]:
    return (unique.key, unique.mode.value, unique.until.value, unique.window_ms)


def _parents(jobs: Sequence[NewJob]) -> tuple[object, ...]:
    rows = [
        (place, parent.queue, parent.id, parent.on_failure.value)
        for place, job in enumerate(jobs, start=1)
        for parent in job.parents
    ]
    return tuple(list(column) for column in zip(*rows, strict=True)) if rows else (None, None, None, None)
