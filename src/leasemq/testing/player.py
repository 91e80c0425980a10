"""Plays calls on one backend: the whole contract, in words small enough to be drawn, shrunk and printed.

A call never holds a lease or a cursor, only the number of one that was seen before, so any part of a
script is a script, and the same script means the same on two backends that answer alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from leasemq.backend import Backend
from leasemq.errors import LeaseMQError
from leasemq.operations import ANY_STATE
from leasemq.protocol.decide import (
    Happened,
    Hopeless,
    Interrupted,
    Raised,
    Reason,
    Returned,
    Silent,
    Snoozed,
    Unfit,
    decide,
    passes,
)
from leasemq.protocol.insight import Filter, Schedule, WorkerInfo
from leasemq.protocol.model import (
    NOT_STARTED,
    Claimant,
    Fence,
    FollowUp,
    FollowUpKind,
    Keep,
    Lease,
    NewJob,
    Note,
    NoteKind,
    OnParentFailure,
    Parent,
    Ref,
    Settled,
    Settlement,
    State,
    Unique,
)
from leasemq.protocol.retry import Retry
from leasemq.testing.manual_clock import ManualClock

QUEUES = ("q", "q:2")
IDS = ("a", "b", "c", "d", "e", "f", "g")
CROWD = (*(f"c{number}" for number in range(25)), *(f"{number:032x}" for number in range(5)))
WORKERS = ("A", "B")
SCHEDULES = ("hourly", "nightly")
ENDLESS = Retry(max_retries=None)
HAPPENINGS: dict[str, Happened] = {
    "returned": Returned(result=b"42"),
    "raised": Raised(error=b"boom", after_ms=0),
    "raised, later": Raised(error=b"boom later", after_ms=100),
    "dead": Hopeless(error=b"dead", reason=Reason.DEAD),
    "interrupted": Interrupted(),
    "snoozed": Snoozed(delay_ms=100),
    "unfit": Unfit(),
    "silent": Silent(),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a script: a method of `Player` and its arguments."""

    name: str
    arguments: tuple[tuple[str, Any], ...]  # Any: names, numbers and small values

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={brief(value)}" for name, value in self.arguments)
        return f"{self.name}({inner})"


def brief(value: object) -> str:
    """Show a value without the fields that have their default."""
    match value:
        case StrEnum():
            return value.value
        case tuple() | list() | frozenset():
            return "[" + ", ".join(map(brief, value)) + "]"
        case NewJob() | Unique() | Parent() | Keep() | Filter():
            told = {field.name: getattr(value, field.name) for field in fields(value)}
            usual = {field.name: field.default for field in fields(value)}
            inner = ", ".join(f"{name}={brief(told[name])}" for name in told if told[name] != usual[name])
            return f"{type(value).__name__}({inner})"
        case _:
            return repr(value)


