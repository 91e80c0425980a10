"""What producers, workers and sweeps do to one shelf. See `leasemq.backend.Work` for every promise."""

from __future__ import annotations

from dataclasses import replace

from leasemq.backends.memory.shelf import Hold, Shelf
from leasemq.backends.memory.stored import Past, Stored, keep_newest
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    NOT_STARTED,
    Acceptance,
    Advanced,
    Attached,
    Claimant,
    Claimed,
    Enqueued,
    Fence,
    FollowUp,
    FollowUpKind,
    NewJob,
    Note,
    Noted,
    NoteKind,
    NothingClaimed,
    OnParentFailure,
    Outcome,
    Ref,
    Renewal,
    Settled,
    Settlement,
    Side,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)
from leasemq.protocol.times import debounced_ms

_KINDS = {outcome: EventKind(outcome.value) for outcome in Outcome}


def enqueue(shelf: Shelf, job: NewJob) -> Enqueued:
    """See `Work.enqueue`."""
    own = shelf.jobs.get(job.id)
    for known in (shelf.known(job.id), own):  # the one it was merged into stands for it first
        if known is not None and (known.state not in job.reuse or known.request == job.request != 0):
            same = (known.task, known.payload) == (job.task, job.payload)
            return Enqueued(
                ref=known.ref, acceptance=Acceptance.EXISTING, state=known.state, same_payload=same
            )
    if job.unique is not None:
        hold = _live_hold(shelf, job.unique.key)
        if hold is not None:
            return _merge(shelf, job, job.unique, hold)
    generation, last_fence = shelf.slips.newest(job.id) + 1, 0
    if own is not None:
        generation, last_fence = own.ref.generation + 1, own.fence.number
        shelf.retire(own)
    shelf.aliases.pop(job.id, None)
    ref = Ref(queue=shelf.queue, id=job.id, generation=generation)
    stored = Stored.new(job, ref, shelf.next_order(), shelf.clock(), last_fence)
    shelf.jobs[job.id] = stored
    if job.unique is not None:
        shelf.take_key(ref, job.unique)
    shelf.attach_to_parents(stored, [(x.queue, x.id, x.on_failure) for x in job.parents])
    shelf.place(stored, _first_state(shelf, stored), EventKind.ENQUEUED)
    assert stored.state is not None
    return Enqueued(ref=ref, acceptance=Acceptance.CREATED, state=stored.state)


def _live_hold(shelf: Shelf, key: str) -> Hold | None:
    """Answer who holds a key; a holder past its ttl would never start, so it expires in this step."""
    hold = shelf.holder(key)
    job = None if hold is None else shelf.jobs.get(hold.ref.id)
    if hold is None or job is None or job.ref != hold.ref or not job.is_overdue(shelf.clock()):
        return hold
    shelf.end(job, State.EXPIRED, EventKind.EXPIRED, job.keep.dead_ms)
    return shelf.holder(key)


def _first_state(shelf: Shelf, job: Stored) -> State:
    if job.open_parents:
        return State.BLOCKED
    return State.SCHEDULED if job.due_ms > shelf.clock() else State.WAITING


def _merge(shelf: Shelf, job: NewJob, unique: Unique, hold: Hold) -> Enqueued:
    """Answer an enqueue whose key is held, by the mode that it asks for."""
    holder = shelf.jobs.get(hold.ref.id)
    if holder is None or holder.ref != hold.ref:
        return Enqueued(ref=hold.ref, acceptance=Acceptance.SKIPPED, state=None)
    # A throttled key may outlive its holder, whose id is then another job's, which never had the key.
    is_its_own = holder.unique is not None and holder.unique.key == unique.key
    takes_payload = is_its_own and unique.mode in (UniqueMode.REPLACE, UniqueMode.DEBOUNCE)
    if not takes_payload or holder.state not in NOT_STARTED or holder.attempts > 0:
        return Enqueued(ref=hold.ref, acceptance=Acceptance.SKIPPED, state=holder.state)
    holder.task, holder.payload = job.task, job.payload
    holder.overrides, holder.headers = job.overrides, job.headers
    shelf.aliases[job.id] = holder.ref.id
    holder.aliases.append(job.id)
    if unique.mode is UniqueMode.REPLACE:
        shelf.tell(holder, EventKind.REPLACED)
        return Enqueued(ref=holder.ref, acceptance=Acceptance.REPLACED, state=holder.state)
    holder.due_ms = debounced_ms(shelf.clock(), unique.window_ms or 0, holder.created_ms, job.at_most_ms)
    if holder.state is State.BLOCKED:
        shelf.tell(holder, EventKind.REPLACED)
    else:
        shelf.place(holder, _first_state(shelf, holder), EventKind.REPLACED)
    return Enqueued(ref=holder.ref, acceptance=Acceptance.DEBOUNCED, state=holder.state)


