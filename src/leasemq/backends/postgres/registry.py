"""Workers and schedules: what belongs to a namespace rather than to a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasemq.backends.postgres.accepting import arguments_of, enqueued
from leasemq.backends.postgres.store import Store
from leasemq.errors import CorruptRecord, LeaseMQError
from leasemq.protocol.checks import check_new_jobs, check_schedule
from leasemq.protocol.insight import Schedule, WorkerInfo
from leasemq.protocol.model import Enqueued, NewJob

_NOTHING: tuple[object, ...] = ([], *[None] * 27)  # what enqueue.sql takes after the queue, without a job
_SOME_QUEUE = "q"

_pack = msgspec.msgpack.Encoder().encode
_unpack_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


async def announce(store: Store, worker: WorkerInfo, ttl_ms: int) -> None:
    """See `Insight.announce`."""
    await store.call("announce", store.now_ms, worker.incarnation, worker.worker, ttl_ms, _pack(worker))


async def retire(store: Store, incarnation: str) -> None:
    """See `Insight.retire`."""
    await store.call("retire", incarnation)


async def workers(store: Store) -> Sequence[WorkerInfo]:
    """See `Insight.workers`."""
    seen = [_worker(info, seen_ms) for info, seen_ms in await store.call("workers", store.now_ms)]
    return tuple(sorted(seen, key=lambda worker: (worker.worker, worker.incarnation)))


def _worker(info: bytes, seen_ms: int) -> WorkerInfo:
    try:
        return replace(_unpack_worker(info), seen_ms=seen_ms)
    except (msgspec.MsgspecError, TypeError) as error:
        raise CorruptRecord(f"the announcement of a worker cannot be read: {error}") from error


async def put_schedule(store: Store, schedule: Schedule) -> None:
    """See `Schedules.put_schedule`."""
    check_schedule(schedule)
    await store.call(
        "put_schedule", schedule.name, schedule.queue, schedule.spec, schedule.cursor_ms, schedule.paused
    )


async def delete_schedule(store: Store, name: str) -> bool:
    """See `Schedules.delete_schedule`."""
    ((was_there,),) = await store.call("delete_schedule", name)
    return bool(was_there)


async def schedules(store: Store) -> Sequence[Schedule]:
    """See `Schedules.schedules`."""
    return tuple(
        Schedule(name=name, queue=queue, spec=spec, cursor_ms=cursor_ms, paused=paused)
        for name, queue, spec, cursor_ms, paused in await store.call("schedules")
    )


async def advance_schedule(
    store: Store, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
) -> Sequence[Enqueued] | None:
    """See `Schedules.advance_schedule`."""
    if _depends_on_queue(jobs):
        known = next((each for each in await schedules(store) if each.name == name), None)
        if known is None or known.paused or known.cursor_ms != seen_cursor_ms:
            return None
        check_new_jobs(known.queue, jobs)
    rows = await store.call(
        "advance_schedule",
        *(store.now_ms, store.channel, name, seen_cursor_ms, new_cursor_ms),
        *(arguments_of(jobs) if jobs else _NOTHING),
    )
    if not rows:
        return None
    queue, *columns = rows[0]
    return enqueued(queue, jobs, [tuple(columns)]) if jobs else ()


def _depends_on_queue(jobs: Sequence[NewJob]) -> bool:
    """Whether the schedule must be looked at first: a refusal matters only if it would store the jobs."""
    try:
        check_new_jobs(_SOME_QUEUE, jobs)
    except LeaseMQError:
        return True
    return any(parent.id == job.id for job in jobs for parent in job.parents)
