"""What a task's decorator says holds for whoever enqueues it, in whichever way; and its deadlines hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import App, Ctx, JobExpired, JobFailed, JobNotFound, Retry, State, Unique
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import InvalidDelay, InvalidSetting, KeyFailed, WaitTimeout
from leasemq.task import Task
from leasemq.testing import Harness

pytestmark = pytest.mark.local


@pytest_asyncio.fixture
async def jobs(app: App, backend_name: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness around the app, on the backend of the test."""
    async with Harness(app, sqlite=None if backend_name == "memory" else tmp_path / "h.db") as jobs:
        yield jobs


async def _child(task: Task[[int], None], app: App, jobs: Harness) -> None:
    @app.task(name="parent", queue="parents")
    async def parent(ctx: Ctx) -> None:
        await ctx.enqueue(task.call(7))

    await parent.enqueue()
    await jobs.run_until_idle()


async def _thread_child(task: Task[[int], None], app: App, jobs: Harness) -> None:
    @app.task(name="parent", queue="parents")
    def parent(ctx: Ctx) -> None:
        ctx.enqueue_sync(task.call(7))

    await parent.enqueue()
    await jobs.run_until_idle()


async def _waiting(task: Task[[int], None], app: App, jobs: Harness) -> None:
    with pytest.raises(WaitTimeout):
        await task.options(wait_timeout=0).enqueue_and_wait(7)


async def _without_a_loop(task: Task[[int], None], app: App, jobs: Harness) -> None:
    await asyncio.to_thread(task.enqueue_sync, 7)
    await asyncio.to_thread(loop_thread().close)


Way = Callable[[Task[[int], None], App, Harness], Awaitable[object]]
WAYS: dict[str, Way] = {
    "enqueue": lambda task, app, jobs: task.enqueue(7),
    "options": lambda task, app, jobs: task.options(strict=True).enqueue(7),
    "many": lambda task, app, jobs: task.enqueue_many([(7,)]),
    "calls": lambda task, app, jobs: task.enqueue_many([task.call(7)]),
    "waiting": _waiting,
    "without a loop": _without_a_loop,
    "child": _child,
    "child of a thread": _thread_child,
}


@pytest.mark.promise("P-20", "P-30", "P-32", "P-41", "A-3")
@pytest.mark.parametrize("way", WAYS)
async def test_the_decorator_s_policy_holds_for_every_way_of_enqueueing(
    app: App, jobs: Harness, way: str
) -> None:
    @app.task(
        name="t",
        queue="mail",
        priority=-5,
        ttl=3_600,
        max_stalls=7,
        retry=Retry(2, delays=[10], jitter="none"),
        timeout=30,
        keep_dead=timedelta(days=9),
        unique=Unique(key=lambda number: f"n{number}"),
        id=lambda number: f"id-{number}",
    )
    async def t(number: int) -> None:
        raise RuntimeError(str(number))

    await WAYS[way](t, app, jobs)

    (seen,) = await jobs.enqueued("t")
    record = seen.record
    assert (seen.id, seen.queue, record.priority, record.max_stalls) == ("id-7", "mail", -5, 7)
    assert record.expires_ms == record.created_ms + 3_600_000
    assert record.keep.dead_ms == 9 * 86_400_000
    assert record.unique is not None
    assert record.unique.key == "n7"
    await jobs.advance(minutes=5)
    (seen,) = await jobs.enqueued("t")
    assert (seen.state, seen.attempts) == (State.FAILED, 3)
    gaps = [
        b.claimed_ms - (a.ended_ms or 0)
        for a, b in zip(seen.record.history, seen.record.history[1:], strict=False)
    ]
    assert gaps == [10_000, 10_000]


LIMITS: dict[str, tuple[Any, ...]] = {
    "max_stalls": (-1, 1.5, True, "2", 1_001),
    "priority": (-101, 101, 0.5, float("nan")),
    "ttl": (-1, 0, float("nan"), "60"),
    "timeout": (-1, 0, float("inf")),
    "lease": (-1, 0),
    "keep_result": (-1, float("nan")),
    "keep_record": (-1, "1 day"),
    "keep_dead": (-1, float("inf")),
    "history": (-1, 1.5, "10"),
}


@pytest.mark.promise("P-18", "E-4")
@pytest.mark.parametrize("option", LIMITS)
async def test_a_limit_that_makes_no_sense_is_refused_where_it_is_written_and_stores_nothing(
    app: App, option: str
) -> None:
    async with app:
        for value in LIMITS[option]:
            with pytest.raises((InvalidSetting, InvalidDelay), match=option):
                app.task(name="t", **{option: value})(_nothing)  # type: ignore[call-overload]  # by name
        assert app.tasks == {}
        assert await app.queues() == ()


async def _nothing() -> None: ...


@pytest.mark.promise("P-41", "A-3")
async def test_a_child_whose_key_is_held_is_not_stored_and_one_whose_key_fails_fails_its_parent(
    app: App, jobs: Harness
) -> None:
    handles: list[Any] = []

    @app.task(name="child", unique=lambda number: f"{10 // number}")
    async def child(number: int) -> None: ...

    @app.task(name="parent", queue="parents")
    async def parent(ctx: Ctx, number: int) -> None:
        handles.append(await ctx.enqueue(child.options(delay=60).call(number)))

    await parent.enqueue_many([(1,), (1,)])
    failing = await parent.enqueue(0)
    assert (await jobs.run_until_idle()).outcomes == {"completed": 2, "failed": 1}

    (stored,) = await jobs.enqueued("child")
    assert [handle.id == stored.id for handle in handles].count(True) == 1
    for handle in handles:
        if handle.id != stored.id:
            with pytest.raises(JobNotFound):
                await handle.state()
    with pytest.raises(JobFailed) as failed:
        await failing.result(timeout=0)
    assert failed.value.error_type == f"{KeyFailed.__module__}.KeyFailed"


@pytest.mark.promise("P-30", "A-10")
async def test_a_job_past_its_ttl_never_runs_is_listed_and_gets_a_fresh_ttl_by_a_replay(
    app: App, jobs: Harness
) -> None:
    ran: list[str] = []

    @app.task(name="t", ttl=60)
    async def t(text: str) -> None:
        ran.append(text)

    late = await t.options(delay=120).enqueue("late")
    await jobs.advance(minutes=5)
    assert ran == []
    with pytest.raises(JobExpired):
        await late.result(timeout=0)
    assert [record.ref.id for record in (await app.queue().dead()).jobs] == [late.id]
    assert [letter.id for letter in await jobs.dead()] == [late.id]

    await app.queue().replay(late.id)
    record = await late.record()
    assert record.expires_ms == round(jobs.now.timestamp() * 1_000) + 60_000
    await jobs.run_until_idle()
    assert ran == ["late"]


@pytest.mark.promise("P-27", "A-10")
async def test_the_time_of_one_attempt_is_bounded_apart_from_the_ttl(app: App, jobs: Harness) -> None:
    left: list[float] = []

    @app.task(name="t", timeout=5, ttl=3)
    async def t() -> None:
        began = jobs.now
        try:
            await asyncio.Event().wait()
        finally:
            left.append((jobs.now - began).total_seconds())

    job = await t.enqueue()
    await jobs.advance(minutes=1)
    with pytest.raises(JobFailed) as failed:
        await job.result(timeout=0)
    assert failed.value.error_type.endswith("HandlerTimeout")
    assert left == [pytest.approx(5, abs=0.1)]
