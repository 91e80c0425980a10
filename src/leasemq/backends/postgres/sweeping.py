"""What is past its retention goes. See `leasemq.backend.Work.prune`."""

from __future__ import annotations

from leasemq.backends.postgres.store import Store


async def prune(store: Store, queue: str, limit: int, event_age_ms: int, newest: int) -> int:
    """See `Work.prune`."""
    ((taken,),) = await store.call(
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
    return int(taken)
