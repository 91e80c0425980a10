"""Backends that declare what they do not keep, each in one way. The suite must fail on every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from leasemq.backend import Listener
from leasemq.backends.memory import MemoryBackend
from leasemq.protocol.insight import Capabilities, Counts
from leasemq.protocol.model import (
    Claimant,
    Claimed,
    Enqueued,
    Fence,
    FollowUp,
    NewJob,
    Renewal,
    Settled,
    Settlement,
)


class LosesExchangedSettlements(MemoryBackend):
    """Declares exchange, and answers as if it had settled, but only claims."""

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        claimed = await self.claim(queue, limit, lease_ms, claimant)
        return [Settled.APPLIED] * len(settlements), claimed


class AcceptsStaleSettlements(MemoryBackend):
    """Settles under whatever fence is the newest, not under the one that was shown."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        with self.turn(queue) as shelf:
            newest = {job_id: job.fence for job_id, job in shelf.jobs.items()}
        shown = [replace(each, fence=newest.get(each.job_id, each.fence)) for each in settlements]
        return await super().settle(queue, shown)


class RenewsForAnybody(MemoryBackend):
    """Tells every holder that its lease is held."""

    def renewer(self) -> AlwaysHeld:
        return AlwaysHeld()


class AlwaysHeld:
    """A renewer that renews nothing and says it did."""

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        return [Renewal.HELD] * len(held)

    def close(self) -> None:
        pass


class ForgetsFollowUps(MemoryBackend):
    """Records no follow-up that a crash could leave behind."""

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        return []


class MiscountsWaiting(MemoryBackend):
    """Counts one waiting job too many as soon as there is one."""

    async def counts(self, queue: str) -> Counts:
        counts = await super().counts(queue)
        return replace(counts, waiting=counts.waiting + 1) if counts.waiting else counts


class DoublesRepeatedEnqueues(MemoryBackend):
    """Takes the repeat of an enqueue for a new job under another id."""

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        answers = list(await super().enqueue(queue, jobs))
        pairs = zip(jobs, answers, strict=True)
        await super().enqueue(queue, [replace(job, id=f"{job.id}'") for job, was in pairs if not was.created])
        return answers


class ClaimsProcesses(MemoryBackend):
    """Declares that processes can share it, though each would have a store of its own."""

    async def prepare(self) -> Capabilities:
        return replace(await super().prepare(), processes=True)


class NeverPushes(MemoryBackend):
    """Declares push, and tells no listener anything."""

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[Listener]:
        return super().listen(())


BROKEN: dict[str, type[MemoryBackend]] = {
    broken.__name__: broken
    for broken in (
        LosesExchangedSettlements,
        AcceptsStaleSettlements,
        RenewsForAnybody,
        ForgetsFollowUps,
        MiscountsWaiting,
        DoublesRepeatedEnqueues,
        ClaimsProcesses,
        NeverPushes,
    )
}
