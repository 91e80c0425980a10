"""A transfer whose rows and whose job's end are committed together, and a job that an order brings along.

Both are on one SQLite file; on PostgreSQL the same calls take a connection of psycopg or SQLAlchemy.

    python transactions.py
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from leasemq import App, Ctx, Retry

FILE = "transactions.db"

app = App(f"sqlite:///{FILE}")


@app.task(name="receipt")
async def receipt(amount: int) -> str:
    return f"a receipt for {amount}"


@app.task(name="transfer", retry=Retry(3, base=0.1))
async def transfer(ctx: Ctx, source: str, target: str, amount: int) -> int:
    change = "update account set balance = balance + ? where name = ?"
    async with ctx.transaction() as connection:
        await connection.execute(change, (-amount, source))
        if ctx.attempt == 1:
            raise RuntimeError("in the middle, so that nothing of it is left")
        await connection.execute(change, (amount, target))
        await receipt.options(session=connection, id=f"receipt-{ctx.job_id}").enqueue(amount)
        ctx.complete(amount)
    return amount


def open_accounts() -> None:
    """Make the accounts; and order the first transfer in the same transaction."""
    with closing(sqlite3.connect(FILE)) as file:
        file.execute("drop table if exists account")
        file.execute("create table account (name text primary key, balance integer)")
        file.execute("insert into account values ('ada', 100), ('grace', 100)")
        transfer.options(session=file).enqueue_sync("ada", "grace", 30)
        file.commit()


def balances() -> dict[str, int]:
    """Answer what is committed."""
    with closing(sqlite3.connect(FILE)) as file:
        return dict(file.execute("select name, balance from account"))


async def main() -> None:
    async with app, asyncio.TaskGroup() as group:
        worker = app.worker()
        group.create_task(worker.run())
        amount = await transfer.enqueue_and_wait("grace", "ada", 5)
        print("moved", amount)
        counts = await app.queue("default").counts()
        while counts.waiting + counts.scheduled + counts.active:
            await asyncio.sleep(0.01)
            counts = await app.queue("default").counts()
        worker.stop()


if __name__ == "__main__":
    with app:
        open_accounts()
    asyncio.run(main())
    print(balances())
