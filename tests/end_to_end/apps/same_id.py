"""Enqueues one id many times at once: `same_id ID TIMES`."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.end_to_end.apps.work import app_on, opened, scribe, task_of


async def enqueue_at_once(id_: str, times: int) -> None:
    """Wait for the gate, then call together."""
    app = app_on(os.environ["LEASEMQ_URL"])
    quick = task_of(app, "quick").options(id=id_)
    async with app:
        scribe().write("ready")
        await opened("go")
        jobs = await asyncio.gather(*(quick.enqueue() for _ in range(times)))
    for job in jobs:
        scribe().write("enqueued", job=job.id, created=job.created)


if __name__ == "__main__":
    asyncio.run(enqueue_at_once(sys.argv[1], int(sys.argv[2])))
