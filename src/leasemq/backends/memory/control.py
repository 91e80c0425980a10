"""What operators do to one shelf. See `leasemq.backend.Control` for every promise."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice

from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.memory.stored import Stored
from leasemq.protocol.insight import CancelAnswer, Change, Changed, EventKind
from leasemq.protocol.model import NOT_STARTED, TERMINAL, State, UniqueMode

REPLAYABLE = (State.FAILED, State.EXPIRED, State.CANCELLED)


def cancel(shelf: Shelf, job_id: str, generation: int | None) -> CancelAnswer:
    """See `Control.cancel`."""
    job = shelf.jobs.get(job_id)
    if job is None or generation not in (None, job.ref.generation):
        return CancelAnswer.NOT_FOUND
    if job.state in NOT_STARTED:
        shelf.end(job, State.CANCELLED, EventKind.CANCELLED, job.keep.record_ms)
        return CancelAnswer.CANCELLED
    if job.state is not State.ACTIVE:
        return CancelAnswer.FINISHED
    if not job.cancel_requested:
        job.cancel_requested = True
        shelf.tell(job, EventKind.CANCEL_REQUESTED)
    shelf.cancels.add(job.ref)
    return CancelAnswer.CANCELLING


def promote(shelf: Shelf, job: Stored) -> Changed:
    """See `Control.promote`."""
    return reschedule(shelf, job, 0) if job.state is State.SCHEDULED else _illegal(job)


def reprioritise(shelf: Shelf, job: Stored, priority: int) -> Changed:
    """See `Control.reprioritise`."""
    if job.state not in NOT_STARTED:
        return _illegal(job)
    job.priority = priority
    if job.state is State.WAITING:
        shelf.rank(job)
    return _done(job)


def reschedule(shelf: Shelf, job: Stored, delay_ms: int, due_at_ms: int | None = None) -> Changed:
    """See `Control.reschedule`."""
    found = job.state
    if found not in (State.SCHEDULED, State.WAITING):
        return _illegal(job)
    now = shelf.clock()
    due_ms = max(now, now + delay_ms if due_at_ms is None else due_at_ms)
    if found is State.WAITING and due_ms == now:
        return _done(job)
    job.due_ms = due_ms
    if due_ms == now:
        shelf.place(job, State.WAITING, EventKind.PROMOTED)
    else:
        shelf.place(job, State.SCHEDULED, EventKind.RESCHEDULED)
    return Changed(change=Change.DONE, state=found)


def replay(shelf: Shelf, job: Stored, request_id: int) -> Changed:
    """See `Control.replay`."""
    if job.replay_request == request_id:
        return _done(job)
    if job.state not in REPLAYABLE:
        return _illegal(job)
    found, now = job.state, shelf.clock()
    if job.unique is not None and job.unique.mode is not UniqueMode.THROTTLE:
        hold = shelf.holder(job.unique.key)
        if hold is not None and hold.ref != job.ref:
            return Changed(change=Change.CONFLICT, state=found, holder=hold.ref)
        shelf.take_key(job.ref, job.unique)
    job.replay_request, job.replays, job.replay_starts = request_id, job.replays + 1, True
    job.attempts = job.failures = job.stalls = 0
    job.suspect = job.cancel_requested = False
    job.ended_ms = job.keep_until_ms = job.result_until_ms = None
    job.result = job.error = job.reason = job.progress = None
    job.due_ms = now
    job.expires_ms = None if job.ttl_ms is None else now + job.ttl_ms
    shelf.attach_to_parents(job, [(*parent, policy) for parent, policy in job.open_parents.items()])
    shelf.place(job, State.BLOCKED if job.open_parents else State.WAITING, EventKind.REPLAYED)
    return Changed(change=Change.DONE, state=found)


def remove(shelf: Shelf, job_id: str, states: frozenset[State], *, force: bool) -> Changed:
    """See `Control.remove`."""
    job = shelf.jobs.get(job_id)
    if job is None:
        if State.COMPLETED in states and shelf.slips.forget(job_id):
            return Changed(change=Change.DONE, state=State.COMPLETED)
        return Changed(change=Change.NOT_FOUND)
    if job.state not in states or (job.state is State.ACTIVE and not force):
        return _illegal(job)
    answer = _done(job)
    shelf.drop(job)
    shelf.slips.forget(job_id)
    return answer


def drain(shelf: Shelf, states: frozenset[State], limit: int) -> int:
    """See `Control.drain`."""
    waiting = (job for job in shelf.jobs.values() if job.state in states & NOT_STARTED)
    return _drop_all(shelf, islice(sorted(waiting, key=_drained_in_order), max(limit, 0)))


def _drained_in_order(job: Stored) -> tuple[object, ...]:
    match job.state:
        case State.BLOCKED:
            return (0, job.accepted)
        case State.SCHEDULED:
            return (1, job.due_ms, job.order)
        case _:
            return (2, job.suspect, -job.priority, job.order)


def purge(shelf: Shelf, states: frozenset[State], older_than_ms: int, limit: int) -> int:
    """See `Control.purge`; the longest ended first."""
    newest = shelf.clock() - older_than_ms
    ended = [
        (job.ended_ms, job.accepted, job)
        for job in shelf.jobs.values()
        if job.state in states and job.ended_ms is not None and job.ended_ms <= newest
    ]
    ended.sort(key=lambda row: row[:2])
    return _drop_all(shelf, (job for _, _, job in ended[: max(limit, 0)]))


def obliterate(shelf: Shelf, *, force: bool) -> int | None:
    """See `Control.obliterate`."""
    if shelf.active and not force:
        return None
    shelf.slips.clear()
    return _drop_all(shelf, sorted(shelf.jobs.values(), key=lambda job: job.accepted))


def prune(shelf: Shelf, limit: int, event_age_ms: int, newest: int) -> int:
    """See `Work.prune`; the longest past its retention first."""
    now = shelf.clock()
    shelf.forget_lapsed_keys()
    shelf.forget_stale()
    while shelf.events and shelf.events[0].at_ms <= now - event_age_ms:
        shelf.events.popleft()
    lapsed = _prune_jobs(shelf, now, limit)
    return lapsed + _prune_beyond(shelf, newest, limit - lapsed) + shelf.slips.lapse(now, limit, newest)


def _prune_jobs(shelf: Shelf, now: int, limit: int) -> int:
    """Take the record, or before that the result, of up to `limit` jobs."""
    taken, lane = 0, shelf.kept
    while lane and lane[0][0] <= now and taken < limit:
        _, order, id_ = heapq.heappop(lane)
        job = shelf.jobs.get(id_)
        if job is None or job.order != order or job.ended_ms is None or job.keep_until_ms is None:
            continue  # a stale entry
        taken += 1
        if job.keep_until_ms <= now:
            shelf.retire(job)
        else:
            job.result = None
            heapq.heappush(lane, (job.prune_ms, order, id_))
    return taken


def _prune_beyond(shelf: Shelf, newest: int, limit: int) -> int:
    """Take up to `limit` records beyond the newest of each terminal state. No result stays of them."""
    taken = 0
    for state in sorted(TERMINAL):
        while taken < limit and shelf.counts[state] > newest:
            shelf.drop(shelf.longest_ended(state))
            taken += 1
    return taken


def _drop_all(shelf: Shelf, jobs: Iterable[Stored]) -> int:
    """Delete jobs on an operator's word: no result of any life of their ids stays."""
    dropped = 0
    for job in list(jobs):
        shelf.drop(job)
        shelf.slips.forget(job.ref.id)
        dropped += 1
    return dropped


def _done(job: Stored) -> Changed:
    return Changed(change=Change.DONE, state=job.state)


def _illegal(job: Stored) -> Changed:
    return Changed(change=Change.ILLEGAL, state=job.state)
