"""A queue's counts, and the clock. See `Insight.counts`, `Insight.now_ms`."""

from __future__ import annotations

from typing import Final, cast

from leasemq.backends.redis.calling import Calls
from leasemq.protocol.insight import Counts

_FIELDS: Final = (
    "scheduled", "waiting", "active", "blocked", "completed", "failed", "cancelled", "expired",
    "accepted", "removed", "refused", "stalls", "releases",
)  # fmt: skip


async def counts(calls: Calls, queue: str) -> Counts:
    """See `Insight.counts`."""
    answer = await calls.ask("counts", queue)
    *numbers, paused, oldest_waiting_ms = answer
    return Counts(
        queue=queue,
        paused=paused == 1,
        oldest_waiting_ms=oldest_waiting_ms,
        **dict(zip(_FIELDS, numbers, strict=True)),
    )


async def now_ms(calls: Calls) -> int:
    """See `Insight.now_ms`."""
    clock = calls.link.settings.clock
    if clock is not None:
        return clock()
    seconds, microseconds = cast(list[bytes], await calls.link.command("TIME"))
    return int(seconds) * 1_000 + int(microseconds) // 1_000
