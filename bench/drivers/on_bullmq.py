"""Drives BullMQ's Python port on Redis: locks with tokens, acknowledgements, uvloop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import uvloop
from bullmq import Queue, Worker
from driving import PAYLOAD, answer, orders

CHUNK = 1_000
given = orders()
OPTIONS = {"connection": given.url}
KEEP_NONE = {"removeOnComplete": True}


async def main() -> None:
    """Do what the harness asks for."""
    if given.action == "work":
        ran = given.handler()

        async def bench(job: Any, token: object) -> None:  # Any: its Job has no types
            ran(job.data["a"])

        worker = Worker("bench", bench, {**OPTIONS, "concurrency": given.concurrency, "autorun": False})
        await worker.run()
        return
    queue = Queue("bench", OPTIONS)
    began = time.perf_counter()
    if given.action == "fill":
        for start in range(0, given.jobs, CHUNK):
            number = min(CHUNK, given.jobs - start)
            await queue.addBulk(
                [{"name": "bench", "data": {"a": PAYLOAD}, "opts": KEEP_NONE} for _ in range(number)]
            )
    elif given.action == "gathered":
        await asyncio.gather(*(call(queue) for _ in range(100)))
    else:
        for _ in range(given.jobs):
            is_timed = given.action == "timed"
            await queue.add("bench", {"a": str(time.monotonic_ns()) if is_timed else PAYLOAD}, KEEP_NONE)
            if is_timed:
                await asyncio.sleep(given.gap_s)
    answer(time.perf_counter() - began)
    await queue.close()


async def call(queue: Queue) -> None:
    """One of a hundred callers."""
    for _ in range(given.jobs // 100):
        await queue.add("bench", {"a": PAYLOAD}, KEEP_NONE)


uvloop.run(main())
