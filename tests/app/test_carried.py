"""Context variables travel with a job: from who enqueues it to its function, and on to what that enqueues."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Ctx, State, Unique
from leasemq.carried import LIMIT_BYTES, Carried, context_without
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import CorruptRecord, InvalidSetting, PayloadRejected, PayloadTooLarge, UnknownEnvelope
from leasemq.protocol.envelope import encode_plain

pytestmark = pytest.mark.promise("A-42")

tenant: ContextVar[Any] = ContextVar("tenant")
request: ContextVar[Any] = ContextVar("request", default="none")


@pytest.fixture(autouse=True)
def carried(app: App) -> None:
    """The app lets both travel, one under another name."""
    app.carry(tenant)
    app.carry(request, name="request_id")


def seen(ctx: Ctx | None = None) -> list[Any]:
    return [tenant.get("nobody"), request.get()]


async def worked(app: App, produce: Callable[[], Awaitable[Any]]) -> Any:
    """Run a worker beside what enqueues, until it is done."""
    async with app:
        worker = app.worker(concurrency=4)
        running = asyncio.ensure_future(worker.run())
        value = await produce()
        worker.stop()
        assert await running == 0
        return value


@pytest.mark.parametrize("is_async", [True, False])
async def test_values_hold_in_the_function_wherever_it_runs_and_in_middleware(
    app: App, is_async: bool
) -> None:
    around: list[list[Any]] = []

    @app.middleware
    async def look(ctx: Ctx, call_next: Callable[[], Awaitable[Any]]) -> Any:
        around.append(seen())
        return await call_next()

    async def in_loop() -> list[Any]:
        return seen()

    task: Any = app.task(name="t")(in_loop if is_async else seen_in_thread)

    async def produce() -> list[Any]:
        tenant.set("acme")
        request.set(7)
        jobs = [await task.enqueue()]
        tenant.set({"id": 3, "tags": ["a"]})
        jobs += await task.enqueue_many([()])
        call = task.call()
        tenant.set("globex")
        jobs += await task.enqueue_many([call])
        return [await job.result(timeout=20) for job in jobs]

    results = await worked(app, produce)
    rich = {"id": 3, "tags": ["a"]}
    assert results == [["acme", 7], [rich, 7], [rich, 7]]
    assert sorted(map(str, around)) == sorted(map(str, results))


def seen_in_thread() -> list[Any]:
    return seen()


async def test_jobs_that_a_function_enqueues_take_the_values_on(app: App) -> None:
    inner: Any = app.task(name="inner")(seen_in_thread)

    @app.task(name="outer")
    async def outer() -> str:
        return str((await inner.enqueue()).id)

    @app.task(name="outer_sync")
    def outer_sync() -> str:
        return str(inner.enqueue_sync().id)

    async def produce() -> list[Any]:
        tenant.set("acme")
        ids = [await (await one.enqueue()).result(timeout=20) for one in (outer, outer_sync)]
        return [await inner.job(id_).result(timeout=20) for id_ in ids]

    assert await worked(app, produce) == [["acme", "none"], ["acme", "none"]]
    await asyncio.to_thread(loop_thread().close)


async def test_a_job_without_values_runs_without_those_of_whoever_started_the_worker(app: App) -> None:
    task: Any = app.task(name="t")(seen_in_thread)

    async def run() -> list[Any]:
        async with app:
            job = await task.enqueue()
            tenant.set("the worker's own")
            worker = app.worker()
            running = asyncio.ensure_future(worker.run())
            value: list[Any] = await job.result(timeout=20)
            worker.stop()
            await running
            return value

    assert await run() == ["nobody", "none"]


def test_a_value_set_in_one_process_holds_in_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    program = tmp_path / "producing.py"
    program.write_text(
        f"""
from contextvars import ContextVar
from leasemq import App
app = App({url!r})
tenant = ContextVar("my_tenant")
app.carry(tenant, name="tenant")
unknown = ContextVar("unknown_here")
app.carry(unknown)

@app.task(name="t")
def t() -> None: ...

