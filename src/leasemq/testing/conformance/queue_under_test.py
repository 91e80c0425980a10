"""The queue that a test works on: the contract's operations in the few words that the tests use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from leasemq.backend import Backend
from leasemq.protocol.insight import CancelAnswer, Change, Changed, Counts, Event, EventKind, JobRecord
from leasemq.protocol.model import (
    Claimed,
    Enqueued,
    Fence,
    Lease,
    NewJob,
    Note,
    Noted,
    Renewal,
    Settled,
    Settlement,
    State,
)
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS
from leasemq.testing.manual_clock import ManualClock

ALL = 1_000


@dataclass(slots=True)
class QueueUnderTest:
    """One queue of one backend under a manual clock. Keeps nothing but what it was made with."""

    backend: Backend
    clock: ManualClock
    name: str = "mail"

    async def needs(self, capability: str) -> None:
        """Skip the test unless the backend declares a capability."""
        if not getattr(await self.backend.prepare(), capability):
            pytest.skip(f"left out: the backend does not declare {capability}")

    # ---- producers and workers

    async def enqueue(self, *ids: str, **fields: Any) -> Sequence[Enqueued]:  # Any: fields of NewJob
        """Enqueue one job per id, all with these fields, in one call."""
        return await self.put(*(builders.new_job(job_id, **fields) for job_id in ids))

    async def put(self, *jobs: NewJob) -> Sequence[Enqueued]:
        """Enqueue these jobs in one call."""
        return await self.backend.enqueue(self.name, jobs)

    async def claim(
        self,
        limit: int = 1,
        *,
        worker: str = "A",
        request: str | None = None,
        takes_suspect: bool = False,
        lease_ms: int = LEASE_MS,
    ) -> Claimed:
        """Claim as the first life of `worker`."""
        who = builders.claimant(worker, request=request, takes_suspect=takes_suspect)
        return await self.backend.claim(self.name, limit, lease_ms, who)

    async def claim_ids(self, limit: int = ALL) -> list[str]:
        """Claim, and answer the ids in the order in which they are to start."""
        return [lease.ref.id for lease in (await self.claim(limit)).leases]

    async def lease(self, *, worker: str = "A", takes_suspect: bool = False) -> Lease:
        """Claim exactly one job."""
        claimed = await self.claim(worker=worker, takes_suspect=takes_suspect)
        assert len(claimed.leases) == 1, f"expected one lease, got {claimed}"
        return claimed.leases[0]

    async def start(self, job_id: str = "j", **fields: Any) -> Lease:  # Any: fields of NewJob
        """Enqueue one job into an otherwise idle queue, and claim it."""
        await self.enqueue(job_id, **fields)
        lease = await self.lease()
        assert lease.ref.id == job_id
        return lease

    async def settle(self, settlement: Settlement) -> Settled:
        """Settle one attempt."""
        (answer,) = await self.backend.settle(self.name, [settlement])
        return answer

    async def finish(self, job_id: str = "j", **fields: Any) -> Lease:  # Any: fields of NewJob
        """Enqueue one job into an otherwise idle queue, and complete it."""
        lease = await self.start(job_id, **fields)
        assert await self.settle(builders.complete(lease)) is Settled.APPLIED
        return lease

    async def die(self, job_id: str = "j", **fields: Any) -> Lease:  # Any: fields of NewJob
        """Enqueue one job into an otherwise idle queue, and make it a dead letter."""
        lease = await self.start(job_id, **fields)
        assert await self.settle(builders.fail(lease)) is Settled.APPLIED
        return lease

    async def note(self, note: Note) -> Noted:
        """Make one fenced write that does not end the attempt."""
        (answer,) = await self.backend.note(self.name, [note])
        return answer

    async def renew(self, lease: Lease, lease_ms: int = LEASE_MS) -> Renewal:
        """Renew one lease from a thread, as a keeper does."""
        (answer,) = await self.renew_all([lease], lease_ms)
        return answer

    async def renew_all(self, leases: Sequence[Lease], lease_ms: int = LEASE_MS) -> Sequence[Renewal]:
        """Renew leases in one call from a thread."""
        held = [(lease.ref.id, lease.fence) for lease in leases]
        return await asyncio.to_thread(self._renew, held, lease_ms)

    def _renew(self, held: list[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        renewer = self.backend.renewer()
        try:
            return renewer.renew(self.name, held, lease_ms)
        finally:
            renewer.close()

    # ---- the sweep

    def fall_silent(self) -> None:
        """Let time pass until every lease given so far has ended."""
        self.clock.advance(LEASE_MS + 1)

    async def sweep(self) -> list[Settled]:
        """Settle for every holder gone silent, as a sweep does; answers the final answers."""
        answers = []
        for lease in await self.backend.expired(self.name, ALL):
            answer = await self.settle(builders.stall(lease))
            if answer is Settled.CANCEL_REQUESTED:
                answer = await self.settle(builders.stall(lease, cancel_requested=True))
            answers.append(answer)
        return answers

    async def stall_once(self, *, worker: str = "A", takes_suspect: bool = False) -> Lease:
        """Claim one job, fall silent with it and let a sweep recover it; answers the lease that was lost."""
        lease = await self.lease(worker=worker, takes_suspect=takes_suspect)
        self.fall_silent()
        assert await self.sweep() == [Settled.APPLIED]
        return lease

    async def make_suspect(self, job_id: str = "j", **fields: Any) -> None:  # Any: fields of NewJob
        """Enqueue a job into an otherwise idle queue, and let it stall until its next stall is its last."""
        await self.enqueue(job_id, max_stalls=1, **fields)
        await self.stall_once()

    # ---- reading

    async def record(self, job_id: str = "j") -> JobRecord:
        """The record of a job that must be there."""
        (record,) = await self.backend.get(self.name, [job_id])
        assert record is not None, f"job {job_id!r} is gone"
        return record

    async def state(self, job_id: str = "j") -> State | None:
        """The job's state; None: there is no record."""
        (record,) = await self.backend.get(self.name, [job_id])
        return None if record is None else record.state

    async def counts(self) -> Counts:
        """The stored counts."""
        return await self.backend.counts(self.name)

    async def events(self, job_id: str | None = None) -> list[Event]:
        """Every event kept, of one job or of all, oldest first."""
        page = await self.backend.events(self.name, "", ALL)
        return [event for event in page.events if job_id is None or event.ref.id == job_id]

    async def story(self, job_id: str = "j") -> list[EventKind]:
        """What happened to one job, in order."""
        return [event.kind for event in await self.events(job_id)]

    # ---- operators

    async def cancel(self, job_id: str = "j") -> CancelAnswer:
        """Cancel one job."""
        (answer,) = await self.backend.cancel(self.name, [job_id])
        return answer

    async def replay(self, job_id: str = "j", request: int | None = None) -> Changed:
        """Replay one dead letter."""
        number = builders.settlement_id() if request is None else request
        (changed,) = await self.backend.replay(self.name, [job_id], number)
        return changed

    async def remove(self, job_id: str = "j", *, force: bool = False) -> Change:
        """Remove one job."""
        (changed,) = await self.backend.remove(self.name, [job_id], force=force)
        return changed.change
