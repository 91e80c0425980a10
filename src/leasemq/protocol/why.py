"""Why a job does not run, or ran more than once: (how it stands, who works) → reasons, the true one first.

It goes by what a claim goes by, so what it says of a waiting job is what the next claim does with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from leasemq.protocol.endings import ending
from leasemq.protocol.insight import Attempt, WorkerInfo
from leasemq.protocol.line import in_line, nobody_for, worker_values
from leasemq.protocol.model import Acceptance, Outcome, State
from leasemq.protocol.names import shown
from leasemq.protocol.not_yet import not_yet
from leasemq.protocol.reasons import Plain, Reason, Why, at, named
from leasemq.protocol.reruns import reruns
from leasemq.protocol.standing import Standing
from leasemq.protocol.times import iso_utc

_MERGES = (Acceptance.REPLACED, Acceptance.DEBOUNCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whom the question is about: an id, of a life of it or the newest, and how its enqueue was answered."""

    id: str
    generation: int | None = None
    acceptance: Acceptance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What lies outside of the job's queue: who works, and how the parents stand."""

    workers: Sequence[WorkerInfo] = ()
    parents: Mapping[tuple[str, str], State | None] = field(default_factory=dict)  # None: no record


def explain(asked: Asked, standing: Standing, around: Surroundings) -> tuple[Reason, ...]:
    """Answer the reasons: what the id stands for, then what holds the job back, then why it ran again.

    Of a job that completed, why it ran again comes first: nothing holds it back that could be asked about.
    """
    record = standing.record
    if record.ref.id == asked.id and asked.generation not in (None, record.ref.generation):
        return (_other_life(asked, standing),)
    by_state = list(_by_state(standing, around))
    told = sum(1 for attempt in record.history[-1:] if _is_told(attempt, by_state[0].kind))
    again = list(reruns(record, standing.now_ms, told=told))
    if record.state is State.COMPLETED:
        refused = [reason for reason in again if reason.kind is Why.WRITES_REFUSED]
        by_state, again = [reason for reason in again if reason not in refused], [*by_state, *refused]
    return (*_stands_for(asked, standing), *by_state, *again)


def unknown(queue: str, id_: str, elsewhere: Sequence[str] = ()) -> Reason:
    """Answer that there is no such job, and which other queues have the id."""
    places = ", ".join(shown(name) for name in elsewhere)
    hint = f"; queue {places} has a job of this id" if elsewhere else ""
    return Reason(
        kind=Why.UNKNOWN,
        says=f"There is no job {shown(id_)} in queue {shown(queue)}: it was never enqueued here, or its"
        f" record is no longer kept, or its unique key was held and the enqueue answered the holder{hint}",
        remedy="look at the handle that the enqueue answered: it names the job that was stored",
        values={"queue": queue, "id": id_, "elsewhere": list(elsewhere)},
    )


def _other_life(asked: Asked, standing: Standing) -> Reason:
    newest = standing.record.ref.generation
    if asked.generation is not None and asked.generation > newest:
        return unknown(standing.record.ref.queue, asked.id)
    return Reason(
        kind=Why.REPLACED,
        says=f"Generation {asked.generation} of {named(standing.record.ref)} had ended, and an enqueue with"
        f" `reuse` replaced it: the id is now at generation {newest}, which is {standing.record.state.value}",
        remedy="ask about the id without a generation to learn about the new life",
        values={"generation": asked.generation, "newest_generation": newest},
    )


def _stands_for(asked: Asked, standing: Standing) -> Iterator[Reason]:
    """Yield what became of the enqueue, where another job stands for it."""
    record, into = standing.record, standing.merged_into
    key = None if record.unique is None else record.unique.key
    known_by = "its unique key" if key is None else f"its unique key {shown(key)}"
    if into is not None or asked.acceptance in _MERGES:
        ref = into or record.ref
        yield Reason(
            kind=Why.MERGED,
            says=f"What was enqueued as {shown(asked.id)} was merged into {named(ref)}, which held {known_by}"
            " and took over the arguments; it runs once, as that job",
            values={"into": named(ref), "unique_key": key},
        )
    elif asked.acceptance is Acceptance.SKIPPED:
        yield Reason(
            kind=Why.SKIPPED,
            says=f"The enqueue stored nothing: {named(record.ref)} held {known_by}, and stands for it",
            values={"holder": named(record.ref), "unique_key": key},
        )


