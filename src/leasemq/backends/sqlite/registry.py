"""Workers and schedules: what belongs to a namespace rather than to a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasemq.backends.sqlite.accepting import enqueue
from leasemq.backends.sqlite.statements import statement
from leasemq.backends.sqlite.step import Step
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_schedule
from leasemq.protocol.insight import Schedule, WorkerInfo
from leasemq.protocol.model import Enqueued, NewJob

_ANNOUNCE = statement("announce")
_RETIRE = statement("retire")
_RETIRE_SILENT = statement("retire_silent")
_WORKERS = statement("workers")
_PUT_SCHEDULE = statement("put_schedule")
_DELETE_SCHEDULE = statement("delete_schedule")
_SCHEDULES = statement("schedules")
_ADVANCE_SCHEDULE = statement("advance_schedule")

_pack = msgspec.msgpack.Encoder().encode
_unpack_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


def announce(step: Step, worker: WorkerInfo, ttl_ms: int) -> None:
    """See `Insight.announce`."""
    _RETIRE_SILENT.run(step.connection, step.namespace, step.now_ms)
    info = _pack(replace(worker, seen_ms=step.now_ms))
    _ANNOUNCE.run(step.connection, step.namespace, worker.incarnation, step.now_ms + ttl_ms, info)


def retire(step: Step, incarnation: str) -> None:
    """See `Insight.retire`."""
    _RETIRE.run(step.connection, step.namespace, incarnation)


def workers(step: Step) -> Sequence[WorkerInfo]:
    """See `Insight.workers`."""
    seen = [_worker(row[0]) for row in _WORKERS.rows(step.connection, step.namespace, step.now_ms)]
    return tuple(sorted(seen, key=lambda worker: (worker.worker, worker.incarnation)))


def _worker(info: bytes) -> WorkerInfo:
    try:
        return _unpack_worker(info)
    except (msgspec.MsgspecError, TypeError) as error:
        raise CorruptRecord(f"the announcement of a worker cannot be read: {error}") from error


def put_schedule(step: Step, schedule: Schedule) -> None:
    """See `Schedules.put_schedule`."""
    check_schedule(schedule)
    _PUT_SCHEDULE.run(
        step.connection,
        *(step.namespace, schedule.name, schedule.queue, schedule.spec, schedule.cursor_ms, schedule.paused),
    )


def delete_schedule(step: Step, name: str) -> bool:
    """See `Schedules.delete_schedule`."""
    return _DELETE_SCHEDULE.run(step.connection, step.namespace, name) > 0


def schedules(step: Step) -> Sequence[Schedule]:
    """See `Schedules.schedules`."""
    return tuple(
        Schedule(name=name, queue=queue, spec=spec, cursor_ms=cursor_ms, paused=paused != 0)
        for name, queue, spec, cursor_ms, paused in _SCHEDULES.rows(step.connection, step.namespace)
    )


def advance_schedule(
    step: Step, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
) -> Sequence[Enqueued] | None:
    """See `Schedules.advance_schedule`."""
    moved = _ADVANCE_SCHEDULE.row(step.connection, step.namespace, name, seen_cursor_ms, new_cursor_ms)
    return None if moved is None else enqueue(step, moved[0], jobs)
