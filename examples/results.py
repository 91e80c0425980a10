"""Results, and errors that a task declares: whoever waits gets both back as what they were.

A result is kept for a day after the job's end, unless the app or the task says otherwise (`keep_result=`).

    python results.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from leasemq import App, Job, JobFailed, WaitTimeout

app = App("sqlite:///results.db")


@dataclass
class Reservation:
    product: str
    pieces: int


class OutOfStock(Exception):
    def __init__(self, product: str, left: int) -> None:
        super().__init__(f"{left} of {product} left")
        self.product = product
        self.left = left


@app.task(name="reserve", raises=(OutOfStock,))
async def reserve(product: str, pieces: int) -> Reservation:
    if pieces > 5:
        raise OutOfStock(product, left=5)
    return Reservation(product, pieces)


async def told(job: Job[Reservation]) -> str:
    try:
        reservation = await job.result(timeout=30)
    except JobFailed as failure:
        if isinstance(failure.error, OutOfStock):
            return f"only {failure.error.left} left"
        raise
    return f"reserved {reservation.pieces} of {reservation.product}"


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        job = await reserve.enqueue("cup", 3)
        try:
            await job.result(timeout=0.1)
        except WaitTimeout:
            print("no worker yet; the job is not touched by that")

        worker = app.worker()
        group.create_task(worker.run())
        print(await told(job))
        print(await told(await reserve.enqueue("cup", 9)))
        print("in one call:", await reserve.enqueue_and_wait("saucer", 2))

        stored = job.to_plain()  # goes into a session, a row, a message ...
        print("in another process:", await reserve.handle(stored).result(timeout=0))
        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
