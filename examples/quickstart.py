"""A task, a job, a worker and a result, in one program.

In production a worker is a process of its own: `leasemq worker quickstart:app`.

    python quickstart.py
"""

from __future__ import annotations

import asyncio

from leasemq import App, Retry

app = App("sqlite:///quickstart.db")


@app.task(name="greet", retry=Retry(max_retries=5), timeout=30)
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        worker = app.worker()
        group.create_task(worker.run())

        job = await greet.enqueue("Ada")  # stored on disk when this returns
        print(await job.result(timeout=30))

        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
