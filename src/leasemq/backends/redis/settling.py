"""Settle, exchange, note and advance: what is packed for the scripts, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Raw, msgpack

from leasemq.backends.redis.arguments import item, word
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.layout import NOTES, OUTCOMES, STATES, numbers, ref_name, short
from leasemq.backends.redis.leasing import claimed, packed_claimant, unreadable
from leasemq.protocol.checks import check_lease, check_notes
from leasemq.protocol.model import (
    Advanced,
    Claimant,
    Claimed,
    Note,
    Noted,
    NoteKind,
    Ref,
    Settled,
    Settlement,
    Side,
)

_OUTCOMES, _STATES, _NOTES = numbers(OUTCOMES), numbers(STATES), numbers(NOTES)
_SETTLED = (
    Settled.APPLIED, Settled.REPLAYED, Settled.HELD, Settled.CANCEL_REQUESTED, Settled.LOST, Settled.GONE,
)  # fmt: skip
_NOTED = (Noted.HELD, Noted.LOST)


async def settle(calls: Calls, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    """See `Work.settle`."""
    if not settlements:
        return ()
    return _settled(queue, settlements, await calls.ask("settle", queue, [*map(_item, settlements)]))


async def exchange(
    calls: Calls, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
) -> tuple[Sequence[Settled], Claimed]:
    """See `Work.exchange`."""
    check_lease(lease_ms)
    items = [*map(_item, settlements)]
    answers, taken = await calls.ask("exchange", queue, items, limit, lease_ms, *packed_claimant(claimant))
    return _settled(queue, settlements, answers), claimed(queue, taken)


async def note(calls: Calls, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
    """See `Work.note`."""
    check_notes(notes)
    if not notes:
        return ()
    answers = await calls.ask("note", queue, [_packed_note(queue, each) for each in notes])
    for each, answer in zip(notes, answers, strict=True):
        if answer == 0:
            raise unreadable(queue, each.job_id, "a note met it")
    return tuple(_NOTED[answer - 1] for answer in answers)


async def advance(calls: Calls, queue: str, limit: int) -> Advanced:
    """See `Work.advance`."""
    promoted, expired, next_due_in_ms = await calls.ask("advance", queue, max(limit, 0))
    return Advanced(
        promoted=promoted, expired=expired, next_due_in_ms=None if next_due_in_ms < 0 else next_due_in_ms
    )


def _item(settlement: Settlement) -> Raw:
    """Answer a settlement as settling.lua takes it."""
    return item(
        word(settlement.id.to_bytes(8)),
        word(short(settlement.job_id)),
        settlement.generation,
        settlement.fence.number,
        word(short(settlement.fence.nonce)),
        _OUTCOMES[settlement.outcome],
        _STATES[settlement.state],
        settlement.failures,
        settlement.stalls,
        int(settlement.side is Side.SWEEP),
        int(settlement.seen_cancel),
        settlement.delay_ms,
        int(settlement.suspect),
        False if settlement.result is None else word(settlement.result),
        False if settlement.error is None else word(settlement.error),
        False if settlement.reason is None else word(settlement.reason.encode()),
        -1 if settlement.keep_ms is None else settlement.keep_ms,
        -1 if settlement.result_ms is None else settlement.result_ms,
    )


def _settled(queue: str, settlements: Sequence[Settlement], answers: Sequence[Any]) -> tuple[Settled, ...]:
    """Answer what settling.lua answered. Raises: CorruptRecord, when the rest of the batch is written."""
    for settlement, answer in zip(settlements, answers, strict=True):
        if answer == 0:
            raise unreadable(queue, settlement.job_id, "a settlement met it")
    return tuple(_SETTLED[answer - 1] for answer in answers)


def _packed_note(queue: str, note: Note) -> tuple[object, ...]:
    child: object = False
    if note.kind is NoteKind.OFFER:
        assert note.child is not None
        name = ref_name(Ref(queue=note.queue, id=note.child.id, generation=0), queue)
        child = (name, packed_offer(note))
    fence = note.fence
    return (
        short(note.job_id),
        fence.number,
        short(fence.nonce),
        _NOTES[note.kind],
        note.value,
        note.number,
        child,
    )


def packed_offer(note: Note) -> bytes:
    """Answer the child of an offer as the outbox keeps it: its creator is the parent named there."""
    assert note.child is not None
    return msgpack.encode(replace(note.child, creator=None))
