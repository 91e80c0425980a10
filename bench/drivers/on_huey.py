"""Drives huey, on Redis or SQLite (at most once: it has no acknowledgement); threads, its best set-up."""

from __future__ import annotations

import threading
import time

from driving import PAYLOAD, answer, orders
from huey import RedisHuey, SqliteHuey

given = orders()
if given.url.startswith("redis"):
    huey = RedisHuey("bench", url=given.url, results=False)
else:
    huey = SqliteHuey(
        "bench",
        filename=given.url.removeprefix("sqlite:///"),
        results=False,
        fsync=given.options.get("fsync", False),
    )
ran = given.handler() if given.action == "work" else None


@huey.task(name="bench")
def bench(argument: str) -> None:
    """The job."""
    assert ran is not None
    ran(argument)


def main() -> None:
    """Do what the harness asks for."""
    if given.action == "work":
        consumer = huey.create_consumer(
            workers=given.concurrency, periodic=False, initial_delay=0.001, max_delay=0.02, backoff=1.15
        )
        consumer.start()
        threading.Event().wait()
    began = time.perf_counter()
    for _ in range(given.jobs):
        if given.action == "timed":
            bench(str(time.monotonic_ns()))
            time.sleep(given.gap_s)
        else:
            bench(PAYLOAD)
    answer(time.perf_counter() - began)


main()
