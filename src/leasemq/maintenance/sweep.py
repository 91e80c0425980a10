"""The sweep: recovers expired leases, promotes and expires, carries out follow-ups, prunes.

Recovery is settling for the dead: what happened to the attempt is that its holder fell silent, `decide`
says what that means, and the write itself checks that the lease is still expired. Any number of sweeps
may race. Every kind of work is bounded and has its own turn, so a flood of one stops no other.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from leasemq.backend import Backend
from leasemq.clock import Clock, boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite, InvalidSetting, LeaseMQError
from leasemq.events import SweepFailed
from leasemq.maintenance.followups import follow_up
from leasemq.protocol.decide import Silent, decide
from leasemq.protocol.insight import EVENT_AGE_MS, RECORD_LIMIT
from leasemq.protocol.keeping import heard_within_ms, margin_ms
from leasemq.protocol.model import Lease, Settled

BATCHES = range(1, 1_001)
PRUNED_PER_ITEM = 10  # a removal decides nothing: so many in the time of another item, up to the same bound


class Chore(StrEnum):
    """The kinds of work, in the order of a step."""

    RECOVER = "recover"
    ADVANCE = "advance"
    FOLLOW_UP = "follow_up"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one step did to one queue."""

    recovered: int = 0
    promoted: int = 0
    expired: int = 0
    followed: int = 0
    pruned: int = 0
    next_due_in_ms: int | None = None  # until a scheduled job is due, if the step looked
    recover_in_ms: int | None = None  # until leases that have ended may be recovered, if not yet
    unfinished: frozenset[Chore] = frozenset()  # they reached their bound: there may be more at once

    @property
    def more(self) -> bool:
        """Whether any kind of work reached its bound."""
        return bool(self.unfinished)


@dataclass(slots=True)
class _Known:
    """What is known of one queue's store. Owned by Sweep."""

    is_out: bool = False  # its last step failed
    was_unreachable: bool = False  # and no look for expired leases has begun the wait yet
    no_recovery_before_ms: int | None = None
    writable_since_ms: int = 0
    written_ms: int | None = None


