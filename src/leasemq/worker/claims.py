"""Claims whose answers may be lost: repeated under the same request id, and strays given back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Claimant, Claimed, Lease
from leasemq.worker.dice import Dice
from leasemq.worker.link import Link

WHO = "claim"
LATE_MS = 100  # for a claim under way when the worker was cancelled; most take less than a tenth of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A claim's answer, and when the request that may have taken the leases was sent."""

    claimed: Claimed
    sent_ms: int


class Claims:
    """One claim at a time. Owner: the worker's claiming loop."""

    def __init__(
        self,
        backend: Backend,
        link: Link,
        clock: Clock,
        dice: Dice,
        stopping: asyncio.Event,
        *,
        worker: str,
        incarnation: str,
        lease_ms: int,
    ) -> None:
        self._backend = backend
        self._link = link
        self._clock = clock
        self._dice = dice
        self._stopping = stopping
        self._lease_ms = lease_ms
        self._worker = worker
        self._incarnation = incarnation
        self.has_asked = False  # ever
        self.is_in_doubt = False  # leases may have been taken that nobody here knows of
        self.is_asking = False  # that, or a request is under way
        self._request: asyncio.Task[Claimed] | None = None
        self.has_failed = False  # since strays were last looked for

    async def claim(self, queue: str, limit: int, *, takes_suspect: bool) -> Answered | None:
        """Claim; repeat until answered. None: told to stop while certain that nothing was taken."""
        claimant = Claimant(
            worker=self._worker,
            incarnation=self._incarnation,
            request_id=self._dice.request_id(),
            takes_suspect=takes_suspect,
        )
        sent_ms = self._clock()
        while True:
            self.is_asking = self.has_asked = True
            try:
                claimed = await self._ask(queue, limit, claimant)
            except (BackendUnavailable, IndeterminateWrite) as error:
                self.has_failed = True
                self.is_in_doubt |= isinstance(error, IndeterminateWrite)
                self.is_asking = self.is_in_doubt
                self._link.failed(WHO, error)
                if self._stopping.is_set() and not self.is_in_doubt:
                    return None
                await self._link.pause(WHO)
                # Leases date from the first request that may have taken them.
                sent_ms = sent_ms if self.is_in_doubt else self._clock()
            else:
                self._link.worked(WHO)
                self.is_asking = self.is_in_doubt = False
                return Answered(claimed=claimed, sent_ms=sent_ms)

    async def _ask(self, queue: str, limit: int, claimant: Claimant) -> Claimed:
        """Send the request in a task of its own: cancelling whoever waits does not take it back."""
        self._request = asyncio.get_running_loop().create_task(
            self._backend.claim(queue, limit, self._lease_ms, claimant)
        )
        self._request.add_done_callback(_retrieved)
        await asyncio.wait({self._request})
        return self._request.result()

    async def own_leases(self, queue: str) -> Sequence[Lease] | None:
        """Answer this life's active leases of a queue; None: the backend cannot be reached."""
        if self._request is not None and not self._request.done():  # its leases may not be there yet
            await asyncio.wait({self._request}, timeout=LATE_MS / 1_000)
        try:
            leases = await self._backend.claimed_by(queue, self._incarnation)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(WHO, error)
            return None
        self._link.worked(WHO)
        return leases


def _retrieved(request: asyncio.Task[Claimed]) -> None:
    """Look at the error of a request that nobody waits for any more; the leases are looked for instead."""
    if not request.cancelled():
        request.exception()