class Player:
    """One backend and what has been seen of it so far. Owner: one run of a script."""

    def __init__(self, backend: Backend, clock: ManualClock) -> None:
        self.backend = backend
        self._clock = clock
        self._leases: dict[str, list[Lease]] = {queue: [] for queue in QUEUES}
        self._settled: list[Settlement] = []
        self._requests: list[str] = []
        self._cursors: dict[str, list[str]] = {queue: [""] for queue in QUEUES}
        self._pages: dict[str, str | None] = {}
        self._numbers = 0

    async def play(self, call: Call) -> object:
        """Make one call; what the contract lets an operation raise is an answer too, by its name."""
        try:
            answer: object = await getattr(self, call.name)(**dict(call.arguments))
        except LeaseMQError as refusal:
            return type(refusal).__name__
        return answer

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _lease(self, queue: str, which: int) -> Lease | None:
        leases = self._leases[queue]
        return leases[-1 - which % len(leases)] if leases else None

    # ---- work

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> object:
        return await self.backend.enqueue(queue, jobs)

    async def claim(
        self, queue: str, limit: int, worker: str, again: int, suspect: bool, lease_ms: int
    ) -> object:
        claimed = await self.backend.claim(queue, limit, lease_ms, self._claimant(worker, again, suspect))
        self._leases[queue] += claimed.leases
        return claimed

    def _claimant(self, worker: str, again: int, suspect: bool) -> Claimant:
        """A fresh claimant, or, for `again` above 0, one with a request id that was used before."""
        if again and self._requests:
            request = self._requests[-again % len(self._requests)]
        else:
            request = f"{self._number():032x}"
            self._requests.append(request)
        return Claimant(worker=worker, incarnation=f"{worker}-1", request_id=request, takes_suspect=suspect)

    async def settle(self, queue: str, what: Sequence[tuple[int, str, str, bool]]) -> object:
        return await self.backend.settle(queue, self._settlements(queue, what))

    async def exchange(
        self, queue: str, what: Sequence[tuple[int, str, str, bool]], limit: int, worker: str
    ) -> object:
        claimant = self._claimant(worker, 0, suspect=False)
        settled, claimed = await self.backend.exchange(
            queue, self._settlements(queue, what), limit, 1_000, claimant
        )
        self._leases[queue] += claimed.leases
        return settled, claimed

    def _settlements(self, queue: str, what: Sequence[tuple[int, str, str, bool]]) -> list[Settlement]:
        made = []
        for which, happened, twist, seen_cancel in what:
            lease = self._lease(queue, which)
            if twist == "repeated" and self._settled:
                made.append(self._settled[-1 - which % len(self._settled)])
            elif lease is not None:
                settlement = decide(
                    twisted(lease, twist), HAPPENINGS[happened],
                    settlement_id=self._number(), retry=ENDLESS, cancel_requested=seen_cancel,
                )  # fmt: skip
                self._settled.append(settlement)
                made.append(settlement)
        return made

    async def renew(self, queue: str, which: Sequence[int], twist: str, lease_ms: int) -> object:
        found = [self._lease(queue, number) for number in which]
        leases = [twisted(lease, twist) for lease in found if lease is not None]
        renewer = self.backend.renewer()
        try:
            return renewer.renew(queue, [(lease.ref.id, lease.fence) for lease in leases], lease_ms)
        finally:
            renewer.close()

    async def note(
        self, queue: str, which: int, kind: NoteKind, twist: str, child: NewJob, number: int
    ) -> object:
        lease = self._lease(queue, which)
        if lease is None:
            return None
        lease = twisted(lease, twist)
        note = Note(job_id=lease.ref.id, fence=lease.fence, kind=kind, value=child.payload, number=number)
        if kind is NoteKind.OFFER:
            note = replace(note, value=b"", queue=QUEUES[1], child=replace(child, creator=lease.ref))
        return await self.backend.note(queue, [note])

    async def sweep(self, queue: str, limit: int, after_ms: int) -> object:
        self._clock.step(after_ms)
        leases = await self.backend.expired(queue, limit)
        answers = []
        for lease in leases:
            (answer,) = await self.backend.settle(queue, [self._for_the_dead(lease, seen_cancel=False)])
            if answer is Settled.CANCEL_REQUESTED:
                (answer,) = await self.backend.settle(queue, [self._for_the_dead(lease, seen_cancel=True)])
            answers.append(answer)
        return leases, answers

    def _for_the_dead(self, lease: Lease, *, seen_cancel: bool) -> Settlement:
        return decide(lease, Silent(), settlement_id=self._number(), cancel_requested=seen_cancel)

    async def advance(self, queue: str, limit: int) -> object:
        return await self.backend.advance(queue, limit)

    async def prune(self, queue: str, limit: int, newest: int) -> object:
        return await self.backend.prune(queue, limit, newest=newest)

    async def relay(self, queue: str, limit: int, forgets: bool) -> object:
        """Carry out follow-ups; without `forgets` as by a process that died before it forgot them."""
        entries = await self.backend.outbox(queue, limit)
        answers = [await self._follow(entry) for entry in entries]
        if forgets:
            await self.backend.outbox_done(queue, [entry.id for entry in entries])
        return entries, answers

    async def _follow(self, entry: FollowUp) -> object:
        if entry.kind is FollowUpKind.OFFER:
            assert entry.job is not None
            return await self.backend.enqueue(entry.child.queue, [entry.job])
        parent = entry.parent
        assert parent is not None
        outcome = entry.outcome
        if entry.kind is FollowUpKind.ATTACH:
            attached = await self.backend.attach(parent.queue, parent.id, entry.child, entry.on_failure)
            if attached.known and attached.ended is None:
                return attached
            outcome = attached.ended
        verdict = passes(entry.on_failure, outcome)
        return verdict if verdict is None else await self._resolve(entry.child, parent, passes=verdict)

    async def _resolve(self, child: Ref, parent: Ref, *, passes: bool) -> bool:
        return await self.backend.resolve(child, parent.queue, parent.id, passes=passes)

    async def attach(self, queue: str, parent: str, child: str, policy: OnParentFailure) -> object:
        return await self.backend.attach(queue, parent, Ref(queue=queue, id=child, generation=1), policy)

    async def resolve(self, queue: str, child: str, parent: str, passes: bool) -> object:
        ref = Ref(queue=queue, id=child, generation=1)
        return await self._resolve(ref, Ref(queue=queue, id=parent, generation=0), passes=passes)

    # ---- control

    async def cancel(self, queue: str, ids: Sequence[str]) -> object:
        return await self.backend.cancel(queue, ids)

    async def cancel_started(self, queue: str, which: int) -> object:
        lease = self._lease(queue, which)
        return None if lease is None else await self.backend.cancel(queue, [lease.ref.id])

    async def pause(self, queue: str) -> None:
        await self.backend.pause(queue)

    async def resume(self, queue: str) -> None:
        await self.backend.resume(queue)

    async def promote(self, queue: str, ids: Sequence[str]) -> object:
        return await self.backend.promote(queue, ids)

    async def reprioritise(self, queue: str, ids: Sequence[str], priority: int) -> object:
        return await self.backend.reprioritise(queue, ids, priority)

    async def reschedule(
        self, queue: str, ids: Sequence[str], delay_ms: int, from_now_ms: int | None = None
    ) -> object:
        due_at_ms = None if from_now_ms is None else self._clock() + from_now_ms
        return await self.backend.reschedule(queue, ids, delay_ms, due_at_ms)

    async def replay(self, queue: str, ids: Sequence[str], request: int) -> object:
        return await self.backend.replay(queue, ids, request)

    async def remove(
        self, queue: str, ids: Sequence[str], force: bool, states: frozenset[State] = ANY_STATE
    ) -> object:
        return await self.backend.remove(queue, ids, force=force, states=states)

    async def drain(self, queue: str, limit: int, states: frozenset[State] = NOT_STARTED) -> object:
        return await self.backend.drain(queue, limit, states)

    async def purge(self, queue: str, states: frozenset[State], age_ms: int, limit: int) -> object:
        return await self.backend.purge(queue, states, age_ms, limit)

    async def obliterate(self, queue: str, force: bool) -> object:
        return await self.backend.obliterate(queue, force=force)

    # ---- insight

    async def find(self, queue: str, where: Filter, limit: int, goes_on: bool) -> object:
        page = await self.backend.find(queue, where, self._pages.get(queue) if goes_on else None, limit)
        self._pages[queue] = page.cursor
        return page

    async def events(self, queue: str, since: int | None, limit: int) -> object:
        """Read events after a cursor that was seen before; None: no events, but the newest cursor."""
        cursors = self._cursors[queue]
        cursor = None if since is None else cursors[-1 - since % len(cursors)]
        page = await self.backend.events(queue, cursor, limit)
        cursors.append(page.cursor)
        return page

    async def trail(self, queue: str, id_: str, generation: int | None, limit: int) -> object:
        """Read a trail page by page, as far as four pages go."""
        cursor, told = None, []
        for _ in range(4):
            page = await self.backend.trail(queue, id_, generation, cursor, limit)
            told.append(page)
            cursor = None if page is None else page.cursor
        return told

    async def announce(self, worker: str, running: int, ttl_ms: int) -> None:
        info = WorkerInfo(
            worker=worker, incarnation=f"{worker}-1", host="h", pid=1, version="1", queues=QUEUES,
            slots=2, running=running,
        )  # fmt: skip
        await self.backend.announce(info, ttl_ms)

    async def retire(self, worker: str) -> None:
        await self.backend.retire(f"{worker}-1")

    # ---- schedules and time

    async def put_schedule(self, name: str, queue: str, cursor_ms: int, paused: bool) -> None:
        schedule = Schedule(name=name, queue=queue, spec=name.encode(), cursor_ms=cursor_ms, paused=paused)
        await self.backend.put_schedule(schedule)

    async def delete_schedule(self, name: str) -> object:
        return await self.backend.delete_schedule(name)

    async def advance_schedule(self, name: str, seen_ms: int, new_ms: int, jobs: Sequence[NewJob]) -> object:
        return await self.backend.advance_schedule(name, seen_ms, new_ms, jobs)

    async def move_clock(self, by_ms: int) -> object:
        self._clock.step(by_ms)
        return await self.backend.now_ms()

    # ---- everything at once

    async def dump(self) -> object:
        """Answer all that can be read."""
        backend, ids = self.backend, (*IDS, *CROWD)
        everything: dict[str, object] = {
            "queues": await backend.queues(),
            "workers": await backend.workers(),
            "schedules": await backend.schedules(),
        }
        for queue in QUEUES:
            records = await backend.get(queue, ids)
            everything[f"records of {queue}"] = records
            known = [id_ for id_, record in zip(ids, records, strict=True) if record is not None]
            lives = [(id_, generation) for id_ in ids for generation in range(4)]
            everything[f"slips of {queue}"] = await backend.slips(queue, lives)
            everything[f"all of {queue}"] = [
                record.ref for record in (await backend.find(queue, Filter(), None, 1_000)).jobs
            ]
            everything[f"counts of {queue}"] = await backend.counts(queue)
            everything[f"standing in {queue}"] = [await backend.standing(queue, id_) for id_ in known]
            everything[f"trails of {queue}"] = [
                await backend.trail(queue, id_, None, None, 1_000) for id_ in known
            ]
            everything[f"outbox of {queue}"] = await backend.outbox(queue, 1_000)
            everything[f"expired of {queue}"] = await backend.expired(queue, 1_000)
            for worker in WORKERS:
                everything[f"{worker} in {queue}"] = await backend.claimed_by(queue, f"{worker}-1")
        return everything


def twisted(lease: Lease, twist: str) -> Lease:
    """The lease as a confused or malicious holder would show it."""
    fence = lease.fence
    match twist:
        case "number":
            return replace(lease, fence=Fence(number=fence.number - 1, nonce=fence.nonce))
        case "nonce":
            return replace(lease, fence=Fence(number=fence.number, nonce="f" * 32))
        case "generation":
            return replace(lease, ref=replace(lease.ref, generation=lease.ref.generation + 1))
        case "unknown job":
            return replace(lease, ref=replace(lease.ref, id="nobody"))
        case _:
            return lease
