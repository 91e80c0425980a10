"""One job for many calls that mean the same, and one id for one order.

However many processes call at once, the backend decides in one step.

    python unique_jobs.py
"""

from __future__ import annotations

import asyncio

from leasemq import App, Unique

app = App("sqlite:///unique_jobs.db")


@app.task(name="sync_user", unique=Unique(mode="skip"))
async def sync_user(user: int) -> str:
    """While a job for this user waits or runs, another call answers that one."""
    return f"user {user} is synchronised"


@app.task(name="reindex", unique=Unique(mode="debounce", window=0.3, until="start"))
async def reindex(page: str) -> str:
    """Each call puts the job off, until nobody has called for a while."""
    return f"{page} is indexed"


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        jobs = [await sync_user.enqueue(7) for _ in range(3)]
        print("skip:", *(job.acceptance for job in jobs))
        assert len({job.id for job in jobs}) == 1

        pages = [await reindex.enqueue("home") for _ in range(3)]
        print("debounce:", *(job.acceptance for job in pages))

        worker = app.worker()
        group.create_task(worker.run())
        print(await jobs[0].result(timeout=30))
        print(await pages[0].result(timeout=30))
        anew = await sync_user.enqueue(7)  # the first one has ended, so its key is free
        print("after its end:", anew.acceptance)

        # An id of your own stands for one job as long as its record is kept, ended or not.
        order = await sync_user.options(id="order-4711", unique=None).enqueue(8)
        again = await sync_user.options(id="order-4711", unique=None).enqueue(8)
        print("the same id:", again.acceptance)
        await asyncio.gather(anew.result(timeout=30), order.result(timeout=30))
        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
