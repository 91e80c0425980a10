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

        now = (await app.events_page()).cursor
        waited_for = set(await mailing.enqueue_and_wait(["ada", "grace"]))
        # A child may show a moment after its parent has ended, so this waits for what happens to it.
        async for event in app.events(now, queues=["mail"]):
            if event.kind == "completed" and event.id in waited_for:
                child = letter.job(event.id)
                creator = (await child.record()).creator
                print(await child.result(), "made by a job in", creator and creator.queue)
                waited_for.remove(event.id)
                if not waited_for:
                    break

        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
