"""What a job writes elsewhere can refuse a stale attempt, by the fence that its function was given."""

from __future__ import annotations

import sqlite3

import pytest

from leasemq import Ctx, Retry
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage


@pytest.mark.promise("P-13", "P-14")
def test_a_row_that_keeps_the_newest_fence_refuses_what_an_older_attempt_still_writes(
    theatre: Theatre,
) -> None:
    shop = sqlite3.connect(":memory:", isolation_level=None)
    shop.execute("create table invoice (id text primary key, paid_by integer, fence integer)")
    shop.execute("insert into invoice values ('inv-7', 0, 0)")
    given: list[tuple[int, int]] = []
    keys: set[str] = set()

    def pay(attempt: int, fence: int) -> int:
        row = "update invoice set paid_by = ?, fence = ? where id = 'inv-7' and fence <= ?"
        return shop.execute(row, (attempt, fence, fence)).rowcount

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            keys.add(ctx.idempotency_key("charge"))
            given.append((ctx.attempt, ctx.fence))
            if ctx.attempt == 1:
                raise ValueError("what it began goes on by itself")

        stage.task("pay", function, retry=Retry(1, base=0))
        id_ = await stage.enqueue("pay")
        process = stage.start()
        await stage.until_ended(id_)
        await process.stop()

    theatre(play)
    assert [attempt for attempt, _ in given] == [1, 2]
    assert pay(*given[1]) == 1
    assert pay(*given[0]) == 0, "the older attempt's write was accepted"
    assert pay(*given[1]) == 1, "the newest attempt may write again"
    assert shop.execute("select paid_by from invoice").fetchone() == (2,)
    assert len(keys) == 1
    shop.close()
