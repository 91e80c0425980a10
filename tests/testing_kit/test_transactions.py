"""A harness on a file runs jobs that complete in their own transactions, in virtual time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from leasemq import App, Ctx, Retry
from leasemq.testing import Harness

pytestmark = pytest.mark.promise("P-114")


@pytest.fixture
def backend_name() -> str:
    """The backend that the harness keeps its jobs in."""
    return "sqlite"


def test_a_harness_on_a_file_runs_transactions(tmp_path: Path) -> None:
    app = App("memory://")
    path = tmp_path / "jobs.db"

    @app.task(name="note", retry=Retry(1, base=60))
    async def note(ctx: Ctx, number: int) -> int:
        async with ctx.transaction() as connection:
            await connection.execute("insert into noted values (?, ?)", (number, ctx.attempt))
            await twin.options(session=connection).enqueue(number)
            if ctx.attempt == 1:
                raise ValueError("no")
            ctx.complete(number)
        return number

    @app.task(name="twin")
    def twin(ctx: Ctx, number: int) -> None:
        with ctx.transaction_sync() as connection:
            connection.execute("insert into noted values (?, ?)", (-number, ctx.attempt))

    with Harness(app, sqlite=path) as jobs, closing(sqlite3.connect(path)) as file:
        file.execute("create table noted (number integer, attempt integer)")
        job = note.options(session=file).enqueue_sync(7)
        file.commit()
        first = jobs.run_until_idle_sync()
        second = jobs.advance_sync(minutes=1)
        rows = file.execute("select number, attempt from noted").fetchall()
        value = job.result_sync()

    assert (first.retried, second.completed, value) == (1, 2, 7)
    assert rows == [(7, 2), (-7, 1)]
