"""Drives LeaseMQ, on whichever backend the URL names."""

from __future__ import annotations

import asyncio
import time

import uvloop
from driving import PAYLOAD, Orders, answer, orders

from leasemq import App, Task

CHUNK = 5_000


def made(app: App, given: Orders) -> Task[[str], None]:
    """Register the job; only a worker has a board to tell."""
    ran = given.handler() if given.action == "work" else None

    @app.task(name="bench", queue="bench")
    async def bench(argument: str) -> None:
        assert ran is not None
        if given.sleep_s:
            await asyncio.sleep(given.sleep_s)
        ran(argument)

    return bench


async def main() -> None:
    """Do what the harness asks for."""
    given = orders()
    app = App(given.url)
    bench = made(app, given)
    async with app:
        began = time.perf_counter()
        await DOES[given.action](bench, given)
        answer(time.perf_counter() - began)


async def fill(bench: Task[[str], None], given: Orders) -> None:
    """Enqueue in bulk."""
    for start in range(0, given.jobs, CHUNK):
        await bench.enqueue_many([(PAYLOAD,)] * min(CHUNK, given.jobs - start))


async def single(bench: Task[[str], None], given: Orders) -> None:
    """Enqueue one after the other."""
    for _ in range(given.jobs):
        await bench.enqueue(PAYLOAD)


async def gathered(bench: Task[[str], None], given: Orders) -> None:
    """Enqueue by a hundred callers at once."""

    async def call(number: int) -> None:
        for _ in range(number):
            await bench.enqueue(PAYLOAD)

    await asyncio.gather(*(call(given.jobs // 100) for _ in range(100)))


async def timed(bench: Task[[str], None], given: Orders) -> None:
    """Enqueue now and then, telling when."""
    for _ in range(given.jobs):
        await bench.enqueue(str(time.monotonic_ns()))
        await asyncio.sleep(given.gap_s)


DOES = {"fill": fill, "single": single, "gathered": gathered, "timed": timed}


def fill_from_within(app: App, bench: Task[[str], None], given: Orders) -> None:
    """Have the worker's own process enqueue: the jobs of memory are nowhere else."""
    sending: set[asyncio.Task[None]] = set()

    @app.on_start
    async def send() -> None:
        if given.samples:
            sending.add(asyncio.create_task(timed(bench, given)))
        else:
            await fill(bench, given)


if __name__ == "__main__":
    asked = orders()
    if asked.action == "work":
        working = App(asked.url)
        task = made(working, asked)
        if asked.url == "memory://":
            fill_from_within(working, task, asked)
        working.run_worker(queues=["bench"], concurrency=asked.concurrency)
    else:
        uvloop.run(main())
