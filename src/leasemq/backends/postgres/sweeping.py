"""What is past its retention goes. See `leasemq.backend.Work.prune`."""

from __future__ import annotations

from leasemq.backends.postgres.store import Store

_MOST_ROUNDS = 20  # of one sweep, over what others add faster than one step forgets


async def prune(store: Store, queue: str, limit: int, event_age_ms: int, newest: int) -> int:
    """See `Work.prune`."""
    ((taken, has_more),) = await store.call(
        "prune",
        *(
            store.now_ms,
            store.channel,
            queue,
            max(limit, 0),
            event_age_ms,
            newest,
            store.settings.event_limit,
        ),
    )
    for _ in range(_MOST_ROUNDS):
        if not has_more:
            break
        ((has_more,),) = await store.call(
            "tidy", store.now_ms, queue, event_age_ms, store.settings.event_limit
        )
    return int(taken)
