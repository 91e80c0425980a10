"""Why a job is not in line yet: its time, its parents, its last attempt; or its time to live is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leasemq.protocol.insight import Attempt
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.names import shown
from leasemq.protocol.reasons import Plain, Reason, Why, at, error_told, many, named
from leasemq.protocol.standing import Standing
from leasemq.protocol.times import iso_utc

PARENTS_SHOWN = 100
_PARENTS_SAID = 5


def not_yet(standing: Standing, parents: Mapping[tuple[str, str], State | None]) -> Iterator[Reason]:
    """Yield why a job that has not started is not claimable, or will never be."""
    record, now = standing.record, standing.now_ms
    if record.expires_ms is not None and record.expires_ms <= now:
        yield Reason(
            kind=Why.TTL_OVER,
            says=f"Its time to live was over at {at(record.expires_ms, now)}: it will not start; the next"
            " claim or sweep writes it down as expired",
            remedy="give such jobs a longer ttl, or start more workers; a replay runs it after all",
            values={"expired_at": iso_utc(record.expires_ms)},
        )
    elif record.state is State.BLOCKED:
        yield _blocked(standing, parents)
    elif record.state is State.SCHEDULED and record.due_ms > now:
        yield _not_due(standing)
        if record.expires_ms is not None and record.expires_ms <= record.due_ms:
            yield Reason(
                kind=Why.TTL_FIRST,
                says=f"Its time to live ends at {at(record.expires_ms, now)}, before it is due",
                remedy=f"leasemq promote {named(record.ref)}; give such jobs a longer ttl than their delay",
                values={"expires_at": iso_utc(record.expires_ms)},
            )


def _not_due(standing: Standing) -> Reason:
    record, now = standing.record, standing.now_ms
    last = record.history[-1] if record.attempts and record.history else None
    due = at(record.due_ms, now)
    values: dict[str, Plain] = {
        "due_at": iso_utc(record.due_ms),
        "due_in_s": (record.due_ms - now) / 1_000,
    }
    match None if last is None else last.outcome:
        case Outcome.RETRIED if last is not None:
            return _back_off(standing, last, values)
        case Outcome.RELEASED if last is not None:
            return _given_back(standing, last, values)
        case Outcome.SNOOZED if last is not None:
            return Reason(
                kind=Why.SNOOZED,
                says=f"Its function asked, in attempt {last.number}, to run again later: at {due}",
                values={**values, "attempt": last.number},
            )
        case _:
            return Reason(
                kind=Why.NOT_DUE,
                says=f"It is not due before {due}",
                remedy=f"leasemq promote {named(record.ref)}, to start it now",
                values=values,
            )


def _back_off(standing: Standing, last: Attempt, values: Mapping[str, Plain]) -> Reason:
    record = standing.record
    told, error = error_told(last.error, record.ref.id)
    return Reason(
        kind=Why.BACK_OFF,
        says=f"It failed {many(record.failures, 'time')}, and is tried again at"
        f" {at(record.due_ms, standing.now_ms)}; attempt {last.number} ended with an error{told}",
        remedy=f"leasemq promote {named(record.ref)}, to try again now",
        values={**values, "failures": record.failures, "attempt": last.number, **error},
    )


def _given_back(standing: Standing, last: Attempt, values: Mapping[str, Plain]) -> Reason:
    record = standing.record
    return Reason(
        kind=Why.GIVEN_BACK,
        says=f"Worker {shown(last.worker)} gave it back in attempt {last.number}, to be left alone until"
        f" {at(record.due_ms, standing.now_ms)}: a worker does so that does not know task"
        f" {shown(record.task)}, or cannot read its arguments",
        remedy="deploy the task to the workers of this queue, or give a task this name as an alias",
        values={**values, "attempt": last.number, "worker": last.worker, "task": record.task},
    )


def _blocked(standing: Standing, parents: Mapping[tuple[str, str], State | None]) -> Reason:
    record = standing.record
    states: dict[str, str] = {}
    for parent in record.open_parents[:PARENTS_SHOWN]:
        state = parents.get((parent.queue, parent.id))
        told = "no record" if state is None else state.value
        states[f"{shown(parent.queue)}/{shown(parent.id)}"] = told
    said = ", ".join(f"{name} ({state})" for name, state in list(states.items())[:_PARENTS_SAID])
    others = len(record.open_parents) - _PARENTS_SAID
    return Reason(
        kind=Why.BLOCKED,
        says=f"It waits for {many(len(record.open_parents), 'job')} to end first: {said}"
        + (f" and {others:,} more" if others > 0 else ""),
        remedy="ask why of those; what ended is passed on by the next sweep of a worker on its queue",
        values={"parents": len(record.open_parents), "states": states},
    )