def claim(shelf: Shelf, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
    """See `Work.claim`."""
    mine = [job for job in shelf.active.values() if job.fence.nonce == claimant.request_id]
    if mine:
        leases = tuple(job.lease() for job in mine)
        return Claimed(leases=leases, next_due_in_ms=shelf.next_due_in_ms())
    _expire_overdue(shelf, limit)
    if shelf.paused:
        return Claimed(
            next_due_in_ms=shelf.next_due_in_ms(),
            next_lapse_in_ms=shelf.next_lapse_in_ms(),
            reason=NothingClaimed.PAUSED,
        )
    suspects = shelf.first_ready(shelf.suspects, 1, stays=True)
    if suspects and claimant.takes_suspect and limit > 0:
        _start(shelf, suspects[0], lease_ms, claimant)
        shelf.suspect_for = ("", 0)
        return Claimed(leases=(suspects[0].lease(),), next_due_in_ms=shelf.next_due_in_ms())
    taken = shelf.first_ready(shelf.ready, limit)
    for job in taken:
        _start(shelf, job, lease_ms, claimant)
    is_short = len(taken) < limit
    return Claimed(
        leases=tuple(job.lease() for job in taken),
        next_due_in_ms=shelf.next_due_in_ms(),
        next_lapse_in_ms=shelf.next_lapse_in_ms() if is_short else None,
        reason=NothingClaimed.EMPTY if is_short else None,
        suspect_waits=bool(suspects) and _reserve_suspect(shelf, claimant.incarnation, lease_ms),
    )


def _reserve_suspect(shelf: Shelf, incarnation: str, lease_ms: int) -> bool:
    """Whether this incarnation is the one that should run empty; it stays so for one lease."""
    reserved_for, until_ms = shelf.suspect_for
    if reserved_for != incarnation and until_ms > shelf.clock():
        return False
    shelf.suspect_for = (incarnation, shelf.clock() + lease_ms)
    return True


def _start(shelf: Shelf, job: Stored, lease_ms: int, claimant: Claimant) -> None:
    now = shelf.clock()
    job.attempts += 1
    job.noted = 0
    job.fence = Fence(number=max(job.fence.number + 1, now * 1_000), nonce=claimant.request_id)
    job.incarnation = claimant.incarnation
    job.lease_until_ms = now + lease_ms
    past = Past(
        number=job.attempts,
        worker=claimant.worker,
        incarnation=claimant.incarnation,
        fence=job.fence,
        claimed_ms=now,
        renewed_ms=now,
        replay=job.replay_starts,
    )
    keep_newest(job.history, past)
    job.replay_starts = False
    shelf.free_key(job, at=UniqueUntil.START)
    shelf.place(job, State.ACTIVE, EventKind.CLAIMED)


def settle(shelf: Shelf, settlement: Settlement) -> Settled:
    """See `Work.settle`."""
    job = shelf.jobs.get(settlement.job_id)
    if job is None or job.ref.generation != settlement.generation:
        return Settled.GONE
    if job.was_ended_by(settlement.id):
        return Settled.REPLAYED
    now = shelf.clock()
    if not job.is_held_by(settlement.fence):
        if settlement.side is Side.HOLDER:
            _refuse(shelf, job, settlement.fence, settlement.outcome.value)
        return Settled.LOST
    if settlement.side is Side.SWEEP and job.lease_until_ms is not None and job.lease_until_ms > now:
        return Settled.HELD
    if job.cancel_requested and not settlement.seen_cancel:
        return Settled.CANCEL_REQUESTED
    _apply(shelf, job, settlement)
    return Settled.APPLIED


def _refuse(shelf: Shelf, job: Stored, fence: Fence, write: str) -> None:
    job.refuse(shelf.clock(), fence, write)
    shelf.counts["refused"] += 1


def _apply(shelf: Shelf, job: Stored, settlement: Settlement) -> None:
    now = shelf.clock()
    shelf.counts["stalls"] += settlement.outcome is Outcome.STALLED
    shelf.counts["releases"] += settlement.outcome is Outcome.RELEASED
    past = job.history[-1]
    past.ended_ms, past.outcome, past.error = now, settlement.outcome, settlement.error
    past.settled_by = settlement.id
    job.failures, job.stalls, job.suspect = settlement.failures, settlement.stalls, settlement.suspect
    job.lease_until_ms = None
    job.error = settlement.error if settlement.error is not None else job.error
    job.reason = settlement.reason
    kind = _KINDS[settlement.outcome]
    if settlement.state.is_terminal:
        job.result = settlement.result
        job.result_until_ms = None if settlement.result_ms is None else now + settlement.result_ms
        if settlement.outcome is Outcome.STALLED:
            kind = EventKind.FAILED
        shelf.end(job, settlement.state, kind, settlement.keep_ms or 0)
        return
    job.due_ms = now + settlement.delay_ms
    shelf.place(job, settlement.state, kind)


def renew(shelf: Shelf, job_id: str, fence: Fence, lease_ms: int) -> Renewal:
    """See `Renewer.renew`."""
    job = shelf.jobs.get(job_id)
    now = shelf.clock()
    if job is None or not job.is_held_by(fence):
        if job is not None:
            _refuse(shelf, job, fence, "renew")
        return Renewal.LOST
    job.lease_until_ms = now + lease_ms
    job.history[-1].renewed_ms = now
    return Renewal.CANCEL_REQUESTED if job.cancel_requested else Renewal.HELD


def note(shelf: Shelf, entry: Note) -> Noted:
    """See `Work.note`."""
    job = shelf.jobs.get(entry.job_id)
    if job is None or not job.is_held_by(entry.fence):
        if job is not None:
            _refuse(shelf, job, entry.fence, entry.kind.value)
        return Noted.LOST
    if 0 < entry.number <= job.noted:
        return Noted.HELD
    job.noted = max(job.noted, entry.number)
    match entry.kind:
        case NoteKind.PROGRESS:
            job.progress = entry.value
            shelf.tell(job, EventKind.PROGRESS, entry.value)
        case NoteKind.LOG:
            keep_newest(job.log, entry.value)
            job.trace(shelf.clock(), entry.kind, entry.value)
        case NoteKind.CHECKPOINT:
            job.checkpoint = entry.value
        case NoteKind.OFFER:
            assert entry.child is not None
            child = replace(entry.child, creator=job.ref)
            shelf.follow_up(
                FollowUp(
                    id=shelf.next_follow_up(),
                    kind=FollowUpKind.OFFER,
                    child=Ref(queue=entry.queue, id=child.id, generation=0),
                    job=child,
                )
            )
    return Noted.HELD


def advance(shelf: Shelf, limit: int) -> Advanced:
    """See `Work.advance`."""
    expired = _expire_overdue(shelf, limit)
    promoted = 0
    while promoted < limit and (job := shelf.first_due()) is not None and job.due_ms <= shelf.clock():
        shelf.place(job, State.WAITING, EventKind.PROMOTED)
        promoted += 1
    return Advanced(promoted=promoted, expired=expired, next_due_in_ms=shelf.next_due_in_ms())


def _expire_overdue(shelf: Shelf, limit: int) -> int:
    expired = 0
    if limit > 0:
        for job in shelf.overdue():
            shelf.end(job, State.EXPIRED, EventKind.EXPIRED, job.keep.dead_ms)
            expired += 1
            if expired == limit:
                break
    return expired


def attach(shelf: Shelf, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
    """See `Work.attach`."""
    parent = shelf.jobs.get(parent_id)
    if parent is None or parent.state is None:
        return Attached(known=False)
    parent.dependants.setdefault(child, on_failure)
    return Attached(known=True, ended=parent.state if parent.state.is_terminal else None)


def resolve(shelf: Shelf, child: Ref, parent: tuple[str, str], *, passes: bool) -> bool:
    """See `Work.resolve`."""
    job = shelf.jobs.get(child.id)
    is_open = job is not None and job.ref == child and parent in job.open_parents
    if job is None or not is_open or job.state is not State.BLOCKED:
        return False
    del job.open_parents[parent]
    if not passes:
        job.reason = "parent"
        shelf.end(job, State.FAILED, EventKind.FAILED, job.keep.dead_ms)
        return True
    if not job.open_parents:
        shelf.place(job, _first_state(shelf, job), EventKind.UNBLOCKED)
    return True
