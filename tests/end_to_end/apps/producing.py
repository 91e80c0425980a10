"""Enqueues no-op jobs: `producing COUNT`."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.end_to_end.apps.work import app_on, task_of

CHUNK = 500


async def produce(count: int) -> None:
    """Enqueue so many, in chunks."""
    app = app_on(os.environ["LEASEMQ_URL"])
    counted = task_of(app, "counted")
    async with app:
        for start in range(0, count, CHUNK):
            await counted.enqueue_many([()] * min(CHUNK, count - start))


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[1])))