def _is_told(attempt: Attempt, kind: Why) -> bool:
    """Whether the job's own state tells about its newest attempt already."""
    match attempt.outcome:
        case None | Outcome.COMPLETED | Outcome.FAILED | Outcome.CANCELLED:
            return True
        case Outcome.RETRIED:
            return kind is Why.BACK_OFF
        case Outcome.SNOOZED:
            return kind is Why.SNOOZED
        case Outcome.RELEASED:
            return kind is Why.GIVEN_BACK
        case Outcome.STALLED:
            return kind is Why.FAILED
        case _:
            assert_never(attempt.outcome)


def _by_state(standing: Standing, around: Surroundings) -> Iterator[Reason]:
    state = standing.record.state
    match state:
        case State.ACTIVE:
            yield from _active(standing, around.workers)
        case State.COMPLETED | State.FAILED | State.CANCELLED | State.EXPIRED:
            yield ending(standing)
        case State.SCHEDULED | State.BLOCKED | State.WAITING:
            yield from _not_started(standing, around)
        case _:
            assert_never(state)


def _not_started(standing: Standing, around: Surroundings) -> Iterator[Reason]:
    """Yield, outermost first, what stands between the job and its start."""
    record = standing.record
    held_back = list(not_yet(standing, around.parents))
    yield from held_back
    nobody = nobody_for(record.ref.queue, record.task, around.workers)
    if any(reason.kind is Why.TTL_OVER for reason in held_back):
        if nobody is not None:
            yield nobody
        return
    if standing.paused:
        yield Reason(
            kind=Why.PAUSED,
            says=f"Queue {shown(record.ref.queue)} is paused: nothing of it is started, in any process",
            remedy=f"leasemq resume {shown(record.ref.queue)}",
            values={"queue": record.ref.queue},
        )
    if nobody is not None:
        yield nobody
    elif standing.is_claimable:
        yield from in_line(standing, around.workers)
    if record.state is State.SCHEDULED and record.due_ms <= standing.now_ms:
        yield Reason(
            kind=Why.DUE,
            says=f"It is due since {at(record.due_ms, standing.now_ms)}; the next sweep of a worker puts it"
            " in line",
            values={"due_at": iso_utc(record.due_ms)},
        )


def _active(standing: Standing, workers: Sequence[WorkerInfo]) -> Iterator[Reason]:
    record, now = standing.record, standing.now_ms
    attempt, until_ms = record.history[-1], record.lease_until_ms or 0
    holder = next((worker for worker in workers if worker.incarnation == attempt.incarnation), None)
    values: dict[str, Plain] = {
        **worker_values(attempt.worker, attempt.incarnation, holder),
        "attempt": attempt.number,
        "fence": attempt.fence,
        "claimed_at": iso_utc(attempt.claimed_ms),
        "renewed_at": iso_utc(attempt.renewed_ms),
        "lease_until": iso_utc(until_ms),
        "lease_left_s": (until_ms - now) / 1_000,
    }
    where = (
        f" (host {shown(holder.host)}, pid {holder.pid})" if holder else ", which is not in the worker list,"
    )
    if until_ms > now:
        yield Reason(
            kind=Why.LEASED,
            says=f"Worker {shown(attempt.worker)}{where} runs it: attempt {attempt.number}, claimed"
            f" {at(attempt.claimed_ms, now)}, last renewed {at(attempt.renewed_ms, now)}, its lease until"
            f" {at(until_ms, now)}",
            values=values,
        )
    else:
        yield _lapsed(standing, attempt, where, values)
        nobody = nobody_for(record.ref.queue, record.task, workers)
        if nobody is not None:
            yield nobody
    if record.cancel_requested:
        yield Reason(
            kind=Why.CANCELLING,
            says="Its cancellation is recorded, and is its only outcome; its holder hears of it with its next"
            " renewal at the latest",
        )


def _lapsed(standing: Standing, attempt: Attempt, where: str, values: Mapping[str, Plain]) -> Reason:
    record, now = standing.record, standing.now_ms
    stalls = record.stalls + 1
    becomes = "then gives it to another" if stalls <= record.max_stalls else "then ends it as failed"
    return Reason(
        kind=Why.LAPSED,
        says=f"The lease of worker {shown(attempt.worker)}{where} ended at"
        f" {at(record.lease_until_ms or 0, now)}: it was last renewed {at(attempt.renewed_ms, now)}."
        f" The next sweep of a worker on this queue counts stall {stalls} of at most {record.max_stalls} and"
        f" {becomes}, unless the holder renews it before",
        remedy="see what became of that worker: killed, frozen, cut off, or its event loop blocked",
        values={**values, "stalls": record.stalls, "max_stalls": record.max_stalls},
    )
