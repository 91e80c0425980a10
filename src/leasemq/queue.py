"""What operators do to one queue and ask about it, in the words of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from leasemq.backend import Backend
from leasemq.client.connection import Connections
from leasemq.client.ids import new_request_number
from leasemq.client.repeating import until_answered
from leasemq.errors import IllegalMove, JobNotFound
from leasemq.filtering import check_ids_given, check_limit_of_jobs, check_states_among, made_filter
from leasemq.protocol.checks import check_priority
from leasemq.protocol.insight import CancelAnswer, Counts, JobRecord, Page
from leasemq.protocol.model import DEAD, NOT_STARTED, TERMINAL, State
from leasemq.protocol.names import check_job_id, shown
from leasemq.protocol.times import seconds_to_ms
from leasemq.selection import STEP_LIMIT, Selection, check_done, moved_to
from leasemq.settings import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The operator's side of one queue. Every change is conditional on the state it finds."""

    name: str
    _connections: Connections = field(repr=False, compare=False)

    async def counts(self) -> Counts:
        """Answer the stored counts, and whether the queue is paused; zeros for an unknown queue."""
        return await (await self._backend()).counts(self.name)

    async def pause(self) -> None:
        """Stop claims in every process; running jobs go on, delayed ones become due."""
        await (await self._backend()).pause(self.name)

    async def resume(self) -> None:
        """Undo `pause`."""
        await (await self._backend()).resume(self.name)

    async def get(self, id_: str) -> JobRecord | None:
        """Answer the newest record of the id; None if there is none. Raises: InvalidJobId."""
        (record,) = await (await self._backend()).get(self.name, [check_job_id(id_)])
        return record

    def these(self, ids: Iterable[str]) -> Selection:
        """Choose jobs by id, for what is done to many; nothing is read. Raises: InvalidJobId."""
        chosen = tuple(check_job_id(id_) for id_ in check_ids_given(ids))
        return Selection(queue=self.name, ids=chosen, _connections=self._connections)

    def where(
        self,
        *,
        states: Iterable[State | str] = (),
        task: str | None = None,
        id_prefix: str | None = None,
        older_than: Seconds | None = None,
        newer_than: Seconds | None = None,
        reason: str | None = None,
        limit: int | None = None,
    ) -> Selection:
        """Choose jobs by a filter, for what is done to many; nothing is read.

        Args:
            states: any, if none is given.
            older_than: since their end, or since they were accepted if they have not ended.
            newer_than: the same, at most.
            reason: why they failed, as `record.reason` has it.
            limit: that many at most, the oldest accepted.

        Raises: InvalidSetting, InvalidName, InvalidDelay.
        """
        chosen = made_filter(states, task, id_prefix, older_than, newer_than, reason)
        return Selection(
            queue=self.name,
            chosen=chosen,
            limit=check_limit_of_jobs(limit),
            _connections=self._connections,
        )

    async def find(
        self,
        *,
        states: Iterable[State | str] = (),
        task: str | None = None,
        id_prefix: str | None = None,
        older_than: Seconds | None = None,
        oldest_first: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Answer jobs that match, newest accepted first; `page.cursor` goes on, None ends.

        By all else that `where` takes: `queue.where(reason="timeout").page()`.

        Args:
            states, older_than: see `where`.
            oldest_first: turn the order round; a cursor goes on in the order that gave it.
            limit: 1 to 1,000.

        Raises: InvalidSetting, InvalidName, InvalidDelay.
        """
        chosen = self.where(states=states, task=task, id_prefix=id_prefix, older_than=older_than)
        return await chosen.page(oldest_first=oldest_first, cursor=cursor, limit=limit)

    async def dead(self, *, task: str | None = None, cursor: str | None = None, limit: int = 100) -> Page:
        """Answer the dead letters, newest first: jobs that failed or expired."""
        return await self.find(states=DEAD, task=task, cursor=cursor, limit=limit)

    async def every_dead(self) -> AsyncGenerator[JobRecord, None]:
        """Answer all dead letters, newest first, read page by page."""
        page = await self.dead(limit=STEP_LIMIT // 10)
        while True:
            for record in page.jobs:
                yield record
            if page.cursor is None:
                return
            page = await self.dead(cursor=page.cursor, limit=STEP_LIMIT // 10)

    async def cancel(self, id_: str) -> CancelAnswer:
        """Cancel one job. Raises: JobNotFound."""
        (answer,) = await (await self._backend()).cancel(self.name, [check_job_id(id_)])
        if answer is CancelAnswer.NOT_FOUND:
            raise JobNotFound(f"no job {shown(id_)} in queue {shown(self.name)}")
        return answer

    async def promote(self, id_: str) -> None:
        """Make a scheduled job due now. Raises: JobNotFound, IllegalMove."""
        changed = await (await self._backend()).promote(self.name, [check_job_id(id_)])
        check_done(self.name, id_, "promoted", changed)

    async def reprioritise(self, id_: str, priority: int) -> None:
        """Change the priority of a job that has not started; among its equals its age decides.

        Raises: JobNotFound, IllegalMove, InvalidSetting.
        """
        check_priority(priority)
        backend = await self._backend()
        changed = await backend.reprioritise(self.name, [check_job_id(id_)], priority)
        check_done(self.name, id_, "reprioritised", changed)

    async def reschedule(
        self, id_: str, delay: Seconds | None = None, *, due_at: datetime | None = None
    ) -> None:
        """Move the due time of a scheduled or waiting job.

        Args:
            delay: from now on; 0 means now.
            due_at: an aware datetime instead; what is past, by the backend's clock, means now.

        Raises: JobNotFound, IllegalMove, InvalidDelay, NaiveDatetime, InvalidSetting.
        """
        check_job_id(id_)
        delay_ms, due_ms = moved_to(delay, due_at)
        changed = await (await self._backend()).reschedule(self.name, [id_], delay_ms, due_ms)
        check_done(self.name, id_, "rescheduled", changed)

    async def replay(self, id_: str) -> None:
        """Run a dead or cancelled job again, with its payload and history; counters and ttl are fresh.

        Repeated for a while if the backend does not answer, which replays the job once.

        Raises: JobNotFound, IllegalMove, UniqueConflict; IndeterminateWrite if no repeat was answered.
        """
        backend = await self._backend()
        ids, request = [check_job_id(id_)], new_request_number()
        changed = await until_answered(lambda: backend.replay(self.name, ids, request))
        check_done(self.name, id_, "replayed", changed)

    async def remove(self, id_: str, *, force: bool = False) -> None:
        """Delete a job and all that is stored with it; a running one only with `force`.

        The worker of a running one loses its lease: whatever it writes from then on is refused.

        Raises: JobNotFound, IllegalMove.
        """
        changed = await (await self._backend()).remove(self.name, [check_job_id(id_)], force=force)
        check_done(self.name, id_, "removed", changed)

    async def drain(self, states: Iterable[State | str] = NOT_STARTED, *, dry_run: bool = False) -> int:
        """Delete the jobs that have not started, in bounded steps; answers how many.

        Args:
            states: of scheduled, waiting and blocked; `["waiting"]` leaves delayed jobs alone.
            dry_run: delete nothing, and answer how many there are.

        Raises: InvalidSetting for a state in which a job runs or has ended.
        """
        chosen = check_states_among(states, NOT_STARTED, "drain")
        if dry_run:
            return await self.where(states=chosen).count()
        backend = await self._backend()
        return await _until_less(lambda most: backend.drain(self.name, most, chosen))

    async def purge(
        self,
        states: Iterable[State | str] = TERMINAL,
        *,
        older_than: Seconds = 0,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete jobs that ended in `states` at least `older_than` ago, in bounded steps; answers how many.

        Args:
            limit: that many at most, the longest ended first.
            dry_run: delete nothing, and answer how many there are.

        Raises: InvalidSetting for a state that is not terminal.
        """
        chosen = check_states_among(states, TERMINAL, "purge")
        older_than_ms = seconds_to_ms(older_than, "older_than")
        check_limit_of_jobs(limit)
        if dry_run:
            return await self.where(states=chosen, older_than=older_than or None, limit=limit).count()
        backend = await self._backend()
        return await _until_less(lambda most: backend.purge(self.name, chosen, older_than_ms, most), limit)

    async def obliterate(self, *, force: bool = False, dry_run: bool = False) -> int:
        """Delete every job of the queue; answers how many. A pause stays.

        Args:
            dry_run: delete nothing, and answer how many there are.

        Raises: IllegalMove while jobs are active, without `force`.
        """
        backend = await self._backend()
        if dry_run:
            counts = await backend.counts(self.name)
            removed = None if counts.active and not force else counts.stored
        else:
            removed = await backend.obliterate(self.name, force=force)
        if removed is None:
            raise IllegalMove(
                f"queue {shown(self.name)} has active jobs, so it cannot be obliterated: "
                "wait for them, or pass force=True (--force)"
            )
        return removed

    # ---- the same for callers without an event loop

    def counts_sync(self) -> Counts:
        """See `counts`."""
        return self._connections.call(self.counts, "queue.counts()")

    def pause_sync(self) -> None:
        """See `pause`."""
        self._connections.call(self.pause, "queue.pause()")

    def resume_sync(self) -> None:
        """See `resume`."""
        self._connections.call(self.resume, "queue.resume()")

    def get_sync(self, id_: str) -> JobRecord | None:
        """See `get`."""
        return self._connections.call(lambda: self.get(id_), "queue.get(...)")

    def find_sync(
        self,
        *,
        states: Iterable[State | str] = (),
        task: str | None = None,
        id_prefix: str | None = None,
        older_than: Seconds | None = None,
        oldest_first: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """See `find`."""
        return self._connections.call(
            lambda: self.find(
                states=states,
                task=task,
                id_prefix=id_prefix,
                older_than=older_than,
                oldest_first=oldest_first,
                cursor=cursor,
                limit=limit,
            ),
            "queue.find(...)",
        )

    def dead_sync(self, *, task: str | None = None, cursor: str | None = None, limit: int = 100) -> Page:
        """See `dead`."""
        return self.find_sync(states=DEAD, task=task, cursor=cursor, limit=limit)

    def every_dead_sync(self) -> Iterator[JobRecord]:
        """See `every_dead`."""
        return self._connections.iterate(self.every_dead, "queue.every_dead()")

    def cancel_sync(self, id_: str) -> CancelAnswer:
        """See `cancel`."""
        return self._connections.call(lambda: self.cancel(id_), "queue.cancel(...)")

    def promote_sync(self, id_: str) -> None:
        """See `promote`."""
        self._connections.call(lambda: self.promote(id_), "queue.promote(...)")

    def reprioritise_sync(self, id_: str, priority: int) -> None:
        """See `reprioritise`."""
        self._connections.call(lambda: self.reprioritise(id_, priority), "queue.reprioritise(...)")

    def reschedule_sync(
        self, id_: str, delay: Seconds | None = None, *, due_at: datetime | None = None
    ) -> None:
        """See `reschedule`."""
        self._connections.call(lambda: self.reschedule(id_, delay, due_at=due_at), "queue.reschedule(...)")

    def replay_sync(self, id_: str) -> None:
        """See `replay`."""
        self._connections.call(lambda: self.replay(id_), "queue.replay(...)")

    def remove_sync(self, id_: str, *, force: bool = False) -> None:
        """See `remove`."""
        self._connections.call(lambda: self.remove(id_, force=force), "queue.remove(...)")

    def drain_sync(self, states: Iterable[State | str] = NOT_STARTED, *, dry_run: bool = False) -> int:
        """See `drain`."""
        return self._connections.call(lambda: self.drain(states, dry_run=dry_run), "queue.drain()")

    def purge_sync(
        self,
        states: Iterable[State | str] = TERMINAL,
        *,
        older_than: Seconds = 0,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """See `purge`."""
        return self._connections.call(
            lambda: self.purge(states, older_than=older_than, limit=limit, dry_run=dry_run),
            "queue.purge(...)",
        )

    def obliterate_sync(self, *, force: bool = False, dry_run: bool = False) -> int:
        """See `obliterate`."""
        return self._connections.call(
            lambda: self.obliterate(force=force, dry_run=dry_run), "queue.obliterate(...)"
        )

    async def _backend(self) -> Backend:
        return (await self._connections.here()).backend


async def _until_less(step: Callable[[int], Awaitable[int]], limit: int | None = None) -> int:
    """Repeat a bounded step until it finds less than it may take, or `limit` is reached; answers the sum."""
    done = 0
    while limit is None or done < limit:
        most = STEP_LIMIT if limit is None else min(STEP_LIMIT, limit - done)
        found = await step(most)
        done += found
        if found < most:
            break
    return done