tenant.set("acme")
unknown.set("x")
t.options(id="j").enqueue_sync()
"""
    )
    subprocess.run([sys.executable, "-W", "error", program], check=True, timeout=60)
    app = App(url)
    app.carry(tenant)
    task: Any = app.task(name="t")(seen_in_thread)
    assert asyncio.run(worked(app, lambda: task.job("j").result(timeout=20))) == ["acme", "none"]


async def test_what_cannot_travel_is_refused_before_anything_is_stored(app: App) -> None:
    task: Any = app.task(name="t")(seen_in_thread)
    async with app:
        tenant.set(object())
        with pytest.raises(PayloadRejected, match="carried context"):
            await task.enqueue()
        tenant.set("x" * LIMIT_BYTES)
        with pytest.raises(PayloadTooLarge, match="carried context"):
            await task.enqueue()
        assert await app.queues() == ()


async def test_the_values_do_not_count_where_an_id_is_compared_and_follow_a_replaced_job(app: App) -> None:
    task: Any = app.task(name="t")(seen_in_thread)
    unique = Unique(key="k", mode="replace")

    async def produce() -> list[Any]:
        tenant.set("acme")
        first = await task.options(id="x", strict=True, delay=3_600).enqueue()
        held = await task.options(unique=unique, delay=3_600).enqueue()
        tenant.set("globex")
        assert not (await task.options(id="x", strict=True, delay=3_600).enqueue()).created
        await task.options(unique=unique, delay=3_600).enqueue()
        for job in (first, held):
            await app.queue().promote(job.id)
        return [(await job.result(timeout=20))[0] for job in (first, held)]

    assert await worked(app, produce) == ["acme", "globex"]


async def test_a_replay_runs_with_the_values_of_the_enqueue(app: App) -> None:
    @app.task(name="t")
    async def t(ctx: Ctx) -> list[Any]:
        if ctx.failures == 0 and not is_mended:
            raise ValueError
        return seen()

    is_mended: list[int] = []

    async def produce() -> Any:
        tenant.set("acme")
        job = await t.enqueue()
        while await job.state() is not State.FAILED:  # noqa: ASYNC110  nothing here is told of the end
            await asyncio.sleep(0)
        is_mended.append(1)
        tenant.set("operator")
        await app.replay(job)
        return await job.result(timeout=20)

    assert await worked(app, produce) == ["acme", "none"]


def test_a_variable_without_a_value_stays_behind() -> None:
    carried = Carried()
    carried.add(tenant)
    carried.add(request)
    assert carried.collect() == b""
    assert copy_context().run(lambda: (request.set(5), carried.collect())[1]) != b""


def test_bytes_that_nobody_wrote_are_reported() -> None:
    carried = Carried()
    carried.add(tenant)
    with pytest.raises(CorruptRecord, match="carried context of job x"):
        carried.restore(b"\x00", job="x")
    with pytest.raises(CorruptRecord, match="no map"):
        carried.restore(encode_plain([1], what="x"))
    with pytest.raises(UnknownEnvelope):
        carried.restore(b'{"v":99}')
    Carried().restore(b"\x00")
    carried.restore(b"")


def test_a_name_stands_for_one_variable() -> None:
    carried = Carried()
    carried.add(tenant)
    carried.add(tenant)
    with pytest.raises(InvalidSetting, match="name 'tenant' is taken"):
        carried.add(ContextVar("tenant"))
    with pytest.raises(InvalidSetting, match="is not a ContextVar"):
        carried.add("tenant")  # type: ignore[arg-type]  # the mistake is the point
    for name in ("", "a\n", "x" * 101):
        with pytest.raises(InvalidSetting, match="1 to 100 printable"):
            carried.add(request, name)


def test_a_context_without_some_variables_keeps_the_others() -> None:
    def look() -> tuple[Any, Any]:
        return tenant.get("nobody"), request.get()

    def act() -> tuple[Any, Any]:
        tenant.set("acme")
        request.set(5)
        return context_without([tenant]).run(look)

    assert copy_context().run(act) == ("nobody", 5)
