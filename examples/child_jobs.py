"""A job that enqueues others, fenced: an attempt that has lost its lease enqueues nothing any more.

Each child has an id of its own, so that a second attempt of the parent adds none.

    python child_jobs.py
"""

from __future__ import annotations

import asyncio

from leasemq import App, Ctx

app = App("sqlite:///child_jobs.db")


@app.task(name="letter", queue="mail")
async def letter(to: str) -> str:
    return f"a letter to {to}"


@app.task(name="mailing")
async def mailing(ctx: Ctx, people: list[str]) -> list[str]:
    ids: list[str] = []
    for person in people:
        call = letter.options(id=f"{ctx.job_id}-{person}").call(person)
        ids.append((await ctx.enqueue(call)).id)
    return ids


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        worker = app.worker()
        group.create_task(worker.run())

        for id_ in await mailing.enqueue_and_wait(["ada", "grace"]):
            child = letter.job(id_)
            print(await child.result(timeout=30))
            creator = (await child.record()).creator
            assert creator is not None
            print("  made by a job of queue", creator.queue)

        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
