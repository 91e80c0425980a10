"""A correct program: it type-checks strictly without a single exception, and says what things are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, assert_type

from leasemq import App, Ctx, Job, JobFailed, Parent, Retry, Secret, State, Task, Unique
from leasemq.context import WorkerCtx
from leasemq.feed import JobEvent
from leasemq.notes import HistoryEntry, HistoryPage, Progress
from leasemq.protocol.insight import Counts, JobRecord
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


@app.task(unique=lambda to: f"mail-{to}", id=lambda to, number: f"{to}-{number}")
async def remind(to: str, number: int) -> None: ...


@app.task(unique=Unique(key=lambda path: f"{path}", mode="replace", until="start"))
def index(path: str) -> None: ...


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
        assert_type(await remind.options(unique=None, id=None).enqueue("ada", 3), Job[None])
        await index.options(unique=Unique()).enqueue("a")
        await greet.options(id=lambda name: f"{name}", unique=lambda name: f"{name}").enqueue("x")
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


tenant: ContextVar[str] = ContextVar("tenant")
app.carry(tenant)
app.carry(tenant, name="tenant")


@app.on_start
async def connect() -> None: ...


@app.on_stop
def disconnect() -> None: ...


@app.middleware
async def timed(ctx: Ctx, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


async def get_session(ctx: Ctx) -> AsyncIterator[int]:
    yield ctx.attempt


def get_file() -> Iterator[bytes]:
    yield b""


@app.dependency(scope="worker")
async def get_client(worker: WorkerCtx) -> AsyncGenerator[list[int], None]:
    yield [await worker.use(get_limit)]


@app.dependency(scope="worker")
async def get_limit() -> int:
    return 3


def get_name() -> str:
    return "name"


@app.task
async def uses(ctx: Ctx) -> None:
    assert_type(await ctx.use(get_session), int)
    assert_type(await ctx.use(get_file), bytes)
    assert_type(await ctx.use(get_client), list[int])
    assert_type(await ctx.use(get_limit), int)
    assert_type(await ctx.use(get_name), str)


@app.task
def uses_in_thread(ctx: Ctx) -> None:
    assert_type(ctx.use_sync(get_file), bytes)
    assert_type(ctx.use_sync(get_name), str)


@app.task(history=100)
async def parent(ctx: Ctx) -> str:
    await ctx.progress(1, 2, "half", data={"rows": 7})
    child = await ctx.enqueue(greet.call("ada"))
    assert_type(child, Job[str])
    await ctx.enqueue(index.options(delay=60, history=10).call("home"))
    return child.id


@app.task
def parent_in_thread(ctx: Ctx) -> str:
    child = ctx.enqueue_sync(send_mail.options(id="m").call("ada", subject="hello"))
    assert_type(child, Job[bool])
    return child.id


@app.task
async def transfer(ctx: Ctx, amount: int) -> int:
    async with ctx.transaction() as connection:
        await connection.execute("update account set balance = balance - ?", (amount,))
        assert_type(await greet.options(session=connection).enqueue("ada"), Job[str])
        ctx.complete(amount)
    return amount


@app.task
def transfer_in_thread(ctx: Ctx, own: str) -> None:
    with sqlite3.connect(own) as file, ctx.transaction_sync(file) as connection:
        assert_type(connection, sqlite3.Connection)
        jobs = resize.options(session=file).enqueue_many_sync([("a.png", 3)])
        assert_type(jobs, list[Job[tuple[int, int]]])


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@app.task(raises=(Refused,))
async def declare(code: int) -> bytes:
    raise Refused(code)


async def wait_and_follow(job: Job[str]) -> None:
    assert_type(await declare.enqueue_and_wait(3), bytes)
    assert_type(await declare.options(wait_timeout=5).enqueue_and_wait(3), bytes)
    try:
        await declare.job("x").result()
    except JobFailed as failure:
        if isinstance(failure.error, Refused):
            assert_type(failure.error.code, int)
    async for event in job.watch(timeout=3):
        assert_type(event, JobEvent)
        assert_type(event.state, State | None)
    async for event in app.events(queues=["mail"]):
        assert_type(event.at, datetime)
    page = await app.events_page(limit=10)
    assert_type((await app.events_page(page.cursor)).events, tuple[JobEvent, ...])
    for reason in await job.why():
        assert_type(reason.says, str)
    assert_type((await app.queue("mail").where(states=["failed"]).replay(dry_run=True)).done, int)


def follow_in_a_script(job: Job[str]) -> None:
    for event in job.watch_sync():
        assert_type(event, JobEvent)
    assert_type(declare.enqueue_and_wait_sync(3), bytes)


async def look_back(job: Job[str]) -> None:
    assert_type(await job.progress(), Progress | None)
    assert_type(await job.log(), tuple[str, ...])
    page = await job.history(limit=10)
    assert_type(page, HistoryPage)
    assert_type((await job.history(page.cursor)).entries, tuple[HistoryEntry, ...])


def operate() -> None:
    with app, app.override(get_name, get_name):
        queue = app.queue("mail")
        queue.pause_sync()
        assert_type(queue.counts_sync(), Counts)
        assert_type(queue.get_sync("x"), JobRecord | None)
        for record in app.dead_sync():
            app.replay_sync(send_mail.job(record.ref.id))
        assert_type(next(queue.every_dead_sync()), JobRecord)
