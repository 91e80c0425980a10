"""Enqueue and wait in one call."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from leasemq import App, State
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import InvalidDelay, InvalidSetting, JobFailed, PayloadRejected, WaitTimeout
from leasemq.task import Task


@pytest.fixture
def add(app: App) -> Task[[int, int], int]:
    @app.task(name="add")
    async def add(one: int, other: int) -> int:
        return one + other

    return add


@pytest.mark.promise("E-34", "A-1", "P-60")
async def test_one_call_enqueues_and_answers_the_value(app: App, add: Task[[int, int], int]) -> None:
    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        assert await add.enqueue_and_wait(2, 3) == 5
        assert await add.options(id="sum", wait_timeout=10).enqueue_and_wait(2, 5) == 7
        assert await add.options(id="sum").enqueue_and_wait(2, 5) == 7  # a known id is answered
        assert await add.job("sum").state() is State.COMPLETED
        worker.stop()
        await running


@pytest.mark.promise("E-34", "A-1", "P-92")
async def test_it_can_be_called_without_a_loop(app: App, add: Task[[int, int], int]) -> None:
    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        ways = add.options(wait_timeout=timedelta(seconds=10))
        assert await asyncio.to_thread(add.enqueue_and_wait_sync, 2, 3) == 5
        assert await asyncio.to_thread(ways.enqueue_and_wait_sync, 2, 4) == 6
        worker.stop()
        await running
    await asyncio.to_thread(loop_thread().close)


@pytest.mark.promise("E-33", "E-34", "P-60")
async def test_a_wait_that_takes_too_long_names_the_job_which_goes_on(
    app: App, add: Task[[int, int], int]
) -> None:
    async with app:
        for wait_timeout in (0, 0.01):
            with pytest.raises(WaitTimeout, match="has not ended") as late:
                await add.options(wait_timeout=wait_timeout).enqueue_and_wait(2, 3)
            job = late.value.job
            assert await job.state() is State.WAITING
            worker = app.worker()
            running = asyncio.ensure_future(worker.run())
            assert await job.result(timeout=10) == 5
            worker.stop()
            await running


@pytest.mark.promise("E-34", "P-60")
async def test_inside_a_running_job_it_is_refused_and_nothing_is_stored(
    app: App, add: Task[[int, int], int]
) -> None:
    @app.task(name="outer")
    async def outer() -> int:
        return await add.options(queue="inner").enqueue_and_wait(1, 2)

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        with pytest.raises(JobFailed, match="WouldDeadlock"):
            await outer.enqueue_and_wait()
        worker.stop()
        await running
        assert (await app.queue("inner").counts()).accepted == 0


@pytest.mark.promise("E-34", "P-103")
async def test_bad_arguments_and_bad_times_are_refused(app: App, add: Task[[int, int], int]) -> None:
    async with app:
        with pytest.raises(PayloadRejected):
            await add.enqueue_and_wait("two", 3)  # type: ignore[arg-type]  # what a user may write
        for wait_timeout in (-1, float("nan")):
            with pytest.raises((InvalidDelay, InvalidSetting)):
                add.options(wait_timeout=wait_timeout)
        assert await app.queues() == ()
