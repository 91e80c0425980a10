"""A row in an SQL database that refuses a stale attempt.

The row keeps the newest fence that wrote it, and every write compares: `WHERE ... AND fence <= ?`.

    python fence_sql_row.py
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from leasemq import App, Ctx, LeaseLost, State
from leasemq.testing import Crash, Harness

app = App("sqlite:///jobs.db")
shop = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
shop.execute("CREATE TABLE invoice (id TEXT PRIMARY KEY, status TEXT, fence INTEGER NOT NULL DEFAULT 0)")
shop.execute("INSERT INTO invoice (id, status) VALUES ('inv-7', 'open'), ('inv-8', 'open')")


def set_status(invoice: str, status: str, fence: int) -> None:
    """Compare and write in one statement. An attempt may write again: its fence is the same."""
    changed = shop.execute(
        "UPDATE invoice SET status = ?, fence = ? WHERE id = ? AND fence <= ?",
        (status, fence, invoice, fence),
    )
    if changed.rowcount == 0:
        raise LeaseLost(f"a newer attempt has written {invoice}")


@app.task(name="pay")
async def pay(ctx: Ctx, invoice: str) -> None:
    """Enqueued with the invoice's name as its id: one job per row, so that the row's fences compare."""
    status, fence = f"paid by attempt {ctx.attempt}", ctx.fence
    if ctx.attempt == 1:  # its machine freezes right here, and writes when it thaws
        frozen.append(lambda: set_status(invoice, status, fence))
    else:
        set_status(invoice, status, fence)


frozen: list[Callable[[], None]] = []


def status_of(invoice: str) -> str:
    (status,) = shop.execute("SELECT status FROM invoice WHERE id = ?", (invoice,)).fetchone()
    return str(status)


async def refuse_a_stale_attempt(jobs: Harness) -> None:
    job = await pay.options(id="inv-7").enqueue("inv-7")
    jobs.crash_worker(Crash.AFTER_FUNCTION)  # frozen or dead: to everybody else it is the same
    await jobs.advance(minutes=2)  # the lease ends, and another worker runs the job again
    assert await job.state() is State.COMPLETED
    try:
        frozen[0]()
    except LeaseLost as refusal:
        print(f"refused: {refusal}")
    assert status_of("inv-7") == "paid by attempt 2", f"a stale write was accepted: {status_of('inv-7')}"
    print(f"inv-7: {status_of('inv-7')}")


b_has_written = asyncio.Event()


@app.task(name="note")
async def note(ctx: Ctx, invoice: str, status: str) -> None:
    """Wrong: several jobs write one row, and their fences say nothing about one another."""
    if status == "from A":
        await b_has_written.wait()
    set_status(invoice, status, ctx.fence)
    b_has_written.set()


async def see_what_goes_wrong_without_the_job_as_key(jobs: Harness) -> None:
    a = await note.options(id="A").enqueue("inv-8", "from A")
    await note.options(id="B", delay=1).enqueue("inv-8", "from B")
    await jobs.advance(seconds=5)
    record = await a.record()
    assert (record.state, record.attempts, status_of("inv-8")) == (State.FAILED, 1, "from B")
    print("A was refused though nobody else ever had its lease: B had begun later, so its number was larger")


async def main() -> None:
    async with Harness(app) as jobs:
        await refuse_a_stale_attempt(jobs)
        await see_what_goes_wrong_without_the_job_as_key(jobs)
    shop.close()


if __name__ == "__main__":
    asyncio.run(main())
