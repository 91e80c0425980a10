"""What must happen elsewhere because a job was enqueued or ended, carried out from the outbox.

An entry is forgotten only after it was carried out, so a crash in between repeats it: harmlessly.
"""

from __future__ import annotations

from typing import assert_never

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError
from leasemq.protocol.decide import passes
from leasemq.protocol.model import FollowUp, FollowUpKind, Ref, State


async def follow_up(backend: Backend, queue: str, limit: int) -> int:
    """Carry out up to `limit` entries of a queue's outbox, and of those that they fill; answers how many.

    Raises:
        BackendUnavailable, IndeterminateWrite: The rest stays in the outbox.
        LeaseMQError: An entry could not be carried out. It stays; the others were.
    """
    done = 0
    refusal: LeaseMQError | None = None
    pending = [queue]
    while pending and done < limit:
        here = pending.pop()
        entries = await backend.outbox(here, limit - done)
        carried: list[int] = []
        for entry in entries:
            try:
                filled = await _carry_out(backend, entry)
            except (BackendUnavailable, IndeterminateWrite):
                raise
            except LeaseMQError as error:
                refusal = refusal or error
                continue
            carried.append(entry.id)
            if filled is not None and filled not in pending:
                pending.append(filled)
        if carried:
            await backend.outbox_done(here, carried)
        done += len(carried)
    if refusal is not None:
        raise refusal
    return done


async def _carry_out(backend: Backend, entry: FollowUp) -> str | None:
    """Do what one entry says; answers the queue whose outbox it may have filled."""
    match entry.kind:
        case FollowUpKind.ATTACH:
            parent = _parent_of(entry)
            attached = await backend.attach(parent.queue, parent.id, entry.child, entry.on_failure)
            if attached.known and attached.ended is None:
                return None
            return await _resolve(backend, entry, parent, attached.ended)
        case FollowUpKind.RESOLVE:
            return await _resolve(backend, entry, _parent_of(entry), entry.outcome)
        case FollowUpKind.OFFER:
            if entry.job is None:
                raise AssertionError(f"outbox entry {entry.id} offers no job")
            await backend.enqueue(entry.child.queue, [entry.job])
            return entry.child.queue if entry.job.parents else None
        case _:
            assert_never(entry.kind)


async def _resolve(backend: Backend, entry: FollowUp, parent: Ref, outcome: State | None) -> str | None:
    verdict = passes(entry.on_failure, outcome)
    if verdict is None:
        return None
    changed = await backend.resolve(entry.child, parent.queue, parent.id, passes=verdict)
    has_ended = changed and not verdict
    return entry.child.queue if has_ended else None


def _parent_of(entry: FollowUp) -> Ref:
    if entry.parent is None:
        raise AssertionError(f"outbox entry {entry.id} ({entry.kind}) names no parent")
    return entry.parent
