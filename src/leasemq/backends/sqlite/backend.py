"""The contract on one SQLite file: every operation becomes a step on the writer's, reader's or own lane."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from leasemq.backends.sqlite import (
    accepting,
    claiming,
    control,
    following,
    insight,
    registry,
    settling,
    sweeping,
    trails,
)
from leasemq.backends.sqlite.joining import SqliteJoined, joined
from leasemq.backends.sqlite.lane import T, Work
from leasemq.backends.sqlite.lanes import Lanes
from leasemq.backends.sqlite.listening import SqliteListener
from leasemq.backends.sqlite.renewing import SqliteRenewer
from leasemq.backends.sqlite.schema import check_library, prepared
from leasemq.backends.sqlite.settings import (
    BUSY_TIMEOUT_MS,
    NAMESPACE,
    Settings,
    Sync,
    check_settings,
    located,
)
from leasemq.backends.sqlite.standing import standing
from leasemq.backends.sqlite.step import Step
from leasemq.clock import Clock, wall_ms
from leasemq.operations import ANY_STATE
from leasemq.protocol.insight import (
    EVENT_AGE_MS,
    EVENT_LIMIT,
    RECORD_LIMIT,
    CancelAnswer,
    Capabilities,
    Changed,
    Counts,
    Durability,
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
from leasemq.protocol.names import check_namespace
from leasemq.protocol.standing import Standing

_DURABILITY = {"full": Durability.D2, "normal": Durability.D1, "off": Durability.D0}


class SqliteBackend:
    """See `leasemq.backend.Backend`. Many processes may share the file; it must be on a local disk.

    Args:
        path: the database file; its folder must exist.
        namespace: several may share one file without seeing one another.
        sync: `full` survives a power cut (D2); `normal` is faster and survives killed processes only (D1);
            `off` is for tests, with `inline`.
        clock: for tests; by default the host's clock.
        inline: no threads; every call runs where it is made, and blocks its loop. For virtual time.
        busy_timeout_ms: how long a write waits for a lock that another program holds.
        event_limit: events kept per queue.
        request_limit: requests that may wait for the writer at once.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        namespace: str = NAMESPACE,
        sync: Sync = "full",
        clock: Clock | None = None,
        inline: bool = False,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        event_limit: int = EVENT_LIMIT,
        request_limit: int = 10_000,
    ) -> None:
        check_settings(path, sync, inline=inline, busy_timeout_ms=busy_timeout_ms)
        self._settings = Settings(
            path=str(path),
            namespace=check_namespace(namespace),
            sync=sync,
            clock=clock or wall_ms,
            busy_timeout_ms=busy_timeout_ms,
            event_limit=event_limit,
            request_limit=request_limit,
        )
        self._is_inline = inline
        self._store_id = ""
        self._guard = threading.Lock()
        self._lanes_of_process = Lanes(self._settings, inline=inline)  # which opens nothing yet

    async def prepare(self) -> Capabilities:
        """See `Backend.prepare`. Opens a closed backend again."""
        check_library()
        asked = self._settings
        self._lanes()  # after a fork: ours, and with them a lock of ours
        settings, store_id = prepared(asked) if self._is_inline else await asyncio.to_thread(prepared, asked)
        with self._guard:  # of those who prepare at once, one makes new lanes, and before it closes the old
            self._store_id = store_id
            before = self._lanes()
            is_stale = settings != self._settings or before.is_closed
            if is_stale:
                self._settings = settings
                self._lanes_of_process = Lanes(settings, inline=self._is_inline)
        if is_stale:
            await before.close()
        return Capabilities(
            backend="sqlite",
            durability=_DURABILITY[asked.sync],
            store_id=store_id,
            server=f"SQLite {sqlite3.sqlite_version}",
            processes=True,
            push=True,
            exchange=True,
            transactions=True,
            one_step_across_queues=True,
        )

    async def close(self) -> None:
        """See `Backend.close`."""
        await self._lanes().close()

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`."""
        return await self._write(lambda step: accepting.enqueue(step, queue, jobs))

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """See `Work.claim`. A claim that a power cut undoes leaves its jobs waiting."""
        return await self._lanes().writer.run(
            lambda step: claiming.claim(step, queue, limit, lease_ms, claimant), is_lasting=False
        )

    async def claimed_by(self, queue: str, incarnation: str) -> Sequence[Lease]:
        """See `Work.claimed_by`."""
        return await self._read(lambda step: claiming.claimed_by(step, queue, incarnation))

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Work.settle`."""
        return await self._write(lambda step: settling.settle(step, queue, settlements))

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        """See `Work.exchange`."""

        def work(step: Step) -> tuple[Sequence[Settled], Claimed]:
            settled = settling.settle(step, queue, settlements)
            return settled, claiming.claim(step, queue, limit, lease_ms, claimant)

        return await self._write(work)

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """See `Work.note`."""
        return await self._write(lambda step: following.note(step, queue, notes))

    async def advance(self, queue: str, limit: int) -> Advanced:
        """See `Work.advance`."""
        return await self._write(lambda step: sweeping.advance(step, queue, limit))

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """See `Work.expired`."""
        return await self._read(lambda step: claiming.expired(step, queue, limit))

    async def prune(
        self, queue: str, limit: int, event_age_ms: int = EVENT_AGE_MS, newest: int = RECORD_LIMIT
    ) -> int:
        """See `Work.prune`."""
        return await self._write(lambda step: sweeping.prune(step, queue, limit, event_age_ms, newest))

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """See `Work.outbox`."""
        return await self._read(lambda step: following.outbox(step, queue, limit))

    async def outbox_done(self, queue: str, ids: Sequence[int]) -> None:
        """See `Work.outbox_done`."""
        return await self._write(lambda step: following.outbox_done(step, queue, ids))

    async def attach(self, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
        """See `Work.attach`."""
        return await self._write(lambda step: following.attach(step, queue, parent_id, child, on_failure))

    async def resolve(self, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
        """See `Work.resolve`."""
        return await self._write(
            lambda step: following.resolve(step, child, parent_queue, parent_id, passes=passes)
        )

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[SqliteListener]:
        """See `Work.listen`."""
        return self._lanes().listen(queues)

    def renewer(self) -> SqliteRenewer:
        """See `Work.renewer`."""
        return self._lanes().renewer()

    def joined(self, session: object) -> SqliteJoined:
        """See `Work.joined`."""
        return joined(session, self._settings, self._store_id)

    def transaction(self, *, blocks: bool, idle_ms: int) -> AbstractAsyncContextManager[SqliteJoined]:
        """See `Work.transaction`."""
        return self._lanes().transactions.open(self._store_id, blocks=blocks)

    async def cancel(
        self, queue: str, ids: Sequence[str], generation: int | None = None
    ) -> Sequence[CancelAnswer]:
        """See `Control.cancel`."""
        return await self._write(lambda step: control.cancel(step, queue, ids, generation))

    async def pause(self, queue: str) -> None:
        """See `Control.pause`."""
        return await self._write(lambda step: control.pause(step, queue))

    async def resume(self, queue: str) -> None:
        """See `Control.resume`."""
        return await self._write(lambda step: control.resume(step, queue))

    async def promote(self, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
        """See `Control.promote`."""
        return await self._write(lambda step: control.promote(step, queue, ids))

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
        """See `Control.reprioritise`."""
        return await self._write(lambda step: control.reprioritise(step, queue, ids, priority))

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None = None
    ) -> Sequence[Changed]:
        """See `Control.reschedule`."""
        return await self._write(lambda step: control.reschedule(step, queue, ids, delay_ms, due_at_ms))

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """See `Control.replay`."""
        return await self._write(lambda step: control.replay(step, queue, ids, request_id))

    async def remove(
        self, queue: str, ids: Sequence[str], *, force: bool, states: frozenset[State] = ANY_STATE
    ) -> Sequence[Changed]:
        """See `Control.remove`."""
        return await self._write(lambda step: control.remove(step, queue, ids, states, force=force))

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> int:
        """See `Control.drain`."""
        return await self._write(lambda step: control.drain(step, queue, states, limit))

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """See `Control.purge`."""
        return await self._write(lambda step: control.purge(step, queue, states, older_than_ms, limit))

    async def obliterate(self, queue: str, *, force: bool) -> int | None:
        """See `Control.obliterate`. In steps, so that nobody waits for long; repeatable."""
        part = await self._write(lambda step: sweeping.obliterate(step, queue, None, force=force))
        removed = 0 if part is None else part.removed
        while part is not None and part.has_more:
            key = part.until_key
            part = await self._write(partial(sweeping.obliterate, queue=queue, until_key=key, force=force))
            removed += 0 if part is None else part.removed
        return None if part is None else removed

    async def now_ms(self) -> int:
        """See `Insight.now_ms`."""
        return self._settings.clock()

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """See `Insight.get`."""
        return await self._read(lambda step: insight.get(step, queue, ids))

    async def slips(self, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
        """See `Insight.slips`."""
        return await self._read(lambda step: insight.slips(step, queue, lives))

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """See `Insight.find`."""
        return await self._read(lambda step: insight.find(step, queue, where, cursor, limit))

    async def counts(self, queue: str) -> Counts:
        """See `Insight.counts`."""
        return await self._read(lambda step: insight.counts(step, queue))

    async def standing(self, queue: str, id_: str) -> Standing | None:
        """See `Insight.standing`."""
        return await self._read(lambda step: standing(step, queue, id_))

    async def queues(self) -> Sequence[str]:
        """See `Insight.queues`."""
        return await self._read(insight.queues)

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """See `Insight.events`."""
        return await self._read(lambda step: insight.events(step, queue, cursor, limit))

    async def trail(
        self, queue: str, id_: str, generation: int | None, cursor: str | None, limit: int
    ) -> TrailPage | None:
        """See `Insight.trail`."""
        return await self._read(lambda step: trails.trail(step, queue, id_, generation, cursor, limit))

    async def announce(self, worker: WorkerInfo, ttl_ms: int) -> None:
        """See `Insight.announce`."""
        return await self._write(lambda step: registry.announce(step, worker, ttl_ms))

    async def retire(self, incarnation: str) -> None:
        """See `Insight.retire`."""
        return await self._write(lambda step: registry.retire(step, incarnation))

    async def workers(self) -> Sequence[WorkerInfo]:
        """See `Insight.workers`."""
        return await self._read(registry.workers)

    async def put_schedule(self, schedule: Schedule) -> None:
        """See `Schedules.put_schedule`."""
        return await self._write(lambda step: registry.put_schedule(step, schedule))

    async def delete_schedule(self, name: str) -> bool:
        """See `Schedules.delete_schedule`."""
        return await self._write(lambda step: registry.delete_schedule(step, name))

    async def schedules(self) -> Sequence[Schedule]:
        """See `Schedules.schedules`."""
        return await self._read(registry.schedules)

    async def advance_schedule(
        self, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
    ) -> Sequence[Enqueued] | None:
        """See `Schedules.advance_schedule`."""
        return await self._write(
            lambda step: registry.advance_schedule(step, name, seen_cursor_ms, new_cursor_ms, jobs)
        )

    def _lanes(self) -> Lanes:
        """Answer this process's lanes.

        A connection must not be carried across a fork, nor be closed by the child
        (https://sqlite.org/howtocorrupt.html, section 2.6).
        """
        lanes = self._lanes_of_process
        if lanes.pid != os.getpid():
            _OF_PARENTS.append(lanes)
            self._guard = threading.Lock()  # a thread that is not here may have held the old one
            lanes = self._lanes_of_process = Lanes(self._settings, inline=self._is_inline)
        return lanes

    async def _write(self, work: Work[T]) -> T:
        return await self._lanes().writer.run(work)

    async def _read(self, work: Work[T]) -> T:
        return await self._lanes().reader.run(work)


_OF_PARENTS: list[Lanes] = []  # kept, so that nothing closes what a parent process has open


def from_url(url: str) -> SqliteBackend:
    """Make a backend from `sqlite:///relative.db` or `sqlite:////absolute.db`; nothing is opened yet.

    Parameters: `sync` (full, normal), `namespace`, `busy_timeout_ms`. Raises: InvalidSetting, InvalidName.
    """
    location = located(url)
    return SqliteBackend(
        location.path,
        namespace=location.namespace,
        sync=location.sync,
        busy_timeout_ms=location.busy_timeout_ms,
    )
