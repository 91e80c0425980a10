"""What must happen elsewhere because of a job: follow-ups, dependants, parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.control import life
from leasemq.backends.redis.layout import POLICIES, STATES, numbers, ref_name, ref_of, short
from leasemq.backends.redis.leasing import unreadable
from leasemq.protocol.model import (
    Attached,
    FollowUp,
    FollowUpKind,
    NewJob,
    OnParentFailure,
    Ref,
)

_KINDS = (FollowUpKind.ATTACH, FollowUpKind.RESOLVE, FollowUpKind.OFFER)
_POLICIES = numbers(POLICIES)
_HEAD_BYTES = 13
_PART = 1_000
_LAST = 2**48  # follow-ups are numbered below
_unpack_job = msgspec.msgpack.Decoder(NewJob).decode


async def outbox(calls: Calls, queue: str, limit: int) -> Sequence[FollowUp]:
    """See `Work.outbox`. One that cannot be read stays where it is, out of the others' way."""
    found: list[FollowUp] = []
    last, left = 0, limit
    while left > 0:
        part = await calls.ask("outbox", queue, last, min(left, _PART))
        if not part:
            break
        found += [entry for raw in part if (entry := _follow_up(queue, raw)) is not None]
        last, left = int.from_bytes(part[-1][:6]), left - len(part)
    return tuple(found)


def _follow_up(queue: str, raw: bytes) -> FollowUp | None:
    try:
        kind, policy, outcome = _KINDS[raw[6] - 1], raw[7], raw[8]
        parent_at = _HEAD_BYTES + int.from_bytes(raw[9:11])
        job_at = parent_at + int.from_bytes(raw[11:13])
        parent = ref_of(raw[parent_at:job_at], queue)
        is_offer = kind is FollowUpKind.OFFER
        return FollowUp(
            id=int.from_bytes(raw[:6]),
            kind=kind,
            child=ref_of(raw[_HEAD_BYTES:parent_at], queue),
            parent=None if is_offer else parent,
            on_failure=POLICIES[policy - 1] if policy else OnParentFailure.FAIL,
            outcome=STATES[outcome - 1] if outcome else None,
            job=replace(_unpack_job(raw[job_at:]), creator=parent) if is_offer else None,
        )
    except (ValueError, LookupError, TypeError, msgspec.MsgspecError):
        return None


async def outbox_done(calls: Calls, queue: str, ids: Sequence[int]) -> None:
    """See `Work.outbox_done`."""
    for start in range(0, len(ids), _PART):
        part = [id_ for id_ in ids[start : start + _PART] if 0 < id_ < _LAST]
        await calls.ask("outbox_done", queue, part)


async def attach(
    calls: Calls, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure
) -> Attached:
    """See `Work.attach`. Raises: CorruptRecord."""
    name, policy = ref_name(child, queue), _POLICIES[on_failure]
    answer: Any = await calls.ask("attach", queue, short(parent_id), name, policy)
    if answer < 0:
        raise unreadable(queue, parent_id, "a dependant was to be attached to it")
    return Attached(known=answer > 0, ended=STATES[answer - 1] if answer > 1 else None)


async def resolve(calls: Calls, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
    """See `Work.resolve`. Raises: CorruptRecord."""
    queue = parent_queue.encode()
    parent = len(queue).to_bytes(2) + queue + short(parent_id)
    asked = (short(child.id), max(life(child.generation), 0), parent, int(passes))
    answer: Any = await calls.ask("resolve", child.queue, *asked)
    if answer < 0:
        raise unreadable(child.queue, child.id, "it was to be told of its parent")
    return bool(answer)
