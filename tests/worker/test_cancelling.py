"""Cancelling what runs: `cancelled` is its only end, whatever the function does, wherever it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from leasemq.context import Ctx
from leasemq.errors import Dead, JobCancelled, RetryAfter, Snooze
from leasemq.events import JobEnded
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage, real_stage

LEASE_MS = 3_000
PUSHED_MS = 100


def _result() -> str:
    return "finished all the same"


def _raise(make: Callable[[], BaseException]) -> Callable[[], str]:
    def act() -> str:
        raise make()

    return act


AFTERWARDS: dict[str, Callable[[], str]] = {
    "returns": _result,
    "raises an error": _raise(lambda: ValueError("cleaning up failed")),
    "raises SystemExit": _raise(lambda: SystemExit(3)),
    "asks for a retry": _raise(lambda: RetryAfter(5)),
    "snoozes": _raise(lambda: Snooze(5)),
    "gives up for good": _raise(lambda: Dead("no use")),
    "obeys": _raise(asyncio.CancelledError),
}


def _is_active(stage: Stage) -> Callable[[], Coroutine[Any, Any, bool]]:
    async def is_active() -> bool:
        return (await stage.backend.counts("q")).active == 1

    return is_active


def _is_set(event: threading.Event) -> Callable[[], Coroutine[Any, Any, bool]]:
    async def is_set() -> bool:
        return event.is_set()

    return is_set


def _outcomes(process: Process) -> list[Outcome]:
    return [event.outcome for event in process.events(JobEnded)]


@pytest.mark.promise("P-50", "P-51", "A-21")
@pytest.mark.parametrize("manner", AFTERWARDS)
def test_a_cancelled_function_ends_as_cancelled_whatever_it_does_then(theatre: Theatre, manner: str) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> str:
            with suppress(asyncio.CancelledError):
                await pass_time(60)
            await pass_time(1)
            return AFTERWARDS[manner]()

        stage.task("work", work, retry=Retry(3, base=0))
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=LEASE_MS)
        await stage.until(_is_active(stage))
        assert list(await stage.backend.cancel("q", [job])) == [CancelAnswer.CANCELLING]
        assert (await stage.job(job)).cancel_requested
        await stage.until_ended(job, patience_s=1 + PUSHED_MS / 1_000)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures) == (State.CANCELLED, 1, 0)
        assert record.result is None
        assert [one.outcome for one in record.history] == [Outcome.CANCELLED]
        await stage.pass_time(10)
        assert _outcomes(process) == [Outcome.CANCELLED]
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-51")
def test_a_cancellation_that_the_claims_answer_brings_keeps_the_function_from_starting(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        entered: list[int] = []

        async def work() -> None:
            entered.append(stage.clock())

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.process(lease_ms=LEASE_MS)
        process.wire.lose_reply("wait", times=1_000)
        process.wire.lose_reply("claim")
        process.task = stage.spawn(process.worker.run())
        await stage.until(_is_active(stage))
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job)
        assert (await stage.job(job)).state is State.CANCELLED
        assert not entered

    theatre(play)


@pytest.mark.promise("P-51")
def test_a_cancellation_that_is_pushed_before_the_claims_answer_comes_is_not_forgotten(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(60)

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.process(lease_ms=60_000)
        process.wire.delay("claim", 500)
        process.task = stage.spawn(process.worker.run())
        await stage.until(_is_active(stage))
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job, patience_s=0.5 + PUSHED_MS / 1_000)
        assert (await stage.job(job)).state is State.CANCELLED

    theatre(play)


@pytest.mark.promise("P-50", "P-51")
def test_a_cancellation_that_a_renewal_brings_before_the_function_keeps_it_from_starting(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        entered: list[int] = []

        async def work() -> None:
            entered.append(stage.clock())

        async def slow_middleware(ctx: Ctx, go_on: Callable[[], Awaitable[Any]]) -> Any:
            await pass_time(60)
            return await go_on()

        stage.task("work", work, around=slow_middleware)
        job = await stage.enqueue("work")
        process = stage.process(lease_ms=LEASE_MS)
        process.wire.lose_reply("wait", times=1_000)
        process.task = stage.spawn(process.worker.run())
        await stage.until(_is_active(stage))
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job, patience_s=LEASE_MS / 3_000 + 0.5)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures, entered) == (State.CANCELLED, 1, 0, [])

    theatre(play)


@pytest.mark.promise("P-50", "P-51")
def test_a_dead_holder_delays_a_cancellation_no_longer_than_its_lease(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs: list[int] = []

        async def work() -> None:
            runs.append(stage.clock())
            await pass_time(60)

        stage.task("work", work, retry=Retry(3, base=0))
        job = await stage.enqueue("work")
        holder = stage.start(lease_ms=LEASE_MS)
        await stage.until(_is_active(stage))
        await holder.die()
        other = stage.start(lease_ms=LEASE_MS)
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job, patience_s=LEASE_MS / 1_000 + 1)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls) == (State.CANCELLED, 1, 0)
        assert len(runs) == 1
        assert await other.stop() == 0

    theatre(play)


@pytest.mark.promise("P-50", "P-81")
def test_a_job_that_is_cancelled_while_its_worker_drains_is_not_given_back(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            with suppress(asyncio.CancelledError):
                await pass_time(60)
            await pass_time(60)

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=LEASE_MS, drain_ms=1_000)
        await stage.until(_is_active(stage))
        await stage.backend.cancel("q", [job])
        assert await process.stop() == 0
        assert (await stage.job(job)).state is State.CANCELLED

    theatre(play)


@pytest.mark.promise("P-50", "P-51", "P-80")
@pytest.mark.parametrize("manner", ["looks", "ignores it"])
async def test_a_cancelled_function_in_a_thread_keeps_its_slot_until_it_ends(manner: str) -> None:
    let_go, is_in, is_told = threading.Event(), threading.Event(), threading.Event()

    def work(ctx: Ctx) -> str:
        is_in.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        is_told.set()
        assert let_go.wait(20)
        if manner == "looks":
            ctx.check_cancelled()
            raise AssertionError("it was not told")
        return "finished all the same"

    def other() -> None:
        others.append(let_go.is_set())

    others: list[bool] = []
    async with real_stage() as stage:
        stage.task("work", work, retry=Retry(3, base=0))
        stage.task("other", other)
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=30_000, concurrency=1)
        await stage.until(_is_set(is_in))
        await stage.backend.cancel("q", [job])
        await stage.until(_is_set(is_told))
        behind = await stage.enqueue("other")
        assert (await stage.job(job)).state is State.ACTIVE
        let_go.set()
        await stage.until_ended(job, behind)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures) == (State.CANCELLED, 1, 0)
        assert record.result is None
        assert others == [True]
        assert await process.stop() == 0


@pytest.mark.promise("P-51")
async def test_a_function_in_the_loop_can_look_too() -> None:
    caught: list[str] = []
    is_in = threading.Event()

    async def work(ctx: Ctx) -> None:
        is_in.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                ctx.check_cancelled()
            except JobCancelled as error:
                caught.append(str(error))
            raise

    async with real_stage() as stage:
        stage.task("work", work)
        job = await stage.enqueue("work")
        stage.start(lease_ms=30_000)
        await stage.until(_is_set(is_in))
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job)
        assert len(caught) == 1
