"""What must hold at every step of an exploration, judged from answers and records alone.

Nothing here asks how a backend does it: each law looks at the record before an act, the act, its answer,
and the record after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from leasemq.protocol.insight import CancelAnswer, Counts, JobRecord
from leasemq.protocol.model import (
    Claimed,
    Fence,
    Lease,
    Noted,
    Outcome,
    Renewal,
    Settled,
    Settlement,
    Side,
    State,
)
from leasemq.testing.actors import (
    Act,
    Cancel,
    Claim,
    Enqueue,
    MoveClock,
    ReadExpired,
    Remove,
    Renew,
    Replay,
    Settle,
    Write,
)

REPLAYABLE = frozenset({State.FAILED, State.EXPIRED, State.CANCELLED})


class Fault(StrEnum):
    """A law broken, in words."""

    REPEAT_UNRECOGNISED = "the repeat of an applied settlement was not recognised"
    REPEAT_INVENTED = "a settlement that was never applied was taken for a repeat"
    STRANGER_ACCEPTED = "a fence with the right number and another nonce was accepted"
    OLD_FENCE_ACCEPTED = "a fence that is not the newest was accepted"
    END_CHANGED = "an ended job was changed without a replay"
    OLD_RUN_WRITTEN = "after a replay a write of the run before it was accepted"
    IDLE_JOB_WRITTEN = "a write was accepted although the job was not active"
    OTHER_LIFE_WRITTEN = "a write about another generation was accepted"
    LIVE_LEASE_TAKEN = "a sweep took a lease that had not ended"
    CANCEL_OVERRULED = "a job whose cancellation was recorded ended otherwise"
    HOLDER_REFUSED = "the holder was refused"
    REFUSAL_LEFT_TRACES = "a refused write changed more than its note"
    FENCE_DID_NOT_GROW = "a claim's fence is not larger than the last"
    TAKEN_TWICE = "a job that was not waiting was claimed"
    CLAIM_FORGOTTEN = "a repeated claim got other leases"
    COUNTERS_WRONG = "a counter is not what happened"
    WRONG_ANSWER = "an answer contradicts the record"
    BOOKS_WRONG = "the stored counts are not what is stored"
    STUCK = "nothing brings the job to an end"


@dataclass(slots=True)
class Laws:
    """What has happened to the one job so far. Owned by one walk of the explorer."""

    now_ms: int
    newest: Fence | None = None  # of this life of the id
    leases: dict[str, Lease] = field(default_factory=dict)  # by request id
    applied: set[int] = field(default_factory=set)  # settlement ids, this generation
    attempts: int = 0
    failures: int = 0
    stalls: int = 0
    refused: int = 0

    def judge(
        self, act: Act, answer: Any, before: JobRecord | None, after: JobRecord | None
    ) -> Iterator[Fault]:  # Any: each act has its own answer
        """Yield the laws that this step breaks, the cause before its consequences."""
        match act:
            case Claim():
                yield from self._claimed(act, answer, before)
            case Settle(settlement=settlement):
                yield from self._settled(settlement, answer, before, after)
            case Renew(lease=lease):
                yield from self._fenced(lease.fence, answer is not Renewal.LOST, before, after)
            case Write(note=note):
                yield from self._fenced(note.fence, answer is Noted.HELD, before, after)
            case Cancel():
                yield from _cancelled(answer, before, after)
            case Replay() | Remove() | Enqueue():
                self._operated(act, before, after)
            case MoveClock(by_ms=by_ms):
                self.now_ms += by_ms
            case ReadExpired():
                pass
        yield from self._end_stands(act, before, after)
        yield from self._cancellation_stands(act, before, after)
        yield from self._counts(after)
        if after is None:
            self.newest, self.leases = None, {}

    def _claimed(self, act: Claim, claimed: Claimed, before: JobRecord | None) -> Iterator[Fault]:
        request = act.claimant.request_id
        for lease in claimed.leases:
            known = self.leases.get(request)
            if known is not None and known.ref == lease.ref and known.fence == lease.fence:
                continue
            if before is None or before.state is not State.WAITING:
                yield Fault.TAKEN_TWICE
            if self.newest is not None and lease.fence.number <= self.newest.number:
                yield Fault.FENCE_DID_NOT_GROW
            if lease.fence.nonce != request:
                yield Fault.WRONG_ANSWER
            self.newest = lease.fence
            self.leases[request] = lease
            self.attempts += 1
        mine = before is not None and before.state is State.ACTIVE and self._nonce() == request
        if mine and not claimed.leases:
            yield Fault.CLAIM_FORGOTTEN

    def _nonce(self) -> str | None:
        return None if self.newest is None else self.newest.nonce

    def _is_held(self, fence: Fence, record: JobRecord | None) -> bool:
        return record is not None and record.state is State.ACTIVE and self.newest == fence

    def _fenced(
        self, fence: Fence, accepted: bool, before: JobRecord | None, after: JobRecord | None
    ) -> Iterator[Fault]:
        held = self._is_held(fence, before)
        if accepted and not held:
            yield self._why_not(fence, before)
        if held and not accepted:
            yield Fault.HOLDER_REFUSED
        if not accepted:
            yield from self._refused(before, after, noted=True)

    def _settled(
        self, settlement: Settlement, answer: Settled, before: JobRecord | None, after: JobRecord | None
    ) -> Iterator[Fault]:
        if answer is Settled.APPLIED:
            yield from self._was_applicable(settlement, before)
            self._apply(settlement)
            return
        noted = answer is Settled.LOST and settlement.side is Side.HOLDER
        yield from self._refused(before, after, noted=noted)
        is_gone = before is None or before.ref.generation != settlement.generation
        is_repeat = not is_gone and settlement.id in self.applied
        if is_repeat and answer is not Settled.REPLAYED:
            yield Fault.REPEAT_UNRECOGNISED
        elif answer is Settled.REPLAYED and not is_repeat:
            yield Fault.REPEAT_INVENTED
        elif (answer is Settled.GONE) != is_gone:
            yield Fault.WRONG_ANSWER
        elif answer is Settled.LOST and self._is_held(settlement.fence, before):
            yield Fault.HOLDER_REFUSED
        elif not self._says_why(settlement, answer, before):
            yield Fault.WRONG_ANSWER

    def _says_why(self, settlement: Settlement, answer: Settled, before: JobRecord | None) -> bool:
        """Whether an answer that puts a settlement off gives the true reason."""
        if answer is Settled.HELD:
            return self._runs(settlement, before)
        return answer is not Settled.CANCEL_REQUESTED or self._is_blind(settlement, before)

    def _was_applicable(self, settlement: Settlement, before: JobRecord | None) -> Iterator[Fault]:
        if before is None or before.ref.generation != settlement.generation:
            yield Fault.OTHER_LIFE_WRITTEN
        elif settlement.id in self.applied:
            yield Fault.REPEAT_UNRECOGNISED
        elif not self._is_held(settlement.fence, before):
            yield self._why_not(settlement.fence, before)
        elif self._runs(settlement, before):
            yield Fault.LIVE_LEASE_TAKEN
        elif self._is_blind(settlement, before):
            yield Fault.CANCEL_OVERRULED

    def _runs(self, settlement: Settlement, before: JobRecord | None) -> bool:
        if before is None or before.lease_until_ms is None or settlement.side is Side.HOLDER:
            return False
        return before.lease_until_ms > self.now_ms

    def _is_blind(self, settlement: Settlement, before: JobRecord | None) -> bool:
        return before is not None and before.cancel_requested and not settlement.seen_cancel

    def _why_not(self, fence: Fence, before: JobRecord | None) -> Fault:
        """Which law forbade a write that was accepted."""
        if self.newest is None or fence.number != self.newest.number:
            return Fault.OLD_FENCE_ACCEPTED
        if fence.nonce != self.newest.nonce:
            return Fault.STRANGER_ACCEPTED
        if before is not None and before.state.is_terminal:
            return Fault.END_CHANGED
        if self.attempts == 0:
            return Fault.OLD_RUN_WRITTEN
        return Fault.IDLE_JOB_WRITTEN

    def _apply(self, settlement: Settlement) -> None:
        self.applied.add(settlement.id)
        self.failures += settlement.outcome in (Outcome.RETRIED, Outcome.FAILED)
        self.stalls += settlement.outcome is Outcome.STALLED

    def _refused(self, before: JobRecord | None, after: JobRecord | None, *, noted: bool) -> Iterator[Fault]:
        if before is None or after is None:
            if before is not after:
                yield Fault.REFUSAL_LEFT_TRACES
            return
        self.refused += noted
        if replace(after, refused=(), refused_count=0) != replace(before, refused=(), refused_count=0):
            yield Fault.REFUSAL_LEFT_TRACES

    def _operated(self, act: Act, before: JobRecord | None, after: JobRecord | None) -> None:
        """Count anew where an operator or a producer started a new run or a new life."""
        if after is None or before is None or after.ref != before.ref:
            self.attempts = self.failures = self.stalls = self.refused = 0
            self.applied = set()
        elif isinstance(act, Replay) and after.replays > before.replays:
            self.attempts = self.failures = self.stalls = 0

    def _end_stands(self, act: Act, before: JobRecord | None, after: JobRecord | None) -> Iterator[Fault]:
        if before is None or not before.state.is_terminal or isinstance(act, Remove):
            return
        is_new_life = after is not None and after.ref != before.ref and isinstance(act, Enqueue)
        is_new_run = after is not None and after.replays == before.replays + 1 and isinstance(act, Replay)
        if is_new_run and before.state not in REPLAYABLE:
            yield Fault.END_CHANGED
        if not is_new_life and not is_new_run and (after is None or after.state is not before.state):
            yield Fault.END_CHANGED

    def _cancellation_stands(
        self, act: Act, before: JobRecord | None, after: JobRecord | None
    ) -> Iterator[Fault]:
        if before is None or not before.cancel_requested or before.state is not State.ACTIVE:
            return
        if isinstance(act, Remove):
            return
        stands = after is None or after.state is State.CANCELLED
        if not stands and (after is None or after.state is not State.ACTIVE or not after.cancel_requested):
            yield Fault.CANCEL_OVERRULED

    def _counts(self, after: JobRecord | None) -> Iterator[Fault]:
        if after is None:
            return
        told = (after.attempts, after.failures, after.stalls, after.refused_count)
        if told != (self.attempts, self.failures, self.stalls, self.refused):
            yield Fault.COUNTERS_WRONG


def balance(counts: Counts, record: JobRecord | None) -> Iterator[Fault]:
    """Yield a fault unless the stored counts of a queue with one id say what is stored."""
    stored = {state: int(record is not None and record.state is state) for state in State}
    told = {state: getattr(counts, state.value) for state in State}
    if told != stored or counts.stored != sum(stored.values()):
        yield Fault.BOOKS_WRONG


def _cancelled(answer: CancelAnswer, before: JobRecord | None, after: JobRecord | None) -> Iterator[Fault]:
    if before is None:
        right = answer is CancelAnswer.NOT_FOUND
    elif before.state.is_terminal:
        right = answer is CancelAnswer.FINISHED and after == before
    elif before.state is State.ACTIVE:
        right = answer is CancelAnswer.CANCELLING and after == replace(before, cancel_requested=True)
    else:
        right = answer is CancelAnswer.CANCELLED and (after is None or after.state is State.CANCELLED)
    if not right:
        yield Fault.WRONG_ANSWER
