"""Why a job does not run any more: how it ended, and what can be done about that."""

from __future__ import annotations

from leasemq.protocol.decide import Reason as Failure
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import State
from leasemq.protocol.names import shown
from leasemq.protocol.reasons import Plain, Reason, Why, at, error_told, many, named
from leasemq.protocol.standing import Standing
from leasemq.protocol.times import iso_utc

_KINDS = {
    State.COMPLETED: Why.COMPLETED,
    State.FAILED: Why.FAILED,
    State.CANCELLED: Why.CANCELLED,
    State.EXPIRED: Why.EXPIRED,
}
_FAILURES: dict[str, str] = {
    Failure.ERROR: "it raised what its policy does not retry",
    Failure.RETRIES: "its retries are spent",
    Failure.DEAD: "its function said that running it again cannot help",
    Failure.TIMEOUT: "it ran out of time, and its retries are spent",
    Failure.STALLED: "its leases ended without a word more often than it may stall",
    Failure.RESULT_NOT_SERIALIZABLE: "its result cannot be encoded",
    Failure.RESULT_TOO_LARGE: "its result is too large",
    Failure.CORRUPT: "its record or its arguments cannot be read",
    Failure.PARENT: "a job that it waited for did not complete",
}


def ending(standing: Standing) -> Reason:
    """Answer how an ended job ended."""
    record, now = standing.record, standing.now_ms
    ended_ms = record.ended_ms or 0
    tries = f"{many(record.attempts, 'attempt')}, {many(record.failures, 'failure')}"
    values: dict[str, Plain] = {
        "ended_at": iso_utc(ended_ms),
        "attempts": record.attempts,
        "failures": record.failures,
        "stalls": record.stalls,
        "reason": record.reason,
        "replay_refused_by": _rival(standing),
    }
    when = f"at {at(ended_ms, now)}"
    match record.state:
        case State.COMPLETED:
            says = f"It completed {when}, in attempt {record.attempts}"
        case State.CANCELLED:
            says = f"It was cancelled {when}, after {tries}"
        case State.EXPIRED:
            says = f"It was not started within its time to live, and expired {when}, after {tries}"
        case _:
            told, error = error_told(record.error, record.ref.id)
            cause = _FAILURES.get(record.reason or "", shown(record.reason or "for no known reason"))
            stalls = f", {many(record.stalls, 'stall')}" if record.stalls else ""
            says = f"It failed {when}: {cause}; {tries}{stalls}{told}"
            values |= error
    return Reason(kind=_KINDS[record.state], says=says, remedy=_remedy(standing, record), values=values)


def _rival(standing: Standing) -> str | None:
    """The job that holds the key which a replay would need."""
    holder = standing.key_holder
    return None if holder is None or holder == standing.record.ref else named(holder)


def _remedy(standing: Standing, record: JobRecord) -> str:
    if record.state is State.COMPLETED:
        return "enqueue it with `reuse`, or under another id, to run it again"
    rival = _rival(standing)
    if rival is not None:
        return f"a replay would be refused while {rival} holds its unique key"
    return f"leasemq replay {named(record.ref)}, to run it again"
