"""What must happen elsewhere because of a job. See `leasemq.backend.Work.outbox`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from leasemq.backends.postgres.codes import STATES
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.protocol.model import Attached, FollowUp, FollowUpKind, NewJob, OnParentFailure, Ref

_unpack_job = msgspec.msgpack.Decoder(NewJob).decode


async def outbox(store: Store, queue: str, limit: int) -> Sequence[FollowUp]:
    """See `Work.outbox`."""
    entries = [_follow_up(row) for row in await store.call("outbox", queue, max(limit, 0))]
    return tuple(entry for entry in entries if entry is not None)


def _follow_up(row: Row) -> FollowUp | None:
    """Answer the entry; one that cannot be read stays where it is, out of the others' way."""
    try:
        kind = FollowUpKind(row[1])
        parent = None if row[5] is None else Ref(queue=row[5], id=row[6], generation=row[7])
        offered = kind is FollowUpKind.OFFER
        return FollowUp(
            id=row[0],
            kind=kind,
            child=Ref(queue=row[2], id=row[3], generation=row[4]),
            parent=None if offered else parent,
            on_failure=OnParentFailure(row[8]),
            outcome=None if row[9] is None else STATES[row[9]],
            job=replace(_unpack_job(row[10]), creator=parent) if offered else None,
        )
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError):
        return None


async def outbox_done(store: Store, queue: str, ids: Sequence[int]) -> None:
    """See `Work.outbox_done`."""
    if ids:
        await store.call("outbox_done", queue, list(ids))


async def attach(
    store: Store, queue: str, parent_id: str, child: Ref, on_failure: OnParentFailure
) -> Attached:
    """See `Work.attach`."""
    ((ended,),) = await store.call(
        "attach", queue, parent_id, child.queue, child.id, child.generation, on_failure.value
    )
    return Attached(known=ended is not None, ended=STATES.get(ended))


async def resolve(store: Store, child: Ref, parent_queue: str, parent_id: str, *, passes: bool) -> bool:
    """See `Work.resolve`."""
    ((changed,),) = await store.call(
        "resolve",
        *(store.now_ms, store.channel, child.queue, child.id, child.generation),
        *(parent_queue, parent_id, passes),
    )
    return bool(changed)
