"""What is taken in bounded steps, and without a decision in it. See `Work.prune`."""

from __future__ import annotations

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.control import exact

_PART = 1_000


async def prune(calls: Calls, queue: str, limit: int, event_age_ms: int, newest: int) -> int:
    """See `Work.prune`."""
    left, taken = max(limit, 0), 0
    while True:
        asked = min(left, _PART)
        part: int = await calls.ask("prune", queue, asked, exact(event_age_ms), max(exact(newest), 0))
        taken, left = taken + part, left - part
        if left <= 0 or part < asked:
            return taken
