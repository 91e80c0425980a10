"""What goes on beside the claiming loop, so that no queue waits for another that cannot be reached."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError
from leasemq.events import StraysReleased, SweepFailed
from leasemq.maintenance import Chore
from leasemq.protocol.model import Advanced
from leasemq.worker.claims import Answered
from leasemq.worker.company import Entry
from leasemq.worker.crew import Crew


def take_late(crew: Crew) -> None:
    """Take what claims brought that were aside: what finds no room by now is given back."""
    while crew.claims.late:
        _take(crew, crew.claims.late.popleft())


async def take_the_last(crew: Crew) -> None:
    """Return when every claim was answered, or is certain to have taken nothing."""
    take_late(crew)
    while crew.claims.is_asking:
        await crew.attention(crew.idle_ms)
        take_late(crew)


def _take(crew: Crew, answered: Answered) -> None:
    entry = crew.company.enter(crew.member)
    is_closed = entry is Entry.CLOSED or crew.suspect_queue is not None
    leases = answered.claimed.leases
    fitting = [one for one in leases if entry is Entry.ALONE or not one.suspect]
    fitting = fitting[: 0 if is_closed else crew.attempts.room]
    surplus = [one for one in leases if one not in fitting]
    crew.attempts.give_back(surplus, answered.sent_ms, crew.claim_lease_ms)
    crew.take(answered.of_these(fitting))
    if surplus:
        crew.outlook.hear([answered.queue])
    if entry is not Entry.CLOSED:
        crew.company.leave(crew.member, stays_alone=crew.suspect_held or crew.suspect_queue is not None)
    if answered.had_failed and crew.claims.aside is not None and not crew.stopping.is_set():
        crew.claims.aside.create_task(_release_strays(crew, answered.queue))
    else:
        crew.outlook.open(answered.queue)


async def _release_strays(crew: Crew, queue: str) -> None:
    """Look for them until that was possible; the queue is not asked meanwhile."""
    while not await _has_released_strays(crew, queue):
        await crew.link.pause(f"strays {queue}")
        if crew.stopping.is_set():
            return
    crew.outlook.open(queue)
    crew.draw_attention()


async def _has_released_strays(crew: Crew, queue: str) -> bool:
    """Give back the leases of this life that nobody here knows, left by a claim whose answer was lost."""
    known = crew.attempts.known()  # before asking: the answer may name what ended meanwhile
    leases = await crew.claims.own_leases(queue)
    if leases is None:
        return False
    known |= crew.attempts.known()
    strays = [lease for lease in leases if (lease.ref, lease.fence) not in known]
    if strays:
        crew.attempts.give_back(strays, crew.clock(), crew.claim_lease_ms)
        crew.herald.tell(StraysReleased(queue=queue, count=len(strays)))
    return True


async def release_strays_within(crew: Crew, time_ms: int) -> None:
    """Look where leases may have come unheard, if that can be done in this time; else they expire."""
    with suppress(TimeoutError):
        async with asyncio.timeout(time_ms / 1_000), asyncio.TaskGroup() as looks:
            for queue in crew.claims.unheard():
                looks.create_task(_has_released_strays(crew, queue))


def advance_due(crew: Crew, aside: asyncio.TaskGroup) -> None:
    """Let jobs that are due by now wait in order, and expect the next ones when they are due."""
    for queue in crew.outlook.due(crew.clock()):
        if queue not in crew.advancing:
            crew.advancing.add(queue)
            aside.create_task(_advance(crew, queue))


async def _advance(crew: Crew, queue: str) -> None:
    who = f"advance {queue}"
    moved: Advanced | None = None
    while moved is None:
        try:
            moved = await crew.backend.advance(queue, crew.settings.sweep_batch)
        except (BackendUnavailable, IndeterminateWrite) as error:
            crew.link.failed(who, error)
            await crew.link.pause(who)
            if crew.stopping.is_set():
                return
        except LeaseMQError as error:  # a record that cannot be read; the sweep will look again
            told = f"{type(error).__name__}: {error}"
            crew.herald.tell(SweepFailed(queue=queue, chore=Chore.ADVANCE.value, error=told))
            crew.link.worked(who)
            crew.advancing.discard(queue)
            return
    crew.link.worked(who)
    crew.advancing.discard(queue)
    crew.outlook.promise(queue, crew.clock(), moved.next_due_in_ms)
    crew.outlook.hear([queue])
    crew.draw_attention()
