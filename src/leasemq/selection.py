"""Jobs of one queue, chosen by ids or by a filter, and what operators do to all of them in bounded steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime

from leasemq.backend import Backend
from leasemq.client.connection import Connections
from leasemq.client.ids import new_request_number
from leasemq.client.portion import Portion
from leasemq.client.repeating import until_answered
from leasemq.errors import IllegalMove, InvalidSetting, JobNotFound, UniqueConflict
from leasemq.operations import ANY_STATE
from leasemq.protocol.checks import LAST_INSTANT_MS, check_priority
from leasemq.protocol.insight import CancelAnswer, Change, Changed, Filter, Page
from leasemq.protocol.model import DEAD, NOT_STARTED, TERMINAL, Ref, State
from leasemq.protocol.names import shown
from leasemq.protocol.times import due_at_ms, seconds_to_ms
from leasemq.settings import Seconds

PAGE_LIMIT = 1_000
STEP_LIMIT = 1_000  # jobs that one step changes: what others wait for
NOT_DONE_LIMIT = 100  # jobs that an answer names

ALL_JOBS = Filter()
REPLAYABLE = DEAD | {State.CANCELLED}
RESCHEDULABLE = frozenset({State.SCHEDULED, State.WAITING})

_REMEDIES = {
    "promoted": "only a scheduled job can be",
    "reprioritised": "only a job that has not started can be",
    "rescheduled": "only a scheduled or waiting job can be",
    "replayed": "only a failed, expired or cancelled job can be",
    "removed": "cancel it and wait for its end, or pass force=True (--force)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDone:
    """A job that a bulk action did not change, and why."""

    id: str
    change: Change
    state: State | None  # that it was found in; None: there is no such job
    holder: Ref | None = None  # of its unique key


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a bulk action did, or what a dry run says that it would do."""

    done: int = 0
    cancelling: int = 0  # they run, and are told to stop
    conflicts: int = 0  # replay: another job holds the unique key; a dry run does not look
    left_alone: int = 0  # their state did not allow it
    not_found: int = 0
    dry_run: bool = False
    not_done: tuple[NotDone, ...] = ()  # the first hundred of those that were not done

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            done=self.done + other.done,
            cancelling=self.cancelling + other.cancelling,
            conflicts=self.conflicts + other.conflicts,
            left_alone=self.left_alone + other.left_alone,
            not_found=self.not_found + other.not_found,
            dry_run=self.dry_run,
            not_done=(self.not_done + other.not_done)[:NOT_DONE_LIMIT],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A job as it was read: its id, and None where there is no job of that id."""

    id: str
    state: State | None


Answer = CancelAnswer | Changed
_Act = Callable[[Backend, Sequence[str]], Awaitable[Sequence[Answer]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Jobs of one queue: `queue.these(ids)` or `queue.where(...)`. Nothing is read before it is asked for.

    Each job is changed in one atomic step, if the state that the write finds allows it; so whatever else
    happens meanwhile, no job is left between two states. Jobs are taken the oldest accepted first, at most
    1,000 in a step, and workers claim between the steps. What is accepted, or ends, after the action began
    is not met by it.
    """

    queue: str
    ids: tuple[str, ...] | None = None  # None: by `chosen`
    chosen: Filter = ALL_JOBS
    limit: int | None = None
    _connections: Connections = field(repr=False, compare=False)

    async def count(self) -> int:
        """Answer how many there are; from the stored counts where only states are asked for."""
        backend = await self._backend()
        if self.ids is None and self.limit is None and self.chosen == Filter(states=self.chosen.states):
            counts = await backend.counts(self.queue)
            return sum(getattr(counts, state.value) for state in self.chosen.states or ANY_STATE)
        found = 0
        async with aclosing(self._steps(backend, self.chosen.states)) as steps:
            async for step in steps:
                found += sum(job.state is not None for job in step)
        return found

    async def page(self, *, cursor: str | None = None, limit: int = 100, oldest_first: bool = False) -> Page:
        """Answer some of the jobs that the filter chooses, newest accepted first; see `Queue.find`.

        Raises: InvalidSetting, also for jobs that were chosen by ids: those are read with `queue.get`.
        """
        if self.ids is not None:
            raise InvalidSetting("jobs chosen by ids have no pages; read them with queue.get(id)")
        if type(limit) is not int or not 1 <= limit <= PAGE_LIMIT:
            raise InvalidSetting(f"limit={limit!r} is not a whole number from 1 to {PAGE_LIMIT}")
        where = replace(self.chosen, oldest_first=oldest_first)
        return await (await self._backend()).find(self.queue, where, cursor, limit)

    async def replay(self, *, dry_run: bool = False) -> Tally:
        """Run dead jobs again, with their payload, id and history; counters and ttl are fresh.

        Without `states`: those that failed or expired, and not what was cancelled on purpose.

        Raises: IndeterminateWrite if a step was not answered; done again, it replays none twice.
        """

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[Changed]:
            request = new_request_number()
            return await until_answered(lambda: backend.replay(self.queue, ids, request))

        return await self._all(act, REPLAYABLE, dry_run=dry_run, usual=DEAD)

    async def cancel(self, *, dry_run: bool = False) -> Tally:
        """Cancel: what has not started never does, what runs is told to stop (`cancelling`).

        Also what was chosen as waiting and started before its turn came.
        """

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[CancelAnswer]:
            return await backend.cancel(self.queue, ids)

        told = frozenset({State.ACTIVE})
        return await self._all(act, ANY_STATE - TERMINAL, dry_run=dry_run, told=told)

    async def promote(self, *, dry_run: bool = False) -> Tally:
        """Make scheduled jobs due now."""

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[Changed]:
            return await backend.promote(self.queue, ids)

        return await self._all(act, frozenset({State.SCHEDULED}), dry_run=dry_run)

    async def reprioritise(self, priority: int, *, dry_run: bool = False) -> Tally:
        """Change the priority of jobs that have not started; among their equals their age decides.

        Raises: InvalidSetting.
        """
        check_priority(priority)

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[Changed]:
            return await backend.reprioritise(self.queue, ids, priority)

        return await self._all(act, NOT_STARTED, dry_run=dry_run)

    async def reschedule(
        self, delay: Seconds | None = None, *, due_at: datetime | None = None, dry_run: bool = False
    ) -> Tally:
        """Make scheduled and waiting jobs due after `delay`, or at an aware datetime; see `Queue.reschedule`.

        Raises: InvalidSetting, InvalidDelay, NaiveDatetime.
        """
        delay_ms, due_ms = moved_to(delay, due_at)

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[Changed]:
            return await backend.reschedule(self.queue, ids, delay_ms, due_ms)

        return await self._all(act, RESCHEDULABLE, dry_run=dry_run)

    async def remove(self, *, force: bool = False, dry_run: bool = False) -> Tally:
        """Delete jobs and all that is stored with them; running ones only with `force`.

        A job that has left the states asked for before its turn comes is left alone. The worker of a
        running one loses its lease.
        """
        states = self.chosen.states or ANY_STATE

        async def act(backend: Backend, ids: Sequence[str]) -> Sequence[Changed]:
            return await backend.remove(self.queue, ids, force=force, states=states)

        legal = ANY_STATE if force else ANY_STATE - {State.ACTIVE}
        return await self._all(act, legal, dry_run=dry_run)

    # ---- the same for callers without an event loop

    def count_sync(self) -> int:
        """See `count`."""
        return self._connections.call(self.count, "selection.count()")

    def page_sync(self, *, cursor: str | None = None, limit: int = 100, oldest_first: bool = False) -> Page:
        """See `page`."""
        return self._connections.call(
            lambda: self.page(cursor=cursor, limit=limit, oldest_first=oldest_first), "selection.page()"
        )

    def replay_sync(self, *, dry_run: bool = False) -> Tally:
        """See `replay`."""
        return self._connections.call(lambda: self.replay(dry_run=dry_run), "selection.replay()")

    def cancel_sync(self, *, dry_run: bool = False) -> Tally:
        """See `cancel`."""
        return self._connections.call(lambda: self.cancel(dry_run=dry_run), "selection.cancel()")

    def promote_sync(self, *, dry_run: bool = False) -> Tally:
        """See `promote`."""
        return self._connections.call(lambda: self.promote(dry_run=dry_run), "selection.promote()")

    def reprioritise_sync(self, priority: int, *, dry_run: bool = False) -> Tally:
        """See `reprioritise`."""
        return self._connections.call(
            lambda: self.reprioritise(priority, dry_run=dry_run), "selection.reprioritise(...)"
        )

    def reschedule_sync(
        self, delay: Seconds | None = None, *, due_at: datetime | None = None, dry_run: bool = False
    ) -> Tally:
        """See `reschedule`."""
        return self._connections.call(
            lambda: self.reschedule(delay, due_at=due_at, dry_run=dry_run), "selection.reschedule(...)"
        )

    def remove_sync(self, *, force: bool = False, dry_run: bool = False) -> Tally:
        """See `remove`."""
        return self._connections.call(lambda: self.remove(force=force, dry_run=dry_run), "selection.remove()")

    async def _backend(self) -> Backend:
        return (await self._connections.here()).backend

    async def _all(
        self,
        act: _Act,
        legal: frozenset[State],
        *,
        dry_run: bool,
        usual: frozenset[State] = frozenset(),
        told: frozenset[State] = frozenset(),
    ) -> Tally:
        """Act on each. `usual`: the states where none are asked for; `told`: those that are only told."""
        backend = await self._backend()
        total = Tally(dry_run=dry_run)
        if self.ids is not None and not dry_run:  # the write itself sees what there is, unreadable or not
            for start in range(0, len(self.ids), STEP_LIMIT):
                part = self.ids[start : start + STEP_LIMIT]
                total += _told(part, await act(backend, part))
            return total
        async with aclosing(self._steps(backend, self.chosen.states or usual or legal)) as steps:
            async for step in steps:
                if dry_run:
                    total += _foreseen(step, legal, told)
                else:
                    ids = [job.id for job in step]
                    total += _told(ids, await act(backend, ids))
        return total

    def _steps(self, backend: Backend, states: frozenset[State]) -> AsyncGenerator[list[_Found], None]:
        """Answer the jobs in parts that fit into one step."""
        return self._matching(backend, states) if self.ids is None else self._named(backend, self.ids)

    async def _named(self, backend: Backend, left: Sequence[str]) -> AsyncGenerator[list[_Found], None]:
        portion = Portion()
        while left:
            part, left = left[: portion.limit], left[portion.limit :]
            records = await backend.get(self.queue, part)
            portion.weigh(records)
            pairs = zip(part, records, strict=True)
            yield [_Found(id=id_, state=None if one is None else one.state) for id_, one in pairs]

    async def _matching(
        self, backend: Backend, states: frozenset[State]
    ) -> AsyncGenerator[list[_Found], None]:
        began_ms, left = await backend.now_ms(), self.limit
        cursor: str | None = None
        while left is None or left > 0:
            since_ms = max(0, await backend.now_ms() - began_ms)
            where = replace(_as_of(self.chosen, since_ms), states=states, oldest_first=True)
            most = STEP_LIMIT if left is None else min(STEP_LIMIT, left)
            page = await backend.find(self.queue, where, cursor, most)
            if page.jobs:
                yield [_Found(id=record.ref.id, state=record.state) for record in page.jobs]
            if page.cursor is None:
                return
            cursor, left = page.cursor, None if left is None else left - len(page.jobs)


