"""Functions that outlast their time-out: when their jobs are given up, and what becomes of their slots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from leasemq.context import Ctx
from leasemq.errors import InvalidSetting, LeaseLost
from leasemq.events import (
    HandlerAbandoned,
    HandlerReturned,
    HandlerStuck,
    JobEnded,
    JobStarted,
    WorkerStopped,
)
from leasemq.protocol.failure import decode_error
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from leasemq.worker import WorkerSettings
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage, real_stage

LEASE_MS = 2_000
TIMEOUT_MS = 500


class Stubborn:
    """An async function whose first run ignores every cancellation until it is let go. Owned by the test."""

    def __init__(self, stage: Stage, **policy: Any) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.refused: list[int] = []
        self.gate = asyncio.Event()
        self._stage = stage
        stage.task("stubborn", self._function(), **{"timeout_ms": TIMEOUT_MS, **policy})

    def _function(self) -> Callable[[Ctx], Coroutine[Any, Any, str]]:
        async def stubborn(ctx: Ctx) -> str:
            self.starts.append(self._stage.clock())
            if ctx.attempt > 1:
                return f"attempt {ctx.attempt}"
            while not self.gate.is_set():
                with suppress(asyncio.CancelledError):
                    await self.gate.wait()
            self.ends.append(self._stage.clock())
            try:
                await ctx.progress(1)
            except LeaseLost:
                self.refused.append(ctx.attempt)
            return "attempt 1"

        return stubborn


async def _abandoned(stage: Stage, process: Process, count: int = 1) -> None:
    async def are_abandoned() -> bool:
        return len(process.events(HandlerAbandoned)) == count

    await stage.until(are_abandoned)


@pytest.mark.promise("P-27", "P-11")
@pytest.mark.parametrize(("abandon_after_ms", "after_ms"), [(None, LEASE_MS), (300, 300)])
def test_a_function_that_outlasts_its_time_out_loses_its_job_after_a_while(
    theatre: Theatre, abandon_after_ms: int | None, after_ms: int
) -> None:
    async def play(stage: Stage) -> None:
        stubborn = Stubborn(stage, retry=Retry(3, base=0))
        job = await stage.enqueue("stubborn")
        process = stage.start(lease_ms=LEASE_MS, concurrency=3, abandon_after_ms=abandon_after_ms)
        await stage.until_ended(job)
        first, second = stubborn.starts
        assert TIMEOUT_MS + after_ms <= second - first < TIMEOUT_MS + after_ms + 100
        stubborn.gate.set()
        await stage.pass_time(1)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures, record.stalls) == (State.COMPLETED, 2, 1, 0)
        assert stage.routines["stubborn"].signature.decode_result(record.result or b"") == "attempt 2"
        assert [one.outcome for one in record.history] == [Outcome.RETRIED, Outcome.COMPLETED]
        error = decode_error(record.history[0].error or b"")
        assert error.type == "leasemq.errors.HandlerTimeout"
        assert "still ran when the job was given up" in error.message
        assert stubborn.refused == [1]
        assert record.refused_count == 0  # refused here: the backend was not even asked
        told = process.events(HandlerAbandoned)
        assert [(one.ref.id, one.attempt, one.stuck, one.slots) for one in told] == [(job, 1, 1, 3)]
        assert [one.ref.id for one in process.events(HandlerReturned)] == [job]

    theatre(play)


@pytest.mark.promise("P-27")
def test_a_function_that_ends_soon_after_its_time_out_is_retried_only_then(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stubborn = Stubborn(stage, retry=Retry(3, base=0))
        job = await stage.enqueue("stubborn")
        process = stage.start(lease_ms=LEASE_MS, concurrency=3)
        await stage.pass_time(1.5)
        assert len(stubborn.starts) == 1
        stubborn.gate.set()
        await stage.until_ended(job)
        assert stubborn.starts[1] >= stubborn.ends[0]
        record = await stage.job(job)
        assert [one.outcome for one in record.history] == [Outcome.RETRIED, Outcome.COMPLETED]
        assert not process.events(HandlerAbandoned)

    theatre(play)


@pytest.mark.promise("P-27", "P-80", "E-23")
def test_a_function_whose_job_was_given_up_keeps_its_slot_until_it_ends(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        now, most = 0, 0

        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await pass_time(0.2)
            now -= 1

        stage.task("work", work)
        stubborn = Stubborn(stage)
        await stage.enqueue("stubborn")
        process = stage.start(lease_ms=LEASE_MS, concurrency=3)
        await _abandoned(stage, process)
        await stage.until_ended(*await stage.enqueue_many("work", [()] * 12))
        assert most == 2
        stubborn.gate.set()
        most = 0
        await stage.until_ended(*await stage.enqueue_many("work", [()] * 12))
        assert most == 3
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-27")
@pytest.mark.parametrize(("slots", "stuck"), [(1, 1), (2, 2), (3, 2), (10, 6)])
def test_a_worker_with_more_than_half_of_its_slots_stuck_drains_and_exits_with_75(
    theatre: Theatre, slots: int, stuck: int
) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> str:
            await pass_time(8)
            return "finished within the drain"

        stage.task("work", work)
        Stubborn(stage, retry=Retry(3, base=0))
        jobs = await stage.enqueue_many("stubborn", [()] * stuck)
        others = await stage.enqueue_many("work", [()] * (slots - stuck))
        process = stage.start(lease_ms=LEASE_MS, concurrency=slots, name="a")
        await stage.until(lambda: _are_active(stage, slots))
        assert process.task is not None
        assert await process.task == 75
        stopped = process.events(WorkerStopped)[0]
        assert (stopped.exit_code, stopped.unsettled) == (75, 0)
        assert not process.events(HandlerStuck)
        assert {(await stage.job(one)).state for one in others} <= {State.COMPLETED}
        waiting = [await stage.job(one) for one in jobs]
        assert {(one.state, one.failures) for one in waiting} == {(State.WAITING, 1)}
        stage.start(lease_ms=LEASE_MS, name="b")
        await stage.until_ended(*jobs)
        ends = [(await stage.job(one)).history[-1] for one in jobs]
        assert {(one.worker, one.outcome) for one in ends} == {("b", Outcome.COMPLETED)}

    theatre(play)


async def _are_active(stage: Stage, count: int) -> bool:
    return (await stage.backend.counts("q")).active == count


@pytest.mark.promise("P-27")
def test_a_worker_with_half_of_its_slots_stuck_goes_on(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(0.1)

        stage.task("work", work)
        stubborn = Stubborn(stage)
        await stage.enqueue_many("stubborn", [()] * 2)
        process = stage.start(lease_ms=LEASE_MS, concurrency=4)
        await _abandoned(stage, process, 2)
        await stage.until_ended(*await stage.enqueue_many("work", [()] * 10))
        stubborn.gate.set()
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-24", "P-27")
def test_a_stuck_function_that_must_run_alone_ends_its_worker(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        entered: list[int] = []

        async def work() -> None:
            entered.append(stage.clock())

        stage.task("work", work)
        stage.task("stubborn", _refuses, timeout_ms=TIMEOUT_MS)
        job = await stage.enqueue("stubborn", max_stalls=1)
        victim = stage.start(lease_ms=LEASE_MS, concurrency=10)
        await stage.until(lambda: _are_active(stage, 1))
        await victim.die()
        second = stage.start(lease_ms=LEASE_MS, concurrency=10)

        async def runs_alone() -> bool:
            return bool(second.events(JobStarted))

        await stage.until(runs_alone)
        await stage.enqueue("work")
        assert second.task is not None
        assert await second.task == 75
        assert not entered
        assert (await stage.job(job)).reason == "timeout"

    theatre(play)


async def _refuses() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@pytest.mark.promise("P-27", "P-50")
def test_a_cancelled_job_whose_function_outlasts_its_time_out_is_given_up_as_cancelled(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        stubborn = Stubborn(stage, retry=Retry(3, base=0))
        job = await stage.enqueue("stubborn")
        process = stage.start(lease_ms=LEASE_MS, concurrency=3)
        await stage.until(lambda: _are_active(stage, 1))
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job)
        assert (await stage.job(job)).state is State.CANCELLED
        assert len(process.events(HandlerAbandoned)) == 1
        stubborn.gate.set()
        await stage.pass_time(1)
        assert len(stubborn.starts) == 1
        assert [one.outcome for one in process.events(JobEnded)] == [Outcome.CANCELLED]

    theatre(play)


@pytest.mark.promise("P-27", "P-81")
def test_a_function_that_is_out_of_time_when_the_worker_ends_has_failed(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        Stubborn(stage)
        job = await stage.enqueue("stubborn")
        process = stage.start(lease_ms=30_000, drain_ms=1_000)
        await stage.until(lambda: _are_active(stage, 1))
        assert await process.stop() == 0
        record = await stage.job(job)
        assert (record.state, record.reason) == (State.FAILED, "timeout")

    theatre(play)


@pytest.mark.promise("P-27")
def test_a_function_that_blocked_the_loop_past_its_time_out_has_failed_too(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def blocking() -> str:
            asyncio.get_running_loop().jump(1.0)  # type: ignore[attr-defined]  # the loop is a VirtualLoop
            return "too late"

        stage.task("blocking", blocking, timeout_ms=TIMEOUT_MS)
        job = await stage.enqueue("blocking")
        stage.start(lease_ms=30_000)
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.reason, record.result) == (State.FAILED, "timeout", None)

    theatre(play)


@pytest.mark.promise("P-27", "P-80")
async def test_a_thread_that_outlasts_its_time_out_keeps_its_slot_and_all_it_sends_is_refused() -> None:
    let_go, refused = threading.Event(), threading.Event()

    def work(ctx: Ctx) -> str:
        if ctx.attempt > 1:
            return "second"
        assert let_go.wait(20)
        try:
            ctx.progress_sync(1)
        except LeaseLost:
            refused.set()
        return "first"

    async with real_stage() as stage:
        routine = stage.task("work", work, timeout_ms=500, retry=Retry(1, base=0))
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=30_000, concurrency=2, abandon_after_ms=30)
        await stage.until_ended(job)
        record = await stage.job(job)
        assert routine.signature.decode_result(record.result or b"") == "second"
        assert [one.outcome for one in record.history] == [Outcome.RETRIED, Outcome.COMPLETED]
        assert "still ran" in decode_error(record.history[0].error or b"").message
        assert not process.events(HandlerReturned)
        let_go.set()

        async def has_returned() -> bool:
            return bool(process.events(HandlerReturned))

        await stage.until(has_returned)
        assert refused.is_set()
        assert await process.stop() == 0


@pytest.mark.promise("P-27", "P-82")
def test_a_program_ends_although_a_function_of_its_worker_does_not() -> None:
    async def main() -> int:
        async with real_stage() as stage:
            stage.task("stubborn", _refuses, timeout_ms=30)
            await stage.enqueue("stubborn")
            process = stage.start(lease_ms=30_000, concurrency=1, abandon_after_ms=30)
            assert process.task is not None
            return await process.task

    assert asyncio.run(main()) == 75


@pytest.mark.promise("P-18", "P-27")
@pytest.mark.parametrize("value", [0, -1, 1.5, True, 30_001])
def test_a_bad_time_after_which_to_abandon_is_refused_with_its_name_and_value(value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"abandon_after_ms={value!r}"):
        WorkerSettings(abandon_after_ms=value)  # type: ignore[arg-type]  # what the test is about
