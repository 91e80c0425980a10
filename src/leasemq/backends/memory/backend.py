"""The contract over shelves in this process: one lock, one turn at a time."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import NoReturn
from uuid import uuid4

from leasemq.backends.memory import control, reading, work
from leasemq.backends.memory.listening import MemoryListener
from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.memory.standing import standing
from leasemq.backends.memory.stored import Stored
from leasemq.clock import Clock, wall_ms
from leasemq.errors import Unsupported
from leasemq.operations import ANY_STATE
from leasemq.protocol.checks import check_lease, check_new_jobs, check_notes, check_priority, check_schedule
from leasemq.protocol.insight import (
    EVENT_AGE_MS,
    EVENT_LIMIT,
    RECORD_LIMIT,
    CancelAnswer,
    Capabilities,
    Change,
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
    Fence,
    FollowUp,
    Lease,
    NewJob,
    Note,
    Noted,
    OnParentFailure,
    Ref,
    Renewal,
    Settled,
    Settlement,
    State,
)
from leasemq.protocol.standing import Standing


class MemoryBackend:
    """See `leasemq.backend.Backend`. Durability D0: it dies with the process."""

    def __init__(self, *, clock: Clock = wall_ms, event_limit: int = EVENT_LIMIT) -> None:
        self._clock = clock
        self._event_limit = event_limit
        self._lock = threading.RLock()
        self._shelves: dict[str, Shelf] = {}
        self._listeners: set[MemoryListener] = set()
        self._workers: dict[str, tuple[WorkerInfo, int]] = {}
        self._schedules: dict[str, Schedule] = {}
        self._store_id = uuid4().hex

    async def prepare(self) -> Capabilities:
        """See `Backend.prepare`."""
        return Capabilities(
            backend="memory",
            durability=Durability.D0,
            store_id=self._store_id,
            server="memory",
            processes=False,
            push=True,
            exchange=True,
            transactions=False,
            one_step_across_queues=True,
        )

    async def close(self) -> None:
        """See `Backend.close`; the jobs stay for whoever holds this object."""

    @contextmanager
    def turn(self, queue: str) -> Iterator[Shelf]:
        """Have one queue to oneself, from any thread; what happened is pushed to the listeners."""
        with self._lock:
            shelf = self._shelves.get(queue)
            if shelf is None:
                shelf = self._shelves[queue] = Shelf(queue, self._clock, self._event_limit)
            try:
                yield shelf
            finally:
                for listener in self._listeners:
                    listener.hear(shelf)
                shelf.woken = shelf.has_news = False
                shelf.cancels.clear()
                shelf.ended.clear()

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Work.enqueue`."""
        check_new_jobs(queue, jobs)
        with self.turn(queue) as shelf:
            return tuple(work.enqueue(shelf, job) for job in jobs)

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """See `Work.claim`."""
        check_lease(lease_ms)
        with self.turn(queue) as shelf:
            return work.claim(shelf, limit, lease_ms, claimant)

    async def claimed_by(self, queue: str, incarnation: str) -> Sequence[Lease]:
        """See `Work.claimed_by`."""
        with self.turn(queue) as shelf:
            mine = [job for job in shelf.active.values() if job.incarnation == incarnation]
            return tuple(job.lease() for job in sorted(mine, key=lambda job: job.order))

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Work.settle`."""
        with self.turn(queue) as shelf:
            return tuple(work.settle(shelf, settlement) for settlement in settlements)

    async def exchange(
        self, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
    ) -> tuple[Sequence[Settled], Claimed]:
        """See `Work.exchange`."""
        check_lease(lease_ms)
        with self.turn(queue) as shelf:
            settled = tuple(work.settle(shelf, settlement) for settlement in settlements)
            return settled, work.claim(shelf, limit, lease_ms, claimant)

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """See `Work.note`."""
        check_notes(notes)
        with self.turn(queue) as shelf:
            return tuple(work.note(shelf, entry) for entry in notes)

    async def advance(self, queue: str, limit: int) -> Advanced:
        """See `Work.advance`."""
        with self.turn(queue) as shelf:
            return work.advance(shelf, limit)

    async def expired(self, queue: str, limit: int) -> Sequence[Lease]:
        """See `Work.expired`."""
        with self.turn(queue) as shelf:
            now = self._clock()
            leases = (job.lease() for job in shelf.active.values())
            past = [lease for lease in leases if lease.lease_until_ms <= now]
            return tuple(sorted(past, key=lambda lease: lease.lease_until_ms)[:limit])

    async def prune(
        self, queue: str, limit: int, event_age_ms: int = EVENT_AGE_MS, newest: int = RECORD_LIMIT
    ) -> int:
        """See `Work.prune`."""
        with self.turn(queue) as shelf:
            return control.prune(shelf, limit, event_age_ms, newest)

    async def outbox(self, queue: str, limit: int) -> Sequence[FollowUp]:
        """See `Work.outbox`."""
        with self.turn(queue) as shelf:
            return tuple(shelf.outbox.values())[:limit]

    async def outbox_done(self, queue: str, ids: Sequence[int]) -> None:
        """See `Work.outbox_done`."""
        with self.turn(queue) as shelf:
            for id_ in ids:
                shelf.outbox.pop(id_, None)

    async def attach(self, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure) -> Attached:
        """See `Work.attach`."""
        with self.turn(queue) as shelf:
            return work.attach(shelf, parent_id, child, on_failure)

    async def resolve(self, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
        """See `Work.resolve`."""
        with self.turn(child.queue) as shelf:
            return work.resolve(shelf, child, (parent_queue, parent_id), passes=passes)

    def listen(self, queues: Sequence[str]) -> AbstractAsyncContextManager[MemoryListener]:
        """See `Work.listen`."""
        return self._listen(queues)

    @asynccontextmanager
    async def _listen(self, queues: Sequence[str]) -> AsyncIterator[MemoryListener]:
        listener = MemoryListener(queues)
        with self._lock:
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def renewer(self) -> MemoryRenewer:
        """See `Work.renewer`."""
        return MemoryRenewer(self)

    def joined(self, session: object) -> NoReturn:
        """See `Work.joined`."""
        raise Unsupported("the memory backend has no transactions to join; use a SQL backend")

    def transaction(self, *, blocks: bool, idle_ms: int) -> NoReturn:
        """See `Work.transaction`."""
        raise Unsupported("the memory backend has no transactions; use a SQL backend")

    async def cancel(
        self, queue: str, ids: Sequence[str], generation: int | None = None
    ) -> Sequence[CancelAnswer]:
        """See `Control.cancel`."""
        with self.turn(queue) as shelf:
            return tuple(control.cancel(shelf, id_, generation) for id_ in ids)

    async def pause(self, queue: str) -> None:
        """See `Control.pause`."""
        with self.turn(queue) as shelf:
            shelf.paused = True

    async def resume(self, queue: str) -> None:
        """See `Control.resume`."""
        with self.turn(queue) as shelf:
            shelf.paused = False
            shelf.woken = True

    async def promote(self, queue: str, ids: Sequence[str]) -> Sequence[Changed]:
        """See `Control.promote`."""
        return self._change(queue, ids, control.promote)

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> Sequence[Changed]:
        """See `Control.reprioritise`."""
        check_priority(priority)
        return self._change(queue, ids, lambda shelf, job: control.reprioritise(shelf, job, priority))

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, due_at_ms: int | None = None
    ) -> Sequence[Changed]:
        """See `Control.reschedule`."""
        return self._change(
            queue, ids, lambda shelf, job: control.reschedule(shelf, job, delay_ms, due_at_ms)
        )

    async def replay(self, queue: str, ids: Sequence[str], request_id: int) -> Sequence[Changed]:
        """See `Control.replay`."""
        return self._change(queue, ids, lambda shelf, job: control.replay(shelf, job, request_id))

    async def remove(
        self, queue: str, ids: Sequence[str], *, force: bool, states: frozenset[State] = ANY_STATE
    ) -> Sequence[Changed]:
        """See `Control.remove`."""
        with self.turn(queue) as shelf:
            return tuple(control.remove(shelf, id_, states, force=force) for id_ in ids)

    def _change(
        self, queue: str, ids: Sequence[str], change: Callable[[Shelf, Stored], Changed]
    ) -> Sequence[Changed]:
        with self.turn(queue) as shelf:
            found = (shelf.jobs.get(id_) for id_ in ids)
            return tuple(
                Changed(change=Change.NOT_FOUND) if job is None else change(shelf, job) for job in found
            )

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> int:
        """See `Control.drain`."""
        with self.turn(queue) as shelf:
            return control.drain(shelf, states, limit)

    async def purge(self, queue: str, states: frozenset[State], older_than_ms: int, limit: int) -> int:
        """See `Control.purge`."""
        with self.turn(queue) as shelf:
            return control.purge(shelf, states, older_than_ms, limit)

    async def obliterate(self, queue: str, *, force: bool) -> int | None:
        """See `Control.obliterate`."""
        with self.turn(queue) as shelf:
            return control.obliterate(shelf, force=force)

    async def now_ms(self) -> int:
        """See `Insight.now_ms`."""
        return self._clock()

    async def get(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """See `Insight.get`."""
        with self.turn(queue) as shelf:
            found = (shelf.jobs.get(id_) for id_ in ids)
            return tuple(None if job is None else job.record(self._clock()) for job in found)

    async def slips(self, queue: str, lives: Sequence[tuple[str, int]]) -> Sequence[Slip | None]:
        """See `Insight.slips`."""
        with self.turn(queue) as shelf:
            return tuple(shelf.slips.find(*life, self._clock()) for life in lives)

    async def find(self, queue: str, where: Filter, cursor: str | None, limit: int) -> Page:
        """See `Insight.find`."""
        with self.turn(queue) as shelf:
            return reading.find(shelf, where, cursor, limit)

    async def counts(self, queue: str) -> Counts:
        """See `Insight.counts`."""
        with self.turn(queue) as shelf:
            return reading.counts(shelf)

    async def standing(self, queue: str, id_: str) -> Standing | None:
        """See `Insight.standing`."""
        with self.turn(queue) as shelf:
            return standing(shelf, id_)

    async def queues(self) -> Sequence[str]:
        """See `Insight.queues`."""
        with self._lock:
            names = [
                name for name, shelf in self._shelves.items() if shelf.counts["accepted"] or shelf.paused
            ]
            return tuple(sorted(names, key=str.encode))

    async def events(self, queue: str, cursor: str | None, limit: int) -> EventPage:
        """See `Insight.events`."""
        with self.turn(queue) as shelf:
            return reading.events(shelf, cursor, limit)

    async def trail(
        self, queue: str, id_: str, generation: int | None, cursor: str | None, limit: int
    ) -> TrailPage | None:
        """See `Insight.trail`."""
        with self.turn(queue) as shelf:
            return reading.trail(shelf, id_, generation, cursor, limit)

    async def announce(self, worker: WorkerInfo, ttl_ms: int) -> None:
        """See `Insight.announce`."""
        with self._lock:
            now = self._clock()
            self._workers = {key: row for key, row in self._workers.items() if row[1] > now}
            self._workers[worker.incarnation] = (replace(worker, seen_ms=now), now + ttl_ms)

    async def retire(self, incarnation: str) -> None:
        """See `Insight.retire`."""
        with self._lock:
            self._workers.pop(incarnation, None)

    async def workers(self) -> Sequence[WorkerInfo]:
        """See `Insight.workers`."""
        with self._lock:
            now = self._clock()
            seen = [worker for worker, until_ms in self._workers.values() if until_ms > now]
            return tuple(sorted(seen, key=lambda worker: (worker.worker, worker.incarnation)))

    async def put_schedule(self, schedule: Schedule) -> None:
        """See `Schedules.put_schedule`."""
        check_schedule(schedule)
        with self._lock:
            known = self._schedules.get(schedule.name)
            cursor_ms = max(schedule.cursor_ms, known.cursor_ms if known else schedule.cursor_ms)
            self._schedules[schedule.name] = replace(schedule, cursor_ms=cursor_ms)

    async def delete_schedule(self, name: str) -> bool:
        """See `Schedules.delete_schedule`."""
        with self._lock:
            return self._schedules.pop(name, None) is not None

    async def schedules(self) -> Sequence[Schedule]:
        """See `Schedules.schedules`."""
        with self._lock:
            return tuple(sorted(self._schedules.values(), key=lambda schedule: schedule.name.encode()))

    async def advance_schedule(
        self, name: str, seen_cursor_ms: int, new_cursor_ms: int, jobs: Sequence[NewJob]
    ) -> Sequence[Enqueued] | None:
        """See `Schedules.advance_schedule`."""
        with self._lock:
            schedule = self._schedules.get(name)
            if schedule is None or schedule.paused or schedule.cursor_ms != seen_cursor_ms:
                return None
            check_new_jobs(schedule.queue, jobs)
            self._schedules[name] = replace(schedule, cursor_ms=new_cursor_ms)
            with self.turn(schedule.queue) as shelf:
                return tuple(work.enqueue(shelf, job) for job in jobs)


class MemoryRenewer:
    """See `leasemq.backend.Renewer`."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`."""
        with self._backend.turn(queue) as shelf:
            return tuple(work.renew(shelf, id_, fence, lease_ms) for id_, fence in held)

    def close(self) -> None:
        """See `Renewer.close`."""
