"""What operators do to one queue and ask about it, in the words of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from leasemq.backend import Backend
from leasemq.client.connection import Connections
from leasemq.client.ids import new_request_number
from leasemq.client.repeating import until_answered
from leasemq.errors import IllegalMove, InvalidSetting, JobNotFound, UniqueConflict
from leasemq.protocol.insight import (
    CancelAnswer,
    Change,
    Changed,
    Counts,
    Filter,
    JobRecord,
    Page,
)
from leasemq.protocol.model import DEAD, PRIORITIES, TERMINAL, State
from leasemq.protocol.names import check_job_id, check_task_name, shown
from leasemq.protocol.times import seconds_to_ms
from leasemq.settings import Seconds

PAGE_LIMIT = 1_000
STEP_LIMIT = 1_000  # how many jobs one step of a bulk removal takes


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

    async def find(
        self,
        *,
        states: Iterable[State | str] = (),
        task: str | None = None,
        id_prefix: str | None = None,
        older_than: Seconds | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Answer jobs that match, newest accepted first; `page.cursor` goes on, None ends.

        Args:
            states: any, if none is given.
            older_than: since their end, or since they were accepted if they have not ended.
            limit: 1 to 1,000.

        Raises: InvalidSetting, InvalidName, InvalidDelay.
        """
        if type(limit) is not int or not 1 <= limit <= PAGE_LIMIT:
            raise InvalidSetting(f"limit={limit!r} is not a whole number from 1 to {PAGE_LIMIT}")
        where = Filter(
            states=_states(states),
            task=None if task is None else check_task_name(task),
            id_prefix=id_prefix or None,
            older_than_ms=None if older_than is None else seconds_to_ms(older_than, "older_than"),
        )
        return await (await self._backend()).find(self.name, where, cursor, limit)

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
        """Make a delayed job due now. Raises: JobNotFound, IllegalMove."""
        self._check(id_, "promoted", await (await self._backend()).promote(self.name, [check_job_id(id_)]))

    async def reprioritise(self, id_: str, priority: int) -> None:
        """Change the priority of a job that has not started.

        Raises: JobNotFound, IllegalMove, InvalidSetting.
        """
        if type(priority) is not int or priority not in PRIORITIES:
            raise InvalidSetting(f"priority={priority!r} is not a whole number from -100 to 100")
        backend = await self._backend()
        changed = await backend.reprioritise(self.name, [check_job_id(id_)], priority)
        self._check(id_, "reprioritised", changed)

    async def reschedule(self, id_: str, delay: Seconds) -> None:
        """Make a job that has not started due after `delay`; 0 means now.

        Raises: JobNotFound, IllegalMove, InvalidDelay.
        """
        backend = await self._backend()
        changed = await backend.reschedule(self.name, [check_job_id(id_)], seconds_to_ms(delay))
        self._check(id_, "rescheduled", changed)

    async def replay(self, id_: str) -> None:
        """Run a dead or cancelled job again, with its payload and history; counters and ttl are fresh.

        Repeated for a while if the backend does not answer, which replays the job once.

        Raises: JobNotFound, IllegalMove, UniqueConflict; IndeterminateWrite if no repeat was answered.
        """
        backend = await self._backend()
        ids, request = [check_job_id(id_)], new_request_number()
        self._check(id_, "replayed", await until_answered(lambda: backend.replay(self.name, ids, request)))

    async def remove(self, id_: str, *, force: bool = False) -> None:
        """Delete a job and all that is stored with it; a running one only with `force`.

        Raises: JobNotFound, IllegalMove.
        """
        backend = await self._backend()
        self._check(id_, "removed", await backend.remove(self.name, [check_job_id(id_)], force=force))

    async def drain(self) -> int:
        """Delete what has not started (waiting, scheduled, blocked), in bounded steps; answers how many."""
        backend = await self._backend()
        removed = step = await backend.drain(self.name, STEP_LIMIT)
        while step == STEP_LIMIT:
            step = await backend.drain(self.name, STEP_LIMIT)
            removed += step
        return removed

    async def purge(self, states: Iterable[State | str] = TERMINAL, *, older_than: Seconds = 0) -> int:
        """Delete jobs that ended in `states` at least `older_than` ago, in bounded steps; answers how many.

        Raises: InvalidSetting for a state that is not terminal.
        """
        chosen = _states(states)
        if not chosen or not chosen <= TERMINAL:
            allowed = ", ".join(sorted(TERMINAL))
            raise InvalidSetting(f"states={sorted(chosen)} are not all terminal; purge takes {allowed}")
        backend = await self._backend()
        older_than_ms = seconds_to_ms(older_than, "older_than")
        removed = step = await backend.purge(self.name, chosen, older_than_ms, STEP_LIMIT)
        while step == STEP_LIMIT:
            step = await backend.purge(self.name, chosen, older_than_ms, STEP_LIMIT)
            removed += step
        return removed

    async def obliterate(self, *, force: bool = False) -> int:
        """Delete every job of the queue; answers how many.

        Raises: IllegalMove while jobs are active, without `force`.
        """
        removed = await (await self._backend()).obliterate(self.name, force=force)
        if removed is None:
            raise IllegalMove(f"queue {shown(self.name)} has active jobs; wait for them, or pass force=True")
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

    def reschedule_sync(self, id_: str, delay: Seconds) -> None:
        """See `reschedule`."""
        self._connections.call(lambda: self.reschedule(id_, delay), "queue.reschedule(...)")

    def replay_sync(self, id_: str) -> None:
        """See `replay`."""
        self._connections.call(lambda: self.replay(id_), "queue.replay(...)")

    def remove_sync(self, id_: str, *, force: bool = False) -> None:
        """See `remove`."""
        self._connections.call(lambda: self.remove(id_, force=force), "queue.remove(...)")

    def drain_sync(self) -> int:
        """See `drain`."""
        return self._connections.call(self.drain, "queue.drain()")

    def purge_sync(self, states: Iterable[State | str] = TERMINAL, *, older_than: Seconds = 0) -> int:
        """See `purge`."""
        return self._connections.call(lambda: self.purge(states, older_than=older_than), "queue.purge(...)")

    def obliterate_sync(self, *, force: bool = False) -> int:
        """See `obliterate`."""
        return self._connections.call(lambda: self.obliterate(force=force), "queue.obliterate(...)")

    async def _backend(self) -> Backend:
        return (await self._connections.here()).backend

    def _check(self, id_: str, done: str, answers: Sequence[Changed]) -> None:
        (changed,) = answers
        match changed.change:
            case Change.NOT_FOUND:
                raise JobNotFound(f"no job {shown(id_)} in queue {shown(self.name)}")
            case Change.ILLEGAL:
                raise IllegalMove(f"job {shown(id_)} is {changed.state}, so it cannot be {done}")
            case Change.CONFLICT:
                holder = changed.holder.id if changed.holder is not None else "another job"
                raise UniqueConflict(
                    f"job {shown(id_)} cannot be {done}: its unique key is held by {shown(holder)}"
                )
            case Change.DONE:
                return


def _states(given: Iterable[State | str]) -> frozenset[State]:
    names = [given] if isinstance(given, str) else list(given)
    known = {state.value for state in State}
    for name in names:
        if name not in known:
            raise InvalidSetting(f"state {name!r} is not one of {', '.join(State)}")
    return frozenset(State(name) for name in names)
