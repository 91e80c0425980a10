"""Results of lives that are over: replaced, without their record, no longer kept; and the four policies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from leasemq import App, Ctx, Retry, State
from leasemq.client.schemes import open_backend
from leasemq.errors import JobFailed, JobNotFound, ResultExpired, ResultMismatch
from leasemq.protocol.decide import Reason
from leasemq.protocol.model import Ref
from leasemq.task import Task
from leasemq.testing.faults import WAIT, Wire, faulty
from leasemq.testing.manual_clock import ManualClock
from tests.app.holder import Holder
from tests.app.waiting import until
from tests.servers.stores import ServedStore

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    """The store's clock."""
    return ManualClock()


@pytest.fixture
def app(url: str, served: ServedStore | None, clock: ManualClock) -> App:
    """An app on each backend, under a clock that the test moves."""
    if served is not None:
        return App(served.open(clock))
    backend: Any = open_backend(url)
    if url.startswith("sqlite"):
        object.__setattr__(backend._settings, "clock", clock)
    else:
        backend._clock = clock
    return App(backend)


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


async def sweep(app: App) -> None:
    """Prune what is past its retention."""
    backend = (await app._connections.here()).backend
    while await backend.prune("default", 100):
        pass


@pytest.mark.promise("P-44", "E-8", "P-60")
async def test_a_handle_that_was_stored_answers_for_its_own_life_though_newer_ones_exist(
    app: App, task: Task[[int], Any], holder: Holder, clock: ManualClock
) -> None:
    async with app:
        handles = []
        for life in ("first", "second", None):
            job = await task.options(id="x", reuse=["completed"], keep_result=3600).enqueue(1)
            handles.append(json.dumps(job.to_plain()))
            await holder.returns_next(task, life)
        lives = [task.handle(json.loads(plain)) for plain in handles]
        assert [await old.result(timeout=5) for old in lives] == ["first", "second", None]
        assert [await old.result(timeout=0) for old in lives] == ["first", "second", None]
        assert await task.job("x").result() is None
        clock.advance(HOUR_MS)
        for old in lives:
            with pytest.raises(ResultExpired):
                await old.result(timeout=5)


@pytest.mark.promise("P-60", "E-29", "E-30", "B57")
async def test_a_result_is_there_without_its_record_until_its_own_time_is_over(
    app: App, task: Task[[int], Any], holder: Holder, clock: ManualClock
) -> None:
    async with app:
        job = await task.options(keep_record=0, keep_result=10).enqueue(1)
        waiting = asyncio.ensure_future(job.result(timeout=10))
        await holder.returns_next(task, {"value": 7})
        assert await waiting == {"value": 7}
        with pytest.raises(JobNotFound):
            await job.record()
        for handle in (job, task.job(job.id), app.job("default", job.id)):
            assert await handle.result(timeout=5) == {"value": 7}
        clock.advance(10_000)
        with pytest.raises(ResultExpired, match="no longer kept"):
            await job.result(timeout=5)
        with pytest.raises(JobNotFound):
            await task.job(job.id).result(timeout=5)
        await sweep(app)
        with pytest.raises(ResultExpired):
            await job.result(timeout=5)


@pytest.mark.promise("P-60", "E-33", "B57")
@pytest.mark.parametrize("value", [None, 5], ids=["None", "a value"])
async def test_who_waits_when_a_job_ends_whose_result_is_kept_for_a_second_gets_it(
    app: App, task: Task[[int], Any], holder: Holder, clock: ManualClock, value: object
) -> None:
    async with app:
        ways = task.options(keep_result=1, keep_record=10)
        job, late = await ways.enqueue_many([(1,), (2,)])
        waiting = asyncio.ensure_future(job.result(timeout=10))
        ends = (await app._connections.here()).ends
        await until(lambda: ends.is_watching)
        await holder.returns_next(task, value)
        assert await waiting == value
        await holder.returns_next(task, value)
        clock.advance(2_000)
        with pytest.raises(ResultExpired):
            await late.result(timeout=10)
        with pytest.raises(JobNotFound):
            await task.job("unknown").result(timeout=10)


@pytest.mark.promise("P-60", "E-33", "B57")
@pytest.mark.parametrize("keep_record", [0, 10])
async def test_a_result_that_is_not_kept_at_all_ends_the_wait_as_expired(
    app: App, task: Task[[int], Any], holder: Holder, keep_record: int
) -> None:
    async with app:
        job = await task.options(keep_result=0, keep_record=keep_record).enqueue(1)
        waiting = asyncio.ensure_future(job.result(timeout=10))
        await holder.returns_next(task, 5)
        with pytest.raises(ResultExpired):
            await waiting


@pytest.mark.promise("P-60", "E-33", "P-102")
@pytest.mark.parametrize("keep_record", [0, 60], ids=["only the result", "with its record"])
async def test_a_result_of_another_type_than_declared_is_a_mismatch_and_no_failure(
    app: App, task: Task[[int], Any], holder: Holder, keep_record: int
) -> None:
    @app.task(name="counted")
    async def counted(n: int) -> int:
        return n

    async with app:
        job = await task.options(keep_record=keep_record, keep_result=60).enqueue(1)
        await holder.returns_next(task, {"not": "a number"})
        with pytest.raises(ResultMismatch, match="counted"):
            await counted.job(job.id).result(timeout=5)
        assert await job.result(timeout=5) == {"not": "a number"}


