"""Enqueues in the caller's own transaction, and those that would wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.client.intake import chunks
from leasemq.client.storing import Offer
from leasemq.context import open_block
from leasemq.errors import WouldDeadlock
from leasemq.operations import Joined
from leasemq.protocol.model import Enqueued, NewJob


async def store_in(joined: Joined, asked: Sequence[tuple[str, NewJob]]) -> list[Enqueued]:
    """Store jobs, each in its queue, in a transaction that somebody else commits; same order as `asked`.

    Raises: InvalidSession, BackendUnavailable, Refused; what went before it is in the transaction.
    """
    places: dict[str, list[int]] = {}
    for place, (queue, _) in enumerate(asked):
        places.setdefault(queue, []).append(place)
    stored: dict[int, Enqueued] = {}
    for queue, listed in places.items():
        answers: list[Enqueued] = []
        for chunk in chunks([Offer(job=asked[place][1], own_id=False) for place in listed]):
            answers += await joined.enqueue(queue, [offer.job for offer in chunk])
        stored.update(zip(listed, answers, strict=True))
    return [stored[place] for place in range(len(asked))]


def check_outside(store_id: str) -> None:
    """Raise WouldDeadlock inside of a function's transaction that keeps all others from this store."""
    block = open_block.get()
    if block is not None and block.is_open and block.store_id == store_id:
        raise WouldDeadlock(
            "this enqueue would wait for the transaction that it is made in, which has all of the store "
            "locked; say task.options(session=...) with the block's connection, and it is part of it"
        )
