"""Settle, exchange, note and advance: what is packed for the scripts, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from struct import Struct

from msgspec import Raw, msgpack

from leasemq.backends.redis.arguments import item, word
from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.layout import NOTES, OUTCOMES, PLAIN_ID_LENGTH, STATES, numbers, ref_name, short
from leasemq.backends.redis.leasing import claimed, packed_claimant, unreadable
from leasemq.protocol.checks import check_lease, check_notes
from leasemq.protocol.model import (
    Advanced,
    Claimant,
    Claimed,
    Note,
    Noted,
    NoteKind,
    Outcome,
    Ref,
    Settled,
    Settlement,
    Side,
    State,
)

_OUTCOMES, _STATES, _NOTES = numbers(OUTCOMES), numbers(STATES), numbers(NOTES)
_SETTLED = (
    Settled.APPLIED, Settled.REPLAYED, Settled.HELD, Settled.CANCEL_REQUESTED, Settled.LOST, Settled.GONE,
)  # fmt: skip
_APPLIED = b"\1"
_COMPLETION = Struct(">QI7sBBI")  # but for id and result
_LONGEST_RUN, _MOST_NONCES = 500, 250
_NOTED = (Noted.HELD, Noted.LOST)


async def settle(calls: Calls, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    """See `Work.settle`."""
    if not settlements:
        return ()
    return _settled(queue, settlements, await calls.ask("settle", queue, _rows(settlements)))


async def exchange(
    calls: Calls, queue: str, settlements: Sequence[Settlement], limit: int, lease_ms: int, claimant: Claimant
) -> tuple[Sequence[Settled], Claimed]:
    """See `Work.exchange`."""
    check_lease(lease_ms)
    answers, taken = await calls.ask(
        "exchange", queue, _rows(settlements), limit, lease_ms, *packed_claimant(claimant)
    )
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


def _rows(settlements: Sequence[Settlement]) -> list[Raw]:
    """Answer rows as completing.lua takes them: one by one, or runs of completions that are alike."""
    rows: list[Raw] = []
    run = _Run()
    for settlement in settlements:
        if not _is_completion(settlement):
            run.end_in(rows)
            rows.append(_item(settlement))
            continue
        if not run.takes(settlement):
            run.end_in(rows)
        run.add(settlement)
    run.end_in(rows)
    return rows


class _Run:
    """Completions that are alike, one behind the other. Owner: the call that packs them."""

    def __init__(self) -> None:
        self._shape: tuple[object, ...] = ()  # what they have in common
        self._nonces: dict[str, int] = {}
        self._packed: list[bytes] = []

    def takes(self, settlement: Settlement) -> bool:
        """Whether it is like the others, and there is room for it."""
        has_room = len(self._packed) < _LONGEST_RUN * 3 and len(self._nonces) < _MOST_NONCES
        return has_room and _shape(settlement) == self._shape

    def add(self, settlement: Settlement) -> None:
        """Pack it."""
        if not self._packed:
            self._shape = _shape(settlement)
        id_, result, fence = short(settlement.job_id), settlement.result, settlement.fence
        head = _COMPLETION.pack(
            settlement.id,
            settlement.generation,
            fence.number.to_bytes(7),
            self._nonces.setdefault(fence.nonce, len(self._nonces) + 1),
            len(id_),
            0 if result is None else len(result) + 1,
        )
        self._packed += (head, id_, result or b"")

    def end_in(self, rows: list[Raw]) -> None:
        """Make a row of them, if there are any, and begin anew."""
        if self._packed:
            nonces = [word(short(nonce)) for nonce in self._nonces]
            rows.append(item(*self._shape, nonces, word(b"".join(self._packed))))
            self._nonces, self._packed = {}, []


def _shape(settlement: Settlement) -> tuple[object, ...]:
    return (
        settlement.failures,
        settlement.stalls,
        int(settlement.seen_cancel),
        settlement.keep_ms,
        -1 if settlement.result_ms is None else settlement.result_ms,
    )


def _is_completion(settlement: Settlement) -> bool:
    return (
        settlement.outcome is Outcome.COMPLETED
        and settlement.state is State.COMPLETED
        and settlement.side is Side.HOLDER
        and settlement.error is None
        and settlement.reason is None
        and not settlement.suspect
        and bool(settlement.keep_ms)
        and len(settlement.job_id) <= PLAIN_ID_LENGTH
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


def _settled(queue: str, settlements: Sequence[Settlement], answers: bytes) -> tuple[Settled, ...]:
    """Answer what settle.lua answered. Raises: CorruptRecord, when the rest of the batch is written."""
    if answers == _APPLIED * len(settlements):
        return (Settled.APPLIED,) * len(settlements)
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
