"""Drives dramatiq on Redis: its own broker, threads, acknowledgements after the handler."""

from __future__ import annotations

import asyncio
import threading
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from driving import PAYLOAD, answer, orders

given = orders()
broker = RedisBroker(url=given.url)
dramatiq.set_broker(broker)
ran = given.handler() if given.action == "work" else None


@dramatiq.actor(queue_name="bench")
def bench(argument: str) -> None:
    """The job."""
    assert ran is not None
    ran(argument)


def main() -> None:
    """Do what the harness asks for."""
    if given.action == "work":
        dramatiq.Worker(broker, worker_threads=given.concurrency).start()
        threading.Event().wait()
    began = time.perf_counter()
    if given.action == "timed":
        for _ in range(given.jobs):
            bench.send(str(time.monotonic_ns()))
            time.sleep(given.gap_s)
    elif given.action == "gathered":
        asyncio.run(gathered())
    else:
        for _ in range(given.jobs):
            bench.send(PAYLOAD)
    answer(time.perf_counter() - began)


async def gathered() -> None:
    """A hundred callers, in threads, as the call is synchronous."""

    def call() -> None:
        for _ in range(given.jobs // 100):
            bench.send(PAYLOAD)

    await asyncio.gather(*(asyncio.to_thread(call) for _ in range(100)))


main()
