"""The contract on Redis or Valkey: each operation is one script, in the slot of its queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from leasemq.backends.redis import (
    accepting,
    control,
    counting,
    following,
    insight,
    leasing,
    records,
    registry,
    schedules,
    settling,
    sweeping,
    trails,
)
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.checking import checked
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.listening import Audiences, RedisListener
from leasemq.backends.redis.renewing import RedisRenewer
from leasemq.backends.redis.settings import Settings
from leasemq.errors import Unsupported
from leasemq.operations import ANY_STATE
from leasemq.protocol.insight import (
    EVENT_AGE_MS,
    RECORD_LIMIT,
    CancelAnswer,
    Capabilities,
    Changed,
    Counts,
    EventPage,
    Filter,
    JobRecord,
    Page,
    Schedule,
    Slip,
    TrailPage,
    WorkerInfo,
)
from leasemq.protocol.model import (
    NOT_STARTED,
    Advanced,
    Attached,
    Claimant,
    Claimed,
    Enqueued,
    FollowUp,
    Lease,
    NewJob,
    Note,
    Noted,
    OnParentFailure,
    Ref,
    Settled,
    Settlement,
    State,
)
from leasemq.protocol.standing import Standing


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

    async def prune(
        self, queue: str, limit: int, event_age_ms: int = EVENT_AGE_MS, newest: int = RECORD_LIMIT
    ) -> int:
        """See `Work.prune`."""
        return await sweeping.prune(self._calls, queue, limit, event_age_ms, newest)

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """See `Work.outbox`."""
        return await following.outbox(self._calls, queue, limit)

    async def outbox_done(self, queue: str, ids: Sequence[int]) -> None:
        """See `Work.outbox_done`."""
        await following.outbox_done(self._calls, queue, ids)

    async def attach(self, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
        """See `Work.attach`."""
        return await following.attach(self._calls, queue, parent_id, child, on_failure)

    async def resolve(self, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
        """See `Work.resolve`."""
        return await following.resolve(self._calls, child, parent_queue, parent_id, passes=passes)

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[RedisListener]:
        """See `Work.listen`."""
        return self._audiences.listen(queues)

    def renewer(self) -> RedisRenewer:
        """See `Work.renewer`."""
        return RedisRenewer(self._settings)

    def joined(self, session: object) -> NoReturn:
        """See `Work.joined`."""
        raise Unsupported("Redis has no transactions to join; use a SQL backend")

    def transaction(self, *, blocks: bool, idle_ms: int) -> NoReturn:
        """See `Work.transaction`."""
        raise Unsupported("Redis has no transactions; use a SQL backend")

    async def cancel(
        self, queue: str, ids: Sequence[str], generation: int | None = None
    ) -> Sequence[CancelAnswer]:
        """See `Control.cancel`."""
        return await control.cancel(self._calls, queue, ids, generation)

    async def pause(self, queue: str) -> None:
        """See `Control.pause`."""
        await control.pause(self._calls, queue)

    async def resume(self, queue: str) -> None:
        """See `Control.resume`."""
        await control.resume(self._calls, queue)

    async def promote(self, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
        """See `Control.promote`."""
        return await control.promote(self._calls, queue, ids)

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
        """See `Control.reprioritise`."""
        return await control.reprioritise(self._calls, queue, ids, priority)

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None = None
    ) -> Sequence[Changed]:
        """See `Control.reschedule`."""
        return await control.reschedule(self._calls, queue, ids, delay_ms, due_at_ms)

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """See `Control.replay`."""
        return await control.replay(self._calls, queue, ids, request_id)

    async def remove(
        self, queue: str, ids: Sequence[str], *, force: bool, states: frozenset[State] = ANY_STATE
    ) -> Sequence[Changed]:
        """See `Control.remove`."""
        return await control.remove(self._calls, queue, ids, states, force=force)

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> int:
        """See `Control.drain`."""
        return await control.drain(self._calls, queue, states, limit)

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """See `Control.purge`."""
        return await control.purge(self._calls, queue, states, older_than_ms, limit)

    async def obliterate(self, queue: str, *, force: bool) -> int | None:
        """See `Control.obliterate`."""
        return await control.obliterate(self._calls, queue, force=force)

    async def now_ms(self) -> int:
        """See `Insight.now_ms`."""
        return await counting.now_ms(self._calls)

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """See `Insight.get`."""
        return await records.get(self._calls, queue, ids)

    async def counts(self, queue: str) -> Counts:
        """See `Insight.counts`."""
        return await counting.counts(self._calls, queue)

    async def slips(self, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
        """See `Insight.slips`."""
        return await insight.slips(self._calls, queue, lives)

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """See `Insight.find`."""
        return await insight.find(self._calls, queue, where, cursor, limit)

    async def standing(self, queue: str, id_: str) -> Standing | None:
        """See `Insight.standing`."""
        return await insight.standing(self._calls, queue, id_)

    async def queues(self) -> Sequence[str]:
        """See `Insight.queues`."""
        return await registry.queues(self._calls)

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """See `Insight.events`."""
        return await trails.events(self._calls, queue, cursor, limit)

    async def trail(
        self, queue: str, id_: str, generation: int | None, cursor: str | None, limit: int
    ) -> TrailPage | None:
        """See `Insight.trail`."""
        return await trails.trail(self._calls, queue, id_, generation, cursor, limit)

    async def announce(self, worker: WorkerInfo, ttl_ms: int) -> None:
        """See `Insight.announce`."""
        await registry.announce(self._calls, worker, ttl_ms)

    async def retire(self, incarnation: str) -> None:
        """See `Insight.retire`."""
        await registry.retire(self._calls, incarnation)

    async def workers(self) -> Sequence[WorkerInfo]:
        """See `Insight.workers`."""
        return await registry.workers(self._calls)

    async def put_schedule(self, schedule: Schedule) -> None:
        """See `Schedules.put_schedule`."""
        await schedules.put_schedule(self._calls, schedule)

    async def delete_schedule(self, name: str) -> bool:
        """See `Schedules.delete_schedule`."""
        return await schedules.delete_schedule(self._calls, name)

    async def schedules(self) -> Sequence[Schedule]:
        """See `Schedules.schedules`."""
        return await schedules.schedules(self._calls)

    async def advance_schedule(
        self, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
    ) -> Sequence[Enqueued] | None:
        """See `Schedules.advance_schedule`."""
        return await schedules.advance_schedule(self._calls, name, seen_cursor_ms, new_cursor_ms, jobs)
