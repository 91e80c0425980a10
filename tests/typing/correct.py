"""A correct program: it type-checks strictly without a single exception, and says what things are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, assert_type

from leasemq import App, Ctx, Job, Parent, Retry, Secret, State, Task, Unique
from leasemq.task import Call, Enqueuing, PlainTask

app = App("sqlite:///jobs.db", retry=Retry(3), lease=30, keep_result=timedelta(hours=1))


@dataclass
class Order:
    number: int
    items: list[str]


@app.task
async def greet(name: str, times: int = 1) -> str:
    return name * times


@app.task(queue="mail", retry=Retry(max_retries=5), timeout=30, priority=3)
async def send_mail(to: str, subject: str, *, pin: Annotated[str, Secret] = "") -> bool:
    return True


@app.task(executor="thread", lease=timedelta(minutes=1))
def resize(path: str, width: int) -> tuple[int, int]:
    return width, width


@app.task
async def report(ctx: Ctx, month: str) -> int:
    await ctx.progress(3, 10)
    return ctx.fence


@app.task(name="count", queue="cpu")
def count(ctx: Ctx, order: Order) -> int:
    return order.number


@app.task
def nothing() -> None: ...


async def produce() -> None:
    async with app:
        assert_type(await greet.enqueue("ada"), Job[str])
        await greet.enqueue(name="ada", times=2)
        job = await send_mail.enqueue("ada@example.com", "Hi", pin="1234")
        assert_type(await job.result(timeout=10), bool)
        assert_type(await job.state(), State)
        chosen = send_mail.options(
            delay=timedelta(minutes=5),
            id="inv-7",
            priority=5,
            ttl=60,
            unique=Unique(key="k", mode="debounce", until="end", window=timedelta(seconds=5)),
            reuse={"failed"},
            after=[job, Parent(queue="q", id="x")],
            retry=Retry(1),
        )
        assert_type(await chosen.enqueue("a", "b"), Job[bool])
        await greet.options(due_at=datetime.now(UTC)).enqueue("x")
        assert_type(await greet.enqueue_many([("a",), ("b", 2)]), list[Job[str]])
        assert_type(greet.call("a", times=3), Call[str])
        await greet.enqueue_many([greet.call("a"), greet.options(id="b").call("b")])
        # `Ctx` is not an argument of whoever enqueues.
        assert_type(await report.enqueue("2026-11"), Job[int])
        assert_type(await count.enqueue(Order(1, ["a"])), Job[int])
        assert_type(await nothing.enqueue(), Job[None])
        assert_type(await resize.job("x").result(), tuple[int, int])
        # A plain call runs the function.
        assert_type(await greet("ada"), str)
        assert_type(resize("x", 1), tuple[int, int])
        for record in (await app.queue("mail").dead()).jobs:
            await app.queue("mail").replay(record.ref.id)


def in_a_script() -> None:
    assert_type(resize.enqueue_sync("x", 3).result_sync(timeout=3), tuple[int, int])
    assert_type(resize.enqueue_many_sync([("x", 3)]), list[Job[tuple[int, int]]])
    any_task: Task[[str, int], tuple[int, int]] = resize
    assert_type(any_task.enqueue_sync("x", 1), Job[tuple[int, int]])
    plain: PlainTask[[str, int], tuple[int, int]] = resize
    assert_type(plain("x", 1), tuple[int, int])


def helper(ways: Enqueuing[[str], Any]) -> None:
    ways.enqueue_sync("x")


if __name__ == "__main__":
    asyncio.run(produce())
