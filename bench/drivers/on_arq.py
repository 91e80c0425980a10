"""Drives arq on Redis, uvloop."""

from __future__ import annotations

import asyncio
import time

import uvloop
from arq import Worker, create_pool, func
from arq.connections import ArqRedis, RedisSettings
from driving import PAYLOAD, answer, orders

given = orders()


async def main() -> None:
    """Do what the harness asks for."""
    pool = await create_pool(RedisSettings.from_dsn(given.url))
    if given.action == "work":
        ran = given.handler()

        async def bench(ctx: object, argument: str) -> None:
            ran(argument)

        worker = Worker(
            [func(bench, name="bench", keep_result=0)],
            redis_pool=pool,
            max_jobs=given.concurrency,
            poll_delay=0.01,
            handle_signals=False,
        )
        await worker.async_run()
        return
    began = time.perf_counter()
    if given.action in ("fill", "gathered"):  # it has no bulk call
        await asyncio.gather(*(call(pool) for _ in range(100)))
    else:
        for _ in range(given.jobs):
            is_timed = given.action == "timed"
            await pool.enqueue_job("bench", str(time.monotonic_ns()) if is_timed else PAYLOAD)
            if is_timed:
                await asyncio.sleep(given.gap_s)
    answer(time.perf_counter() - began)


async def call(pool: ArqRedis) -> None:
    """One of a hundred callers."""
    for _ in range(given.jobs // 100):
        await pool.enqueue_job("bench", PAYLOAD)


uvloop.run(main())
