"""Settle, alone and before a claim, and the notes of running attempts. See `Work.settle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasemq.backends.postgres.claiming import claim_arguments, claimed
from leasemq.backends.postgres.codes import ANSWERS, OUTCOME_CODES, STATE_CODES
from leasemq.backends.postgres.store import Store, packed
from leasemq.protocol.checks import check_lease, check_notes
from leasemq.protocol.model import (
    Claimant,
    Claimed,
    NewJob,
    Note,
    Noted,
    Settled,
    Settlement,
    Side,
)

_pack = msgspec.msgpack.Encoder().encode


async def settle(store: Store, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    """See `Work.settle`."""
    if not settlements:
        return ()
    ((answers,),) = await store.call("settle", store.now_ms, store.channel, queue, *arguments_of(settlements))
    return settled(answers, len(settlements))


async def exchange(
    store: Store,
    queue: str,
    settlements: Sequence[Settlement],
    limit: int,
    lease_ms: int,
    claimant: Claimant,
) -> tuple[Sequence[Settled], Claimed]:
    """See `Work.exchange`."""
    check_lease(lease_ms)
    rows = await store.call(
        "exchange",
        store.now_ms,
        store.channel,
        queue,
        *arguments_of(settlements),
        *claim_arguments(limit, lease_ms, claimant),
    )
    return settled(rows[-1][-1], len(settlements)), claimed(queue, rows, claimant)


def arguments_of(settlements: Sequence[Settlement]) -> tuple[object, ...]:
    """Answer the arguments of settle.sql after the queue."""
    if not settlements:
        return ([],) * 18
    return (
        [each.id for each in settlements],
        [each.job_id for each in settlements],
        packed([each.generation for each in settlements]),
        packed([each.fence.number for each in settlements]),
        packed([each.fence.nonce for each in settlements]),
        packed([OUTCOME_CODES[each.outcome] for each in settlements]),
        packed([STATE_CODES[each.state] for each in settlements]),
        packed([each.failures for each in settlements]),
        packed([each.stalls for each in settlements]),
        packed([each.side is Side.SWEEP for each in settlements]),
        packed([each.seen_cancel for each in settlements]),
        packed([each.delay_ms for each in settlements]),
        packed([each.suspect for each in settlements]),
        packed([each.result for each in settlements]),
        packed([each.error for each in settlements]),
        packed([each.reason for each in settlements]),
        packed([each.keep_ms for each in settlements]),
        packed([each.result_ms for each in settlements]),
    )


def settled(answers: Sequence[int], count: int) -> Sequence[Settled]:
    """Answer what settle.sql says; a single answer may stand for all."""
    found = tuple(ANSWERS[code] for code in answers)
    return found * count if len(found) == 1 else found


async def note(store: Store, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
    """See `Work.note`."""
    check_notes(notes)
    if not notes:
        return ()
    ((held,),) = await store.call(
        "note",
        store.now_ms,
        store.channel,
        queue,
        [each.job_id for each in notes],
        [each.fence.number for each in notes],
        [each.fence.nonce for each in notes],
        [each.kind.value for each in notes],
        [each.value for each in notes],
        [each.number for each in notes],
        [each.queue for each in notes],
        [None if each.child is None else each.child.id for each in notes],
        [None if each.child is None else packed_job(each.child) for each in notes],
    )
    return tuple(Noted.HELD if is_held else Noted.LOST for is_held in held)


def packed_job(job: NewJob) -> bytes:
    """Answer a job as an outbox entry carries it; its creator is the entry's parent."""
    return _pack(replace(job, creator=None))
