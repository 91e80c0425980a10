"""A program that follows what happens to all jobs, and goes on after its own restart.

Each event carries a cursor: plain text, kept here in a file. Whoever begins with it sees what came after.

    python event_feed.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from leasemq import App

app = App("sqlite:///event_feed.db")
bookmark = Path("event_feed.cursor")


def kept() -> str | None:
    return bookmark.read_text() if bookmark.exists() else None


def keep(cursor: str) -> None:
    bookmark.write_text(cursor)


@app.task(name="greet", queue="mail")
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def follow(until: int) -> Counter[str]:
    """Count what happens, from where the last run left off, until so many jobs have completed."""
    seen: Counter[str] = Counter()
    async for event in app.events(kept(), queues=["mail"]):
        seen[event.kind.value] += 1
        keep(event.cursor)
        if seen["completed"] == until:
            break
    return seen


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        if kept() is None:
            keep((await app.events_page()).cursor)  # from now on
        worker = app.worker()
        group.create_task(worker.run())

        await greet.enqueue_many([("ada",), ("grace",)])
        print("first run: ", dict(await follow(until=2)))

        job = await greet.enqueue("edsger")  # while nobody follows
        await job.result(timeout=30)
        print("second run:", dict(await follow(until=1)))

        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
