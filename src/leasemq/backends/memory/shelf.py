"""One queue in memory: its jobs, its order, its keys, its outbox, its events, its counts.

Every change of state goes through `place`, every end through `end`, every deletion through `drop`, so
that counts, order, freed keys, follow-ups and events cannot drift from the state.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leasemq.backends.memory.slips import Slips
from leasemq.backends.memory.stored import Stored
from leasemq.clock import Clock
from leasemq.protocol.insight import Event, EventKind
from leasemq.protocol.model import (
    TERMINAL,
    FollowUp,
    FollowUpKind,
    OnParentFailure,
    Ref,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)

Lane = list[tuple[int, int, str]]
STALE_ENTRIES = 1_000  # that a lane may have, beside as many as there are jobs


class Told(NamedTuple):
    """One event. Most are never read, so it becomes an `Event` only then."""

    number: int
    at_ms: int
    ref: Ref
    kind: EventKind
    state: State | None
    attempt: int

    def event(self) -> Event:
        """Answer it as a value."""
        return Event(
            cursor=str(self.number),
            at_ms=self.at_ms,
            ref=self.ref,
            kind=self.kind,
            state=self.state,
            attempt=self.attempt,
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """Who holds a unique key, and until when at the latest."""

    ref: Ref
    mode: UniqueMode
    until_ms: int | None


class Shelf:
    """All that one queue stores. Owner: the backend, under its lock."""

    def __init__(self, queue: str, clock: Clock, event_limit: int) -> None:
        self.queue = queue
        self.clock = clock
        self.paused = False
        self.jobs: dict[str, Stored] = {}
        self.aliases: dict[str, str] = {}  # ids merged into another job
        self.waiting: OrderedDict[str, Stored] = OrderedDict()  # longest waiting first
        self.active: dict[str, Stored] = {}
        self.ready: Lane = []
        self.suspects: Lane = []
        self.suspect_for = ("", 0)  # the incarnation told to run empty, and until when
        self.due: Lane = []
        self.ttl: Lane = []
        self.kept: Lane = []
        self.gone: dict[State, Lane] = {state: [] for state in TERMINAL}  # by when they ended
        self.slips = Slips()
        self.holds: dict[str, Hold] = {}
        self.outbox: dict[int, FollowUp] = {}
        self.counts: Counter[str] = Counter()
        self.events: deque[Told] = deque()
        self.event_limit = event_limit
        self.event_number = 0
        self.has_news = False  # events were added in this turn
        self.order = 0
        self.follow_ups = 0
        self.woken = False
        self.cancels: set[Ref] = set()
        self.ended: set[Ref] = set()

    def next_order(self) -> int:
        """Answer the next place in the queue's order."""
        self.order += 1
        return self.order

    def place(self, job: Stored, state: State, kind: EventKind) -> None:
        """Move a job to `state`: the only way in which a state changes."""
        if job.state is None:
            self.counts["accepted"] += 1
            job.born = str(self.event_number)
        else:
            self._leave(job)
        job.state = state
        job.order = self.next_order()
        job.since_ms = now = self.clock()
        self.counts[state] += 1
        id_ = job.ref.id
        if state is State.WAITING:
            self.waiting[id_] = job
        elif state is State.ACTIVE:
            self.active[id_] = job
        self.woken = self.woken or state in (State.WAITING, State.SCHEDULED)
        self._line_up(job)
        self._write(job, kind, now)

    def _line_up(self, job: Stored) -> None:
        """Put a job into the lanes of its state."""
        assert job.state is not None
        id_ = job.ref.id
        if job.state is State.WAITING:
            self.rank(job)
        elif job.state is State.SCHEDULED:
            heapq.heappush(self.due, (job.due_ms, job.order, id_))
        elif job.state.is_terminal:
            heapq.heappush(self.kept, (job.prune_ms, job.order, id_))
            heapq.heappush(self.gone[job.state], (job.ended_ms or 0, job.accepted, id_))
        if job.expires_ms is not None and not job.state.is_terminal:
            heapq.heappush(self.ttl, (job.expires_ms, job.accepted, id_))

    def rank(self, job: Stored) -> None:
        """Put a waiting job into its lane at its priority."""
        heapq.heappush(self.suspects if job.suspect else self.ready, (-job.priority, job.order, job.ref.id))

    def end(self, job: Stored, state: State, kind: EventKind, keep_ms: int) -> None:
        """End a job: key freed, dependants told through the outbox, record kept `keep_ms` or dropped now."""
        job.ended_ms = self.clock()
        job.keep_until_ms = job.ended_ms + keep_ms
        job.lease_until_ms = None
        self.free_key(job, at=UniqueUntil.END)
        self._tell_dependants(job, state)
        self.place(job, state, kind)
        self.ended.add(job.ref)
        if keep_ms == 0:
            self.retire(job)

    def retire(self, job: Stored) -> None:
        """Delete a job whose time is over; a result to be kept longer than its record stays as a slip."""
        self.slips.take(job, self.clock())
        self.drop(job)

    def drop(self, job: Stored) -> None:
        """Delete a job and all that is stored with it."""
        assert job.state is not None
        if not job.state.is_terminal:
            self._tell_dependants(job, None)
        self._leave(job)
        del self.jobs[job.ref.id]
        self.free_key(job, at=UniqueUntil.END)
        for alias in job.aliases:
            if self.aliases.get(alias) == job.ref.id:  # it may have been merged elsewhere since
                del self.aliases[alias]
        self.counts["removed"] += 1
        job.state = None
        self.tell(job, EventKind.REMOVED)

    def _leave(self, job: Stored) -> None:
        assert job.state is not None
        self.counts[job.state] -= 1
        if job.state is State.WAITING:
            del self.waiting[job.ref.id]
        elif job.state is State.ACTIVE:
            del self.active[job.ref.id]

    def tell(self, job: Stored, kind: EventKind, value: bytes | None = None) -> None:
        """Write one event, into the job's own trail too; the newest are kept."""
        self._write(job, kind, self.clock(), value)

    def _write(self, job: Stored, kind: EventKind, now: int, value: bytes | None = None) -> None:
        if job.trail is not None:
            job.trace(now, kind, value)
        self.event_number += 1
        self.has_news = True
        self.events.append(Told(self.event_number, now, job.ref, kind, job.state, job.attempts))
        if len(self.events) > self.event_limit:
            self.events.popleft()

    def follow_up(self, entry: FollowUp) -> None:
        """Record what must happen elsewhere; its id is given here."""
        self.outbox[entry.id] = entry

    def next_follow_up(self) -> int:
        """Answer a fresh id for an outbox entry."""
        self.follow_ups += 1
        return self.follow_ups

    def attach_to_parents(self, job: Stored, parents: Iterable[tuple[str, str, OnParentFailure]]) -> None:
        """Have each parent told, through the outbox, that this job waits for it."""
        for queue, id_, on_failure in parents:
            self.follow_up(
                FollowUp(
                    id=self.next_follow_up(),
                    kind=FollowUpKind.ATTACH,
                    child=job.ref,
                    parent=Ref(queue=queue, id=id_, generation=0),
                    on_failure=on_failure,
                )
            )

    def _tell_dependants(self, job: Stored, outcome: State | None) -> None:
        for child, on_failure in job.dependants.items():
            self.follow_up(
                FollowUp(
                    id=self.next_follow_up(),
                    kind=FollowUpKind.RESOLVE,
                    child=child,
                    parent=job.ref,
                    on_failure=on_failure,
                    outcome=outcome,
                )
            )

    def holder(self, key: str) -> Hold | None:
        """Answer who holds a key now."""
        hold = self.holds.get(key)
        is_over = hold is not None and hold.until_ms is not None and hold.until_ms <= self.clock()
        return None if is_over else hold

    def forget_lapsed_keys(self) -> None:
        """Forget the holds whose window is over. Only a sweep does, so that a look changes nothing."""
        self.holds = {key: hold for key, hold in self.holds.items() if self.holder(key) is not None}

    def take_key(self, ref: Ref, unique: Unique) -> None:
        """Give a free key to a job. A debounce's window is its quiet time, not a bound of the key."""
        has_bound = unique.window_ms is not None and unique.mode is not UniqueMode.DEBOUNCE
        until = self.clock() + unique.window_ms if has_bound and unique.window_ms is not None else None
        self.holds[unique.key] = Hold(ref, unique.mode, until)

    def free_key(self, job: Stored, at: UniqueUntil) -> None:
        """Free the job's key if it is due at its start or at its end; a throttle only by its window."""
        if job.unique is None or job.unique.mode is UniqueMode.THROTTLE:
            return
        if at is UniqueUntil.START and job.unique.until is UniqueUntil.END:
            return
        hold = self.holds.get(job.unique.key)
        if hold is not None and hold.ref == job.ref:
            del self.holds[job.unique.key]

    def known(self, id_: str) -> Stored | None:
        """Answer the job that an id stands for: its own, or the one it was merged into."""
        return self.jobs.get(self.aliases.get(id_, id_))

    def first_ready(self, lane: Lane, limit: int, *, stays: bool = False) -> list[Stored]:
        """Answer the next `limit` jobs of a lane, forgetting stale entries and passing over overdue ones.

        They leave the lane, as they are about to start, unless each `stays`.
        """
        found: list[Stored] = []
        back: Lane = []
        last: tuple[int, int, str] | None = None
        now = self.clock()
        while lane and len(found) < limit:
            priority, order, id_ = entry = heapq.heappop(lane)
            job = self.waiting.get(id_)
            is_here = job is not None and job.suspect == (lane is self.suspects)
            is_stale = job is None or not is_here or (-job.priority, job.order) != (priority, order)
            if job is None or is_stale or entry == last:  # a priority changed there and back
                continue
            last = entry
            if job.expires_ms is None or job.expires_ms > now:
                found.append(job)
                if not stays:
                    continue
            back.append(entry)
        for entry in back:
            heapq.heappush(lane, entry)
        return found

    def forget_stale(self) -> None:
        """Make the lanes anew if one is mostly of entries whose jobs are gone, or have moved on."""
        lanes = (self.ready, self.suspects, self.due, self.ttl, self.kept, *self.gone.values())
        if max(map(len, lanes)) <= 2 * len(self.jobs) + STALE_ENTRIES:
            return
        for lane in lanes:
            lane.clear()
        for job in self.jobs.values():
            self._line_up(job)

    def longest_ended(self, state: State) -> Stored:
        """Answer the job of a terminal state that ended first, past stale entries; there must be one."""
        lane = self.gone[state]
        while True:
            ended_ms, accepted, id_ = lane[0]
            job = self.jobs.get(id_)
            is_here = job is not None and job.state is state
            if job is not None and is_here and (job.ended_ms, job.accepted) == (ended_ms, accepted):
                return job
            heapq.heappop(lane)

    def first_due(self) -> Stored | None:
        """Answer the scheduled job due next, past stale entries."""
        while self.due:
            due_ms, order, id_ = self.due[0]
            job = self.jobs.get(id_)
            is_here = job is not None and job.state is State.SCHEDULED
            if job is not None and is_here and (job.due_ms, job.order) == (due_ms, order):
                return job
            heapq.heappop(self.due)
        return None

    def next_due_in_ms(self) -> int | None:
        """Answer how long until a scheduled job is due."""
        job = self.first_due()
        return None if job is None else max(0, job.due_ms - self.clock())

    def next_lapse_in_ms(self) -> int | None:
        """Answer how long until the first running lease ends, if it is not renewed."""
        ends = [job.lease_until_ms for job in self.active.values() if job.lease_until_ms is not None]
        return max(0, min(ends) - self.clock()) if ends else None

    def overdue(self) -> Iterator[Stored]:
        """Yield the jobs past their ttl that are not active, in order of ttl, taking each off the list."""
        now = self.clock()
        while self.ttl and self.ttl[0][0] <= now:
            expires_ms, accepted, id_ = self.ttl[0]
            job = self.jobs.get(id_)
            is_live = job is not None and job.state in (State.SCHEDULED, State.WAITING, State.BLOCKED)
            if job is not None and is_live and (job.expires_ms, job.accepted) == (expires_ms, accepted):
                yield job
            heapq.heappop(self.ttl)
