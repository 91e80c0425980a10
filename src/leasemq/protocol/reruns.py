"""Why a job ran more than once, from its history: what ended each attempt that did not end the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from leasemq.protocol.insight import Attempt, JobRecord
from leasemq.protocol.model import Outcome
from leasemq.protocol.names import shown
from leasemq.protocol.reasons import Plain, Reason, Why, at, error_told, many
from leasemq.protocol.times import iso_utc

_KINDS = {
    Outcome.STALLED: Why.AFTER_STALL,
    Outcome.RETRIED: Why.AFTER_FAILURE,
    Outcome.RELEASED: Why.AFTER_RELEASE,
    Outcome.SNOOZED: Why.AFTER_SNOOZE,
}
_SAYS = {  # what the attempt did, and what that means
    Why.AFTER_STALL: (
        "stalled",
        ": nobody renewed its lease in time, so another may run the job; the function may have run on beside"
        " it, but nothing that it wrote to the queue since was accepted",
    ),
    Why.AFTER_FAILURE: ("failed", ""),
    Why.AFTER_RELEASE: (
        "was given back unfinished",
        ": its worker was stopping, could not renew the lease in time, or does not know the task",
    ),
    Why.AFTER_SNOOZE: ("asked to run later", ""),
}
_STALL_REMEDY = "see what became of that worker: killed, frozen, cut off, or its event loop blocked"


def reruns(record: JobRecord, now_ms: int, *, told: int = 0) -> Iterator[Reason]:
    """Yield why there was more than one attempt, oldest first; attempts that ended alike in a row are one.

    Args:
        told: how many of the newest attempts the job's own state tells about already.
    """
    past = record.history[: len(record.history) - told]
    for (kind, _), group in groupby(past, key=_alike):
        attempts = list(group)
        if attempts[0].replay:
            yield _replayed(attempts[0], now_ms)
        if kind is not None:
            yield _ended(kind, attempts, now_ms, record.ref.id)
    if told and record.history[-1].replay:
        yield _replayed(record.history[-1], now_ms)
    if record.refused_count:
        yield _refused(record, now_ms)


def _alike(attempt: Attempt) -> tuple[Why | None, int]:
    return _kind(attempt), attempt.fence if attempt.replay else 0


def _kind(attempt: Attempt) -> Why | None:
    return None if attempt.outcome is None else _KINDS.get(attempt.outcome)


def _ended(kind: Why, attempts: Sequence[Attempt], now_ms: int, job_id: str) -> Reason:
    first, last = attempts[0], attempts[-1]
    which = f"Attempt {last.number}" if first is last else f"Attempts {first.number} to {last.number}"
    error, values = error_told(last.error if kind is Why.AFTER_FAILURE else None, job_id)
    latest = "" if first is last else " the last"
    did, meaning = _SAYS[kind]
    ended_ms = last.ended_ms or last.renewed_ms
    return Reason(
        kind=kind,
        says=f"{which},{latest} by worker {shown(last.worker)} under fence {last.fence}, {did}"
        f" at {at(ended_ms, now_ms)}{meaning}{error}",
        remedy=_STALL_REMEDY if kind is Why.AFTER_STALL else "",
        values={
            "first_attempt": first.number,
            "last_attempt": last.number,
            "worker": last.worker,
            "incarnation": last.incarnation,
            "fence": last.fence,
            "claimed_at": iso_utc(last.claimed_ms),
            "renewed_at": iso_utc(last.renewed_ms),
            "ended_at": iso_utc(ended_ms),
            **values,
        },
    )


def _replayed(attempt: Attempt, now_ms: int) -> Reason:
    return Reason(
        kind=Why.AFTER_REPLAY,
        says="An operator replayed it after it had ended: the attempt that was claimed"
        f" {at(attempt.claimed_ms, now_ms)} began a new run of the same job",
        values={"claimed_at": iso_utc(attempt.claimed_ms), "fence": attempt.fence},
    )


def _refused(record: JobRecord, now_ms: int) -> Reason:
    last = record.refused[-1]
    values: dict[str, Plain] = {
        "refused": record.refused_count,
        "write": last.write,
        "fence": last.fence,
        "at": iso_utc(last.at_ms),
    }
    return Reason(
        kind=Why.WRITES_REFUSED,
        says=f"Refused: {many(record.refused_count, 'write')} of a holder that had lost the job, the last"
        f" at {at(last.at_ms, now_ms)}: {shown(last.write)} under fence {last.fence}",
        values=values,
    )
