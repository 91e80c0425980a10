"""A job that tells how far it is and leaves checkpoints, and somebody who follows it to its end.

On a terminal, `leasemq watch ID --url sqlite:///progress.db` shows the same as a bar.

    python progress.py
"""

from __future__ import annotations

import asyncio

from leasemq import App, Ctx, Retry

app = App("sqlite:///progress.db")


@app.task(name="import_rows", retry=Retry(max_retries=3, base=0))
async def import_rows(ctx: Ctx, rows: int) -> str:
    done: int = ctx.last_checkpoint or 0  # what the attempt before this one left
    for row in range(done + 1, rows + 1):
        if row == 4 and ctx.attempt == 1:
            raise ConnectionError("the source went away")
        await ctx.progress(row, rows, f"row {row}")
        await ctx.checkpoint(row)
    return f"attempt {ctx.attempt} began after row {done}"


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        worker = app.worker()
        group.create_task(worker.run())

        job = await import_rows.enqueue(6)
        async for event in job.watch(timeout=30):
            print(f"attempt {event.attempt}: {event.kind}", event.progress.message if event.progress else "")
        print(await job.result())

        worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
