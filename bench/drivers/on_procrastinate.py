"""Drives Procrastinate on PostgreSQL (psycopg)."""

from __future__ import annotations

import asyncio
import time

import procrastinate
import uvloop
from driving import PAYLOAD, answer, orders

CHUNK = 1_000
given = orders()
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=given.url))
ran = given.handler() if given.action == "work" else None


@app.task(name="bench", queue="bench")
async def bench(a: str) -> None:
    """The job."""
    assert ran is not None
    ran(a)


async def main() -> None:
    """Do what the harness asks for."""
    async with app.open_async():
        if given.action == "work":
            await app.run_worker_async(
                queues=["bench"], concurrency=given.concurrency, install_signal_handlers=False
            )
            return
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        began = time.perf_counter()
        if given.action in ("fill", "gathered"):
            for start in range(0, given.jobs, CHUNK):
                await bench.batch_defer_async(*[{"a": PAYLOAD}] * min(CHUNK, given.jobs - start))
        else:
            for _ in range(given.jobs):
                is_timed = given.action == "timed"
                await bench.defer_async(a=str(time.monotonic_ns()) if is_timed else PAYLOAD)
                if is_timed:
                    await asyncio.sleep(given.gap_s)
        answer(time.perf_counter() - began)


uvloop.run(main())
