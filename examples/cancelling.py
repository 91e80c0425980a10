"""Cancelling a job: before it starts, while a coroutine runs, and while a plain function runs in a thread.

What waits never starts. What runs is told to stop, and its only outcome is now `cancelled`.

    python cancelling.py
"""

from __future__ import annotations

import asyncio
import threading
import time

from leasemq import App, Ctx, Job, JobCancelled

app = App("sqlite:///cancelling.db", concurrency=2)
started = threading.Semaphore(0)


@app.task(name="wait_for_parcel")
async def wait_for_parcel() -> None:
    started.release()
    try:
        await asyncio.Event().wait()
    finally:
        print("wait_for_parcel: cleans up")  # before the job's end is recorded


@app.task(name="dig", timeout=600)
def dig(ctx: Ctx) -> None:
    started.release()
    while True:  # nobody can stop a thread from outside: it has to ask
        ctx.check_cancelled()
        time.sleep(0.01)


async def ended(job: Job[None]) -> str:
    try:
        await job.result(timeout=30)
    except JobCancelled as error:
        return str(error)
    raise AssertionError(f"{job} ran to its end")


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        early = await dig.enqueue()
        print("before it starts:", await early.cancel())

        worker = app.worker()
        group.create_task(worker.run())
        jobs = [await wait_for_parcel.enqueue(), await dig.enqueue()]
        for _ in jobs:
            await asyncio.to_thread(started.acquire)
        for job in jobs:
            print("while it runs:", await job.cancel())
        for job in [early, *jobs]:
            print(await ended(job))
        print("after its end:", await early.cancel())
        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
