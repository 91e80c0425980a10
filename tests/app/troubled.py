"""A memory backend whose enqueue has trouble when told: refused before, or its answer lost after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum

from leasemq.backends.memory import MemoryBackend
from leasemq.errors import BackendUnavailable, IndeterminateWrite, Refused
from leasemq.protocol.model import Enqueued, NewJob


class Trouble(StrEnum):
    """What happens to one call of enqueue."""

    NONE = "none"
    REFUSED = "refused"  # BackendUnavailable, nothing stored
    LOST_REQUEST = "lost_request"  # IndeterminateWrite, nothing stored
    LOST_ANSWER = "lost_answer"  # IndeterminateWrite, stored
    DEFECT = "defect"  # what no backend should raise


class TroubledBackend(MemoryBackend):
    """Keeps a list of the batches it was sent. Owner: the test."""

    def __init__(self, *troubles: Trouble) -> None:
        super().__init__()
        self.troubles = list(troubles)
        self.batches: list[list[str]] = []
        self.gate: asyncio.Event | None = None
        self.hates: frozenset[str] = frozenset()

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """Store the jobs, or have the next trouble."""
        self.batches.append([job.id for job in jobs])
        if self.gate is not None:
            await self.gate.wait()
        if bad := self.hates & {job.id for job in jobs}:
            raise Refused(f"this store cannot hold {min(bad)}")
        trouble = self.troubles.pop(0) if self.troubles else Trouble.NONE
        match trouble:
            case Trouble.REFUSED:
                raise BackendUnavailable("nobody answers")
            case Trouble.LOST_REQUEST:
                raise IndeterminateWrite("the connection broke")
            case Trouble.DEFECT:
                raise RuntimeError("a defect")
        stored = await super().enqueue(queue, jobs)
        if trouble is Trouble.LOST_ANSWER:
            raise IndeterminateWrite("the connection broke")
        return stored
