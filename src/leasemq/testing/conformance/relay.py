"""Carries follow-ups out, one by one and in full, so that a test can stop between any two steps."""

from __future__ import annotations

from collections.abc import Iterable

from leasemq.backend import Backend
from leasemq.protocol.decide import passes
from leasemq.protocol.model import FollowUp, FollowUpKind, OnParentFailure, Ref, State

PAGE = 500
ROUNDS = 50  # follow-ups make follow-ups; a chain in a test is shorter than this


async def carry_out(backend: Backend, queues: Iterable[str]) -> int:
    """Carry out every follow-up of these queues and those that they make; answers how many there were."""
    names = list(queues)
    done = 0
    for _ in range(ROUNDS):
        found = 0
        for queue in names:
            found += await carry_out_once(backend, queue)
        if not found:
            return done
        done += found
    raise AssertionError(f"follow-ups of {names} do not come to an end")


async def carry_out_once(backend: Backend, queue: str) -> int:
    """Carry out what one queue's outbox holds now, then forget it."""
    entries = await backend.outbox(queue, PAGE)
    for entry in entries:
        await carry_out_entry(backend, entry)
    await backend.outbox_done(queue, [entry.id for entry in entries])
    return len(entries)


async def carry_out_entry(backend: Backend, entry: FollowUp) -> None:
    """Do what one follow-up says, without forgetting it; doing it again must be harmless."""
    match entry.kind:
        case FollowUpKind.OFFER:
            assert entry.job is not None, f"an offer without a job: {entry}"
            await backend.enqueue(entry.child.queue, [entry.job])
        case FollowUpKind.ATTACH:
            parent = _parent(entry)
            attached = await backend.attach(parent.queue, parent.id, entry.child, entry.on_failure)
            if not attached.known or attached.ended is not None:
                await tell(backend, entry.child, parent, entry.on_failure, attached.ended)
        case FollowUpKind.RESOLVE:
            await tell(backend, entry.child, _parent(entry), entry.on_failure, entry.outcome)


async def tell(
    backend: Backend, child: Ref, parent: Ref, on_failure: OnParentFailure, outcome: State | None
) -> None:
    """Tell a dependant how its parent ended."""
    verdict = passes(on_failure, outcome)
    if verdict is not None:
        await backend.resolve(child, parent.queue, parent.id, passes=verdict)


def _parent(entry: FollowUp) -> Ref:
    assert entry.parent is not None, f"a follow-up of a parent names none: {entry}"
    return entry.parent
