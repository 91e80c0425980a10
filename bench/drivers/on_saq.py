"""Drives SAQ on Redis or PostgreSQL, uvloop."""

from __future__ import annotations

import asyncio
import time

import uvloop
from driving import PAYLOAD, answer, orders
from saq import Queue, Worker

given = orders()


async def main() -> None:
    """Do what the harness asks for."""
    queue = Queue.from_url(given.url, name="bench")
    await queue.connect()
    if given.action == "work":
        ran = given.handler()

        async def bench(ctx: object, *, a: str) -> None:
            ran(a)

        await Worker(queue, [("bench", bench)], concurrency=given.concurrency).start()
        return
    began = time.perf_counter()
    if given.action in ("fill", "gathered"):  # it has no bulk call
        await asyncio.gather(*(call(queue) for _ in range(100)))
    else:
        for _ in range(given.jobs):
            is_timed = given.action == "timed"
            await queue.enqueue("bench", a=str(time.monotonic_ns()) if is_timed else PAYLOAD, ttl=1)
            if is_timed:
                await asyncio.sleep(given.gap_s)
    answer(time.perf_counter() - began)


async def call(queue: Queue) -> None:
    """One of a hundred callers."""
    for _ in range(given.jobs // 100):
        await queue.enqueue("bench", a=PAYLOAD, ttl=1)


uvloop.run(main())
