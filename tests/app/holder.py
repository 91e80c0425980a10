"""Claims an app's jobs and ends them as a test says, through the contract, without a worker."""

from __future__ import annotations

from typing import Any

from leasemq import App
from leasemq.backend import Backend
from leasemq.client.ids import new_request_number
from leasemq.protocol.decide import Happened, Hopeless, Raised, Reason, Returned, decide
from leasemq.protocol.failure import describe_exception, encode_error
from leasemq.protocol.model import Claimant, Lease, Settled
from leasemq.task import Task


class Holder:
    """Holds leases for one test. Owner: the test."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def claim(self, queue: str = "default", limit: int = 1) -> list[Lease]:
        """Claim up to `limit` jobs."""
        claimant = Claimant(worker="test", incarnation="test", request_id=f"{new_request_number():032x}")
        return list((await (await self._backend()).claim(queue, limit, 60_000, claimant)).leases)

    async def returns(self, lease: Lease, task: Task[..., Any], value: object) -> Settled:
        """End an attempt as if the task's function had returned the value."""
        return await self.ends(lease, Returned(result=task.signature.encode_result(value)))

    async def raises(self, lease: Lease, error: BaseException) -> Settled:
        """End an attempt as if the function had raised."""
        return await self.ends(lease, Raised(error=encode_error(describe_exception(error))))

    async def gives_up(self, lease: Lease, error: BaseException, reason: Reason) -> Settled:
        """End an attempt for good."""
        return await self.ends(lease, Hopeless(error=encode_error(describe_exception(error)), reason=reason))

    async def ends(self, lease: Lease, happened: Happened) -> Settled:
        """Settle an attempt."""
        settlement = decide(lease, happened, settlement_id=new_request_number())
        (settled,) = await (await self._backend()).settle(lease.ref.queue, [settlement])
        return settled

    async def returns_next(self, task: Task[..., Any], value: object, queue: str = "default") -> Settled:
        """Claim the next job and end it with a value."""
        (lease,) = await self.claim(queue)
        return await self.returns(lease, task, value)

    async def _backend(self) -> Backend:
        return (await self._app._connections.here()).backend
