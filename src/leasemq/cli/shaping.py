"""Records as plain data for JSON and tables: times in ISO 8601, values decoded, secrets masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasemq.errors import CorruptRecord
from leasemq.protocol.envelope import decode_plain, describe, describe_result
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import Attempt, Capabilities, Counts, JobRecord, RefusedWrite, WorkerInfo
from leasemq.protocol.model import Ref, State
from leasemq.protocol.times import iso_utc
from leasemq.selection import Tally

STATES = tuple(State)


def counts_plain(counts: Counts) -> dict[str, Any]:
    """Answer one queue's counts."""
    return {
        "queue": counts.queue,
        "paused": counts.paused,
        **{state.value: getattr(counts, state.value) for state in STATES},
        "accepted": counts.accepted,
        "removed": counts.removed,
        "refused": counts.refused,
        "stalls": counts.stalls,
        "releases": counts.releases,
        "oldest_waiting_s": None if counts.oldest_waiting_ms is None else counts.oldest_waiting_ms / 1_000,
    }


def job_line(record: JobRecord) -> dict[str, Any]:
    """Answer what a list shows of a job: nothing that its caller wrote but names."""
    return {
        "queue": record.ref.queue,
        "id": record.ref.id,
        "generation": record.ref.generation,
        "task": record.task,
        "state": record.state.value,
        "reason": record.reason,
        "priority": record.priority,
        "attempts": record.attempts,
        "failures": record.failures,
        "stalls": record.stalls,
        "created_at": iso_utc(record.created_ms),
        "due_at": iso_utc(record.due_ms),
        "ended_at": _time(record.ended_ms),
    }


def job_plain(record: JobRecord) -> dict[str, Any]:
    """Answer all that is stored about a job; what cannot be read says so in its place."""
    id_ = record.ref.id
    return {
        **job_line(record),
        "arguments": _read(record.payload, lambda stored: describe(stored, job=id_)),
        "result": _read(record.result, lambda stored: describe_result(stored, job=id_)),
        "error": _read(record.error, lambda stored: error_plain(stored, id_)),
        "progress": _read(record.progress, lambda stored: decode_plain(stored, what="progress", job=id_)),
        "checkpoint_bytes": None if record.checkpoint is None else len(record.checkpoint),
        "max_stalls": record.max_stalls,
        "suspect": record.suspect,
        "cancel_requested": record.cancel_requested,
        "fence": record.fence,
        "lease_until": _time(record.lease_until_ms),
        "expires_at": _time(record.expires_ms),
        "kept_until": _time(record.keep_until_ms),
        "result_until": _time(record.result_until_ms),
        "unique_key": None if record.unique is None else record.unique.key,
        "waits_for": [f"{parent.queue}/{parent.id}" for parent in record.open_parents],
        "creator": None if record.creator is None else ref_plain(record.creator),
        "replays": record.replays,
        "overrides": _read(record.overrides or None, _overrides),
        "history": [_attempt_plain(attempt, id_) for attempt in record.history],
        "refused": [_refused_plain(write) for write in record.refused],
        "refused_count": record.refused_count,
        "log": [_read(line, lambda stored: decode_plain(stored, what="log line")) for line in record.log],
    }


def tally_plain(queue: str, tally: Tally) -> dict[str, Any]:
    """Answer what a bulk action did in one queue, and the first hundred jobs that it did not change."""
    return {
        "queue": queue,
        "done": tally.done,
        "cancelling": tally.cancelling,
        "conflicts": tally.conflicts,
        "left_alone": tally.left_alone,
        "not_found": tally.not_found,
        "not_done": [
            {
                "id": one.id,
                "why": one.change.value,
                "state": None if one.state is None else one.state.value,
                "holder": None if one.holder is None else ref_plain(one.holder),
            }
            for one in tally.not_done
        ],
    }


def ref_plain(ref: Ref) -> dict[str, Any]:
    """Answer what a handle names."""
    return {"queue": ref.queue, "id": ref.id, "generation": ref.generation}


def error_plain(stored: bytes, id_: str) -> dict[str, Any]:
    """Answer an error as it was recorded; `values` are those of one that its task declares."""
    error = decode_error(stored, job=id_)
    values = describe(error.values, job=id_) if error.values else None
    return {
        "type": error.type,
        "message": error.message,
        "traceback": error.traceback,
        "values": values and {"args": values["args"], "kwargs": values["kwargs"]},
    }


def worker_plain(worker: WorkerInfo) -> dict[str, Any]:
    """Answer one life of a worker."""
    return {
        "worker": worker.worker,
        "incarnation": worker.incarnation,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "queues": list(worker.queues),
        "slots": worker.slots,
        "running": worker.running,
        "jobs": [ref_plain(ref) for ref in worker.jobs],
        "tasks": list(worker.tasks),
        "seen_at": iso_utc(worker.seen_ms),
    }


def capabilities_plain(capabilities: Capabilities) -> dict[str, Any]:
    """Answer what a backend can do."""
    return {
        "backend": capabilities.backend,
        "server": capabilities.server,
        "durability": capabilities.durability.value,
        "store_id": capabilities.store_id,
        "processes": capabilities.processes,
        "push": capabilities.push,
        "transactions": capabilities.transactions,
        "warnings": list(capabilities.warnings),
    }


def _attempt_plain(attempt: Attempt, id_: str) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "worker": attempt.worker,
        "incarnation": attempt.incarnation,
        "fence": attempt.fence,
        "claimed_at": iso_utc(attempt.claimed_ms),
        "renewed_at": iso_utc(attempt.renewed_ms),
        "ended_at": _time(attempt.ended_ms),
        "outcome": None if attempt.outcome is None else attempt.outcome.value,
        "error": _read(attempt.error, lambda stored: error_plain(stored, id_)),
        "replay": attempt.replay,
    }


def _refused_plain(write: RefusedWrite) -> dict[str, Any]:
    return {
        "at": iso_utc(write.at_ms),
        "fence": write.fence,
        "write": write.write,
        "answer": write.answer.value,
    }


def _overrides(stored: bytes) -> Any:
    return decode_plain(stored, what="overrides")


def _read(stored: bytes | None, read: Callable[[bytes], Any]) -> Any:
    if stored is None:
        return None
    try:
        return read(stored)
    except CorruptRecord as error:
        return f"<{error}>"


def _time(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else iso_utc(instant_ms)
