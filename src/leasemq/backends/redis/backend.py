"""The contract on Redis or Valkey: each operation is one script, in the slot of its queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from leasemq.backends.redis import accepting, counting, leasing, records, settling
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.checking import checked
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.listening import Audiences, RedisListener
from leasemq.backends.redis.renewing import RedisRenewer
from leasemq.backends.redis.settings import Settings
from leasemq.errors import Unsupported
from leasemq.protocol.insight import Capabilities, Counts, JobRecord
from leasemq.protocol.model import (
    Advanced,
    Claimant,
    Claimed,
    Enqueued,
    Lease,
    NewJob,
    Note,
    Noted,
    Settled,
    Settlement,
)


class RedisBackend:
    """See `leasemq.backend.Backend`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._link = Link(settings)
        self._calls = Calls(self._link)
        self._audiences = Audiences(self._link)

    async def prepare(self) -> Capabilities:
        """See `Backend.prepare`."""
        self._link.open()
        return await checked(self._link)

    async def close(self) -> None:
        """See `Backend.close`."""
        await self._audiences.close()
        await self._link.close()

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`."""
        return await accepting.enqueue(self._calls, queue, jobs)

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """See `Work.claim`."""
        return await leasing.claim(self._calls, queue, limit, lease_ms, claimant)

    async def claimed_by(self, queue: str, incarnation: str) -> Sequence[Lease]:
        """See `Work.claimed_by`."""
        return await leasing.claimed_by(self._calls, queue, incarnation)

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Work.settle`."""
        return await settling.settle(self._calls, queue, settlements)

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        """See `Work.exchange`."""
        return await settling.exchange(self._calls, queue, settlements, limit, lease_ms, claimant)

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """See `Work.note`."""
        return await settling.note(self._calls, queue, notes)

    async def advance(self, queue: str, limit: int) -> Advanced:
        """See `Work.advance`."""
        return await settling.advance(self._calls, queue, limit)

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """See `Work.expired`."""
        return await leasing.expired(self._calls, queue, limit)

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[RedisListener]:
        """See `Work.listen`."""
        return self._audiences.listen(queues)

    def renewer(self) -> RedisRenewer:
        """See `Work.renewer`."""
        return RedisRenewer(self._settings)

    def joined(self, session: object) -> NoReturn:
        """See `Work.joined`."""
        raise Unsupported("Redis has no transactions to join; use a SQL backend")

    async def now_ms(self) -> int:
        """See `Insight.now_ms`."""
        return await counting.now_ms(self._calls)

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """See `Insight.get`."""
        return await records.get(self._calls, queue, ids)

    async def counts(self, queue: str) -> Counts:
        """See `Insight.counts`."""
        return await counting.counts(self._calls, queue)
