"""The contract on one PostgreSQL schema: every operation is one call of a function on the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from leasemq.backends.postgres import (
    accepting,
    claiming,
    control,
    following,
    insight,
    joining,
    records,
    registry,
    settling,
    sweeping,
)
from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.functions import Functions
from leasemq.backends.postgres.listening import Audiences, PostgresListener
from leasemq.backends.postgres.renewing import PostgresRenewer
from leasemq.backends.postgres.resting import Resting
from leasemq.backends.postgres.schema import prepared
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.upkeep import Upkeep
from leasemq.operations import ANY_STATE, Joined
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


class PostgresBackend:
    """See `leasemq.backend.Backend`. Nothing is opened before `prepare`, or the first call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._functions = Functions(settings.schema)
        self._executor = Executor(settings, self._functions)
        self._audiences = Audiences(self._executor)
        self._upkeep = Upkeep(self._executor)
        self._store = Store(settings=settings, executor=self._executor)
        self._store_id = ""
        self._resting = Resting()
        self._known_queues: set[str] = set()

    async def prepare(self) -> Capabilities:
        """See `Backend.prepare`. Opens a closed backend again."""
        capabilities = await prepared(self._settings, self._functions)
        self._store_id = capabilities.store_id
        self._executor.open()
        return capabilities

    async def close(self) -> None:
        """See `Backend.close`."""
        await self._audiences.close()
        await self._upkeep.close()
        await self._executor.close()
        self._resting.close(asyncio.get_running_loop())

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`."""
        return await accepting.enqueue(self._store, queue, jobs)

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """See `Work.claim`."""
        claimed = await claiming.claim(self._store, queue, limit, lease_ms, claimant)
        self._upkeep.moved(len(claimed.leases))
        return claimed

    async def claimed_by(self, queue: str, incarnation: str) -> Sequence[Lease]:
        """See `Work.claimed_by`."""
        return await claiming.claimed_by(self._store, queue, incarnation)

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Work.settle`."""
        settled = await settling.settle(self._store, queue, settlements)
        self._upkeep.moved(len(settled))
        return settled

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        """See `Work.exchange`."""
        settled, claimed = await settling.exchange(self._store, queue, settlements, limit, lease_ms, claimant)
        self._upkeep.moved(len(settled) + len(claimed.leases))
        return settled, claimed

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """See `Work.note`."""
        return await settling.note(self._store, queue, notes)

    async def advance(self, queue: str, limit: int) -> Advanced:
        """See `Work.advance`."""
        advanced = await claiming.advance(self._store, queue, limit)
        self._upkeep.moved(advanced.promoted)
        return advanced

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """See `Work.expired`."""
        return await claiming.expired(self._store, queue, limit)

    async def prune(
        self, queue: str, limit: int, event_age_ms: int = EVENT_AGE_MS, newest: int = RECORD_LIMIT
    ) -> int:
        """See `Work.prune`."""
        taken = await sweeping.prune(self._store, queue, limit, event_age_ms, newest)
        self._upkeep.pruned()
        return taken

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """See `Work.outbox`."""
        return await following.outbox(self._store, queue, limit)

    async def outbox_done(self, queue: str, ids: Sequence[int]) -> None:
        """See `Work.outbox_done`."""
        await following.outbox_done(self._store, queue, ids)

    async def attach(self, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
        """See `Work.attach`."""
        return await following.attach(self._store, queue, parent_id, child, on_failure)

    async def resolve(self, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
        """See `Work.resolve`."""
        return await following.resolve(self._store, child, parent_queue, parent_id, passes=passes)

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[PostgresListener]:
        """See `Work.listen`."""
        return self._audiences.listen(queues)

    def renewer(self) -> PostgresRenewer:
        """See `Work.renewer`."""
        return PostgresRenewer(self._settings, self._functions)

    def joined(self, session: object) -> Joined:
        """See `Work.joined`."""
        return joining.joined(session, self._target())

    def transaction(self, *, blocks: bool, idle_ms: int) -> AbstractAsyncContextManager[Joined]:
        """See `Work.transaction`."""
        return joining.transaction(self._target(), blocks=blocks, idle_ms=idle_ms)

    async def cancel(
        self, queue: str, ids: Sequence[str], generation: int | None = None
    ) -> Sequence[CancelAnswer]:
        """See `Control.cancel`."""
        return await control.cancel(self._store, queue, ids, generation)

    async def pause(self, queue: str) -> None:
        """See `Control.pause`."""
        await control.pause(self._store, queue)

    async def resume(self, queue: str) -> None:
        """See `Control.resume`."""
        await control.resume(self._store, queue)

    async def promote(self, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
        """See `Control.promote`."""
        return await control.promote(self._store, queue, ids)

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
        """See `Control.reprioritise`."""
        return await control.reprioritise(self._store, queue, ids, priority)

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None = None
    ) -> Sequence[Changed]:
        """See `Control.reschedule`."""
        return await control.reschedule(self._store, queue, ids, delay_ms, due_at_ms)

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """See `Control.replay`."""
        return await control.replay(self._store, queue, ids, request_id)

    async def remove(
        self, queue: str, ids: Sequence[str], *, force: bool, states: frozenset[State] = ANY_STATE
    ) -> Sequence[Changed]:
        """See `Control.remove`."""
        return await control.remove(self._store, queue, ids, states, force=force)

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> int:
        """See `Control.drain`."""
        return await control.drain(self._store, queue, states, limit)

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """See `Control.purge`."""
        return await control.purge(self._store, queue, states, older_than_ms, limit)

    async def obliterate(self, queue: str, *, force: bool) -> int | None:
        """See `Control.obliterate`."""
        return await control.obliterate(self._store, queue, force=force)

    async def now_ms(self) -> int:
        """See `Insight.now_ms`."""
        ((now_ms,),) = await self._store.call("clock", self._store.now_ms)
        return int(now_ms)

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """See `Insight.get`."""
        return await records.get(self._store, queue, ids)

    async def slips(self, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
        """See `Insight.slips`."""
        return await insight.slips(self._store, queue, lives)

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """See `Insight.find`."""
        return await insight.find(self._store, queue, where, cursor, limit)

    async def counts(self, queue: str) -> Counts:
        """See `Insight.counts`."""
        return await records.counts(self._store, queue)

    async def standing(self, queue: str, id_: str) -> Standing | None:
        """See `Insight.standing`."""
        return await insight.standing(self._store, queue, id_)

    async def queues(self) -> Sequence[str]:
        """See `Insight.queues`."""
        return await insight.queues(self._store)

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """See `Insight.events`."""
        return await insight.events(self._store, queue, cursor, limit)

    async def trail(
        self, queue: str, id_: str, generation: int | None, cursor: str | None, limit: int
    ) -> TrailPage | None:
        """See `Insight.trail`."""
        return await insight.trail(self._store, queue, id_, generation, cursor, limit)

    async def announce(self, worker: WorkerInfo, ttl_ms: int) -> None:
        """See `Insight.announce`."""
        await registry.announce(self._store, worker, ttl_ms)

    async def retire(self, incarnation: str) -> None:
        """See `Insight.retire`."""
        await registry.retire(self._store, incarnation)

    async def workers(self) -> Sequence[WorkerInfo]:
        """See `Insight.workers`."""
        return await registry.workers(self._store)

    async def put_schedule(self, schedule: Schedule) -> None:
        """See `Schedules.put_schedule`."""
        await registry.put_schedule(self._store, schedule)

    async def delete_schedule(self, name: str) -> bool:
        """See `Schedules.delete_schedule`."""
        return await registry.delete_schedule(self._store, name)

    async def schedules(self) -> Sequence[Schedule]:
        """See `Schedules.schedules`."""
        return await registry.schedules(self._store)

    async def advance_schedule(
        self, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
    ) -> Sequence[Enqueued] | None:
        """See `Schedules.advance_schedule`."""
        return await registry.advance_schedule(self._store, name, seen_cursor_ms, new_cursor_ms, jobs)

    def _target(self) -> joining.Target:
        return joining.Target(
            settings=self._settings,
            catalogue=self._functions,
            resting=self._resting,
            store_id=self._store_id,
            known_queues=self._known_queues,
        )
