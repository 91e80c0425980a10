"""Drives PgQueuer on PostgreSQL (asyncpg, uvloop), or in memory within one process."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import uvloop
from driving import PAYLOAD, answer, orders
from pgqueuer import AsyncpgDriver, PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

CHUNK = 1_000
given = orders()


async def main() -> None:
    """Do what the harness asks for."""
    if given.url == "memory://":
        pgq = PgQueuer.in_memory()
        if given.samples:
            await asyncio.gather(work(pgq), one_by_one(pgq.qm.queries))
        else:
            await fill(pgq.qm.queries)
            await work(pgq)
        return
    import asyncpg

    connection = await asyncpg.connect(given.url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    if given.action == "work":
        await work(PgQueuer(driver))
        return
    with suppress(asyncpg.DuplicateObjectError):  # an earlier step of the round made it
        await queries.install()
    began = time.perf_counter()
    if given.action in ("fill", "gathered"):
        await fill(queries)
    else:
        await one_by_one(queries)
    answer(time.perf_counter() - began)


async def one_by_one(queries: Queries) -> None:
    """Enqueue one after the other; telling when, now and then, unless it is a rate that is asked for."""
    is_timed = given.action != "single"
    for _ in range(given.jobs):
        argument = str(time.monotonic_ns()) if is_timed else PAYLOAD
        await queries.enqueue("bench", argument.encode())
        if is_timed:
            await asyncio.sleep(given.gap_s)


async def fill(queries: Queries) -> None:
    """Enqueue in bulk, which it does by COPY."""
    for start in range(0, given.jobs, CHUNK):
        number = min(CHUNK, given.jobs - start)
        await queries.enqueue(["bench"] * number, [PAYLOAD.encode()] * number, [0] * number)


async def work(pgq: PgQueuer) -> None:
    """Run jobs for ever."""
    ran = given.handler()

    @pgq.entrypoint("bench")
    async def bench(job: Job) -> None:
        assert job.payload is not None
        ran(job.payload.decode())

    await pgq.run(batch_size=given.options.get("batch", 100))


uvloop.run(main())