def _as_of(chosen: Filter, since_ms: int) -> Filter:
    """Answer the filter that chooses now what this one chose then: whatever is younger came after."""
    newer_than_ms = chosen.newer_than_ms
    return replace(
        chosen,
        older_than_ms=(chosen.older_than_ms or 0) + since_ms,
        newer_than_ms=None if newer_than_ms is None else newer_than_ms + since_ms,
    )


def moved_to(delay: Seconds | None, due_at: datetime | None) -> tuple[int, int | None]:
    """Answer a delay in milliseconds, and the instant that wins over it.

    Raises: InvalidSetting unless one of the two is given, InvalidDelay, NaiveDatetime.
    """
    if due_at is not None and delay is None:
        return 0, min(max(0, due_at_ms(due_at)), LAST_INSTANT_MS)
    if delay is not None and due_at is None:
        return seconds_to_ms(delay), None
    raise InvalidSetting(f"delay={delay!r} and due_at={due_at!r}: give one of them")


def check_done(queue: str, id_: str, done: str, answers: Sequence[Changed]) -> None:
    """See that a change to one job was made. Raises: JobNotFound, IllegalMove, UniqueConflict."""
    (changed,) = answers
    match changed.change:
        case Change.NOT_FOUND:
            raise JobNotFound(f"no job {shown(id_)} in queue {shown(queue)}")
        case Change.ILLEGAL:
            remedy = _REMEDIES[done]
            raise IllegalMove(f"job {shown(id_)} is {changed.state}, so it cannot be {done}: {remedy}")
        case Change.CONFLICT:
            holder = changed.holder.id if changed.holder is not None else "another job"
            raise UniqueConflict(
                f"job {shown(id_)} cannot be {done}: its unique key is held by {shown(holder)}; "
                "wait for the end of that job, cancel it, or remove it"
            )
        case Change.DONE:
            return