@pytest.mark.promise("P-60", "B57")
async def test_a_failure_that_is_retried_ends_no_wait(app: App) -> None:
    @app.task(name="second time", retry=Retry(1, base=0))
    async def second_time(ctx: Ctx) -> int:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        job = await second_time.enqueue()
        assert await job.result(timeout=10) == 2
        assert [one.error_message for one in await job.errors()] == ["not yet"]
        worker.stop()
        await running


@pytest.mark.promise("E-29", "E-31", "P-60")
async def test_the_four_policies_leave_what_they_say(
    app: App, task: Task[[int], Any], holder: Holder, clock: ManualClock
) -> None:
    """Delete; keep the record; keep it among those that completed; keep it among the dead letters."""
    policies = {
        "delete": {"keep_record": 0, "keep_dead": 0, "keep_result": 60},
        "keep": {"keep_record": 60, "keep_dead": 60, "keep_result": 60},
        "successes": {"keep_record": 60, "keep_dead": 0, "keep_result": 60},
        "failures": {"keep_record": 0, "keep_dead": 60, "keep_result": 60},
    }
    async with app:
        queue = app.queue()
        for name, policy in policies.items():
            await task.options(id=f"{name}-ok", **policy).enqueue(1)  # type: ignore[arg-type]  # words by name
            await holder.returns_next(task, name)
            await task.options(id=f"{name}-bad", **policy).enqueue(1)  # type: ignore[arg-type]  # words by name
            (lease,) = await holder.claim()
            await holder.gives_up(lease, ValueError(name), Reason.DEAD)
        completed = {record.ref.id for record in (await queue.find(states=["completed"])).jobs}
        dead = {record.ref.id for record in (await queue.dead()).jobs}
        assert completed == {"keep-ok", "successes-ok"}
        assert dead == {"keep-bad", "failures-bad"}
        for name in policies:
            assert await task.job(f"{name}-ok").result() == name  # also of a record that was deleted
        for name in ("delete", "successes"):
            with pytest.raises(JobNotFound):
                await task.job(f"{name}-bad").result()
        for name in ("keep", "failures"):
            with pytest.raises(JobFailed, match=name):
                await task.job(f"{name}-bad").result()
        clock.advance(60_000)
        await sweep(app)
        assert (await queue.counts()).stored == 0


@pytest.mark.promise("E-31")
async def test_a_dead_letter_keeps_its_payload_and_can_be_replayed_until_its_period_is_over(
    app: App, task: Task[[int], Any], holder: Holder, clock: ManualClock
) -> None:
    async with app:
        kept, gone = await task.options(keep_dead=60, keep_record=3600).enqueue_many([(1,), (2,)])
        for lease in await holder.claim(limit=2):
            await holder.gives_up(lease, ValueError("x"), Reason.DEAD)
        clock.advance(59_999)
        await sweep(app)
        await app.replay(kept)
        (lease,) = await holder.claim()
        assert task.signature.decode_arguments(lease.payload)[1] == {"n": 1}
        clock.advance(1)
        await sweep(app)
        with pytest.raises(JobNotFound):
            await gone.record()
        assert await kept.state() is State.ACTIVE


@pytest.mark.promise("P-60", "B57")
async def test_a_waiter_that_is_cancelled_takes_its_interest_along(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        jobs = await task.enqueue_many([(n,) for n in range(50)])
        waiting = [asyncio.ensure_future(job.result(timeout=30)) for job in jobs]
        ends = (await app._connections.here()).ends
        await until(lambda: sum(map(len, ends._waiters.values())) == 50)
        for one in waiting[25:]:
            one.cancel()
        await asyncio.wait(waiting[25:])
        assert sum(map(len, ends._waiters.values())) == 25
        for lease in await holder.claim(limit=50):
            await holder.returns(lease, task, lease.ref.id)
        assert [await one for one in waiting[:25]] == [job.id for job in jobs[:25]]
        assert not ends._waiters
        await until(lambda: not ends.is_watching)


@pytest.mark.promise("P-60", "E-32")
async def test_a_lost_push_costs_a_look_also_where_only_the_result_is_left(
    url: str, clock: ManualClock
) -> None:
    wire = Wire()
    wire.lose_reply(WAIT, times=1_000_000)
    app = App(faulty(open_backend(url), wire))

    @app.task(name="t")
    async def t(n: int) -> int:
        return n

    async with app:
        job = await t.options(keep_record=0, keep_result=60).enqueue(1)
        waiting = asyncio.ensure_future(job.result(timeout=30))
        ends = (await app._connections.here()).ends
        await until(lambda: ends.is_watching)
        await Holder(app).returns_next(t, 5)
        assert await waiting == 5


@pytest.mark.promise("E-47")
async def test_the_failure_of_its_creator_does_not_touch_a_job(app: App) -> None:
    @app.task(name="inner")
    async def inner() -> str:
        return "done"

    @app.task(name="outer")
    async def outer() -> None:
        await inner.options(id="child").enqueue()
        raise ValueError("boom")

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        for life in (1, 2):
            parent = await outer.options(id="parent", reuse=["failed"]).enqueue()
            with pytest.raises(JobFailed, match="boom"):
                await parent.result(timeout=10)
            assert await inner.job("child").result(timeout=10) == "done"
            child = await inner.job("child").record()
            assert child.creator == Ref(queue="default", id="parent", generation=1)
            assert parent.generation == life
        worker.stop()
        await running