class Sweep:
    """Maintenance of some queues, one bounded step at a time. Owner: whoever calls `step`.

    Args:
        queues: The queues that `step` may be asked about; for the owner's loop.
        batch: How much of each kind of work a step does at most; of pruning ten times as much, up to 1,000.
        lease_ms: After it could not reach the backend, it recovers nothing for this long: the holders
            could not reach it either, and may renew as soon as they can.
        patience_ms: A lease that has ended is recovered once the backend is known to have been writable
            for this long: a process that is new, or was idle, does not know of an outage that is just
            over, and whose holders try again at this moment. None: as long as a holder may take.
        event_age_ms: How long events are kept.
        keep_newest: How many records of each queue and outcome are kept at most.
        prove: A write that shows whether the backend can be written. None: one that changes nothing.
        tell: Hears of a kind of work that failed for one queue while the others went on.
    """

    def __init__(  # noqa: PLR0913  the last ones are for tests
        self,
        backend: Backend,
        queues: Collection[str],
        *,
        batch: int = 100,
        lease_ms: int = 30_000,
        clock: Clock = boot_ms,
        source: random.Random | None = None,
        tell: Callable[[SweepFailed], None] | None = None,
        patience_ms: int | None = None,
        event_age_ms: int = EVENT_AGE_MS,
        keep_newest: int = RECORD_LIMIT,
        prove: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        if batch not in BATCHES:
            raise InvalidSetting(f"batch={batch!r} is not a whole number from 1 to 1,000")
        self.queues: tuple[str, ...] = tuple(queues)
        self._backend = backend
        self._batch = batch
        self.prune_batch: int = min(PRUNED_PER_ITEM * batch, BATCHES[-1])
        self._lease_ms = lease_ms
        self._clock = clock
        self._source = source or random.Random()  # noqa: S311 - ids of settlements; no secret hangs on them
        self._tell = tell
        self._known = {queue: _Known() for queue in self.queues}
        self._patience_ms = heard_within_ms(lease_ms) if patience_ms is None else patience_ms
        self._event_age_ms = event_age_ms
        self._keep_newest = keep_newest
        self._prove = prove

    def note_write(self, queue: str) -> None:
        """A write of this process to this queue went through, just now."""
        now_ms = self._clock()
        known = self._of(queue)
        # No outage that fits between two such writes is long enough for a lease that was being renewed.
        if known.written_ms is None or now_ms - known.written_ms > self._lease_ms // 2:
            known.writable_since_ms = now_ms
        known.written_ms = now_ms

    async def step(self, queue: str, chores: Collection[Chore] = tuple(Chore)) -> Swept:
        """Do a bounded amount of each kind of work on one queue.

        Raises:
            BackendUnavailable, IndeterminateWrite: Every kind of work can be repeated.
        """
        swept = Swept()
        for chore in Chore:
            if chore in chores:
                swept = await self._do(queue, chore, swept)
        return swept

    async def _do(self, queue: str, chore: Chore, swept: Swept) -> Swept:
        try:
            done = await self._done(queue, chore, swept)
        except (BackendUnavailable, IndeterminateWrite):
            self._note_failure(queue)
            raise
        except LeaseMQError as error:
            if self._tell is not None:
                self._tell(
                    SweepFailed(queue=queue, chore=chore.value, error=f"{type(error).__name__}: {error}")
                )
            return swept
        self._of(queue).is_out = False
        return done

    async def _done(self, queue: str, chore: Chore, swept: Swept) -> Swept:
        bound = self._batch
        match chore:
            case Chore.RECOVER:
                found, wait_ms = await self._expired(queue)
                recovered = await self._recover(queue, found)
                done, swept = len(found), replace(swept, recovered=recovered, recover_in_ms=wait_ms)
            case Chore.ADVANCE:
                moved = await self._backend.advance(queue, self._batch)
                done = max(moved.promoted, moved.expired)
                swept = replace(
                    swept,
                    promoted=moved.promoted,
                    expired=moved.expired,
                    next_due_in_ms=moved.next_due_in_ms,
                )
            case Chore.FOLLOW_UP:
                done = await follow_up(self._backend, queue, self._batch)
                swept = replace(swept, followed=done)
            case Chore.PRUNE:
                bound = self.prune_batch
                done = await self._backend.prune(queue, bound, self._event_age_ms, self._keep_newest)
                swept = replace(swept, pruned=done)
            case _:
                assert_never(chore)
        return replace(swept, unfinished=swept.unfinished | {chore}) if done >= bound else swept

    async def _expired(self, queue: str) -> tuple[Sequence[Lease], int | None]:
        """Answer whom to settle for, and if nobody yet, when to look again.

        Nobody, for one lease after the backend could not be reached.
        """
        known = self._of(queue)
        found = await self._backend.expired(queue, self._batch)
        if known.was_unreachable:
            known.was_unreachable = False
            self._wait_one_lease(queue)
        if not found:
            return (), None
        # A store that cannot be written may be readable all the same. So first a write: where it has to
        # wait, so did the holders' renewals; they have their turn before the leases are looked at again.
        asked_ms = self._clock()
        await (self._backend.advance(queue, 0) if self._prove is None else self._prove())
        self._note_delay(queue, asked_ms)
        self.note_write(queue)
        sure_ms = known.writable_since_ms + self._patience_ms
        wait_ms = max(sure_ms, known.no_recovery_before_ms or sure_ms) - self._clock()
        if wait_ms > 0:
            return (), wait_ms
        return await self._backend.expired(queue, self._batch), None

    def _of(self, queue: str) -> _Known:
        return self._known.setdefault(queue, _Known())

    def _note_failure(self, queue: str) -> None:
        """Count it as an outage of all queues, unless it goes on while others are known to be served."""
        failed = self._of(queue)
        for known in [failed] if failed.is_out else self._known.values():
            known.was_unreachable = True
            known.written_ms = None
        failed.is_out = True

    def _wait_one_lease(self, queue: str) -> None:
        self._of(queue).no_recovery_before_ms = self._clock() + self._lease_ms

    def _note_delay(self, queue: str, asked_ms: int) -> None:
        """Count a write as an outage that took so long that a renewal beside it may have come too late."""
        if self._clock() - asked_ms > margin_ms(self._lease_ms, self._lease_ms // 3):
            self._wait_one_lease(queue)

    async def _recover(self, queue: str, leases: Sequence[Lease]) -> int:
        """Settle for holders gone silent; a record that cannot be settled stands alone."""
        if not leases:
            return 0
        settlements = [decide(lease, Silent(), settlement_id=self._id()) for lease in leases]
        asked_ms = self._clock()
        try:
            answers = await self._backend.settle(queue, settlements)
        except (BackendUnavailable, IndeterminateWrite):
            raise
        except LeaseMQError:
            if len(leases) == 1:
                raise
            middle = len(leases) // 2
            return await self._recover_apart(queue, [leases[:middle], leases[middle:]])
        self._note_delay(queue, asked_ms)
        told = list(zip(leases, answers, strict=True))
        cancelled = [
            replace(lease, cancel_requested=True)
            for lease, answer in told
            if answer is Settled.CANCEL_REQUESTED
        ]
        applied = sum(answer in (Settled.APPLIED, Settled.REPLAYED) for _, answer in told)
        return applied + await self._recover(queue, cancelled)

    async def _recover_apart(self, queue: str, parts: Sequence[Sequence[Lease]]) -> int:
        recovered = 0
        refusal: LeaseMQError | None = None
        for part in parts:
            try:
                recovered += await self._recover(queue, part)
            except (BackendUnavailable, IndeterminateWrite):
                raise
            except LeaseMQError as error:
                refusal = refusal or error
        if recovered == 0 and refusal is not None:
            raise refusal
        if refusal is not None and self._tell is not None:
            self._tell(SweepFailed(queue=queue, chore=Chore.RECOVER.value, error=str(refusal)))
        return recovered

    def _id(self) -> int:
        return self._source.getrandbits(63) or 1
