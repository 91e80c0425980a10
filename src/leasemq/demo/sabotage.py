"""Backends with one safeguard switched off, to show that the demo's judge notices.

They stand in front of an honest backend, in the demo's worker processes only; none of this is a switch
in a backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import cast

from leasemq.backend import Backend
from leasemq.demo.in_front import InFront
from leasemq.protocol.model import Lease, Settled, Settlement


class Sabotage(StrEnum):
    """Which safeguard is off."""

    FENCE = "fence"  # a settlement is taken whoever holds the job now
    RECOVER = "recover"  # the sweep finds no lease that ran out


class Unfenced(InFront):
    """Puts the newest fence in the place of the settlement's own, so that comparing them means nothing."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Backend.settle`, without its comparison of fences."""
        forged = [await self._forged(queue, settlement) for settlement in settlements]
        return await self._behind.settle(queue, forged)

    async def _forged(self, queue: str, settlement: Settlement) -> Settlement:
        (record,) = await self._behind.get(queue, [settlement.job_id])
        if record is None or not record.history:
            return settlement
        held = await self._behind.claimed_by(queue, record.history[-1].incarnation)
        newest = next((lease.fence for lease in held if lease.ref == record.ref), settlement.fence)
        return replace(settlement, fence=newest)


class Unrecovering(InFront):
    """Hides the leases that ran out from the sweep."""

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """See `Backend.expired`, but there never is one."""
        return ()


def sabotaged(backend: Backend, which: Sabotage | None) -> Backend:
    """The backend with that safeguard off; itself for None."""
    match which:
        case None:
            return backend
        case Sabotage.FENCE:
            return cast(Backend, Unfenced(backend))
        case Sabotage.RECOVER:
            return cast(Backend, Unrecovering(backend))
