"""Drives taskiq on Redis: streams with acknowledgements (RedisStreamBroker), uvloop."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import uvloop
from driving import PAYLOAD, answer, orders
from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

given = orders()
broker = RedisStreamBroker(given.url)
ran = given.handler() if given.action == "work" else None


@broker.task(task_name="bench")
async def bench(argument: str) -> None:
    """The job."""
    assert ran is not None
    ran(argument)


async def main() -> None:
    """Do what the harness asks for."""
    broker.is_worker_process = given.action == "work"
    await broker.startup()
    if given.action == "work":
        with ThreadPoolExecutor(2) as pool:
            receiver = Receiver(
                broker=broker,
                executor=pool,
                max_async_tasks=given.concurrency,
                max_prefetch=given.concurrency,
                run_startup=False,
            )
            await receiver.listen(asyncio.Event())
        return
    began = time.perf_counter()
    if given.action == "timed":
        for _ in range(given.jobs):
            await bench.kiq(str(time.monotonic_ns()))
            await asyncio.sleep(given.gap_s)
    elif given.action == "single":
        for _ in range(given.jobs):
            await bench.kiq(PAYLOAD)
    else:  # it has no bulk call
        await asyncio.gather(*(call() for _ in range(100)))
    answer(time.perf_counter() - began)
    await broker.shutdown()


async def call() -> None:
    """One of a hundred callers."""
    for _ in range(given.jobs // 100):
        await bench.kiq(PAYLOAD)


uvloop.run(main())