def _foreseen(step: Sequence[_Found], legal: frozenset[State], told: frozenset[State]) -> Tally:
    missing = [job for job in step if job.state is None]
    others = [job for job in step if job.state is not None and job.state not in legal]
    cancelling = sum(job.state in told for job in step)
    return Tally(
        done=len(step) - len(missing) - len(others) - cancelling,
        cancelling=cancelling,
        not_found=len(missing),
        left_alone=len(others),
        not_done=tuple(
            NotDone(
                id=job.id, change=Change.NOT_FOUND if job.state is None else Change.ILLEGAL, state=job.state
            )
            for job in [*missing, *others][:NOT_DONE_LIMIT]
        ),
    )


def _told(ids: Sequence[str], answers: Sequence[Answer]) -> Tally:
    changes = [answer if isinstance(answer, Changed) else _as_changed(answer) for answer in answers]
    kinds = [changed.change for changed in changes]
    cancelling = sum(answer is CancelAnswer.CANCELLING for answer in answers)
    return Tally(
        done=kinds.count(Change.DONE) - cancelling,
        cancelling=cancelling,
        conflicts=kinds.count(Change.CONFLICT),
        left_alone=kinds.count(Change.ILLEGAL),
        not_found=kinds.count(Change.NOT_FOUND),
        not_done=tuple(
            NotDone(id=id_, change=one.change, state=one.state, holder=one.holder)
            for id_, one in zip(ids, changes, strict=True)
            if one.change is not Change.DONE
        )[:NOT_DONE_LIMIT],
    )


def _as_changed(answer: CancelAnswer) -> Changed:
    match answer:
        case CancelAnswer.CANCELLED | CancelAnswer.CANCELLING:
            return Changed(change=Change.DONE)
        case CancelAnswer.FINISHED:
            return Changed(change=Change.ILLEGAL)
        case CancelAnswer.NOT_FOUND:
            return Changed(change=Change.NOT_FOUND)
