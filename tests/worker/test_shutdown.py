"""Stopping: drain, release, a second stop, a cancelled run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from leasemq.errors import BackendUnavailable
from leasemq.events import Draining, HandlerStuck, WorkerStopped
from leasemq.protocol.model import Claimed, Outcome, State
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LEASE_MS = 2_000


async def _active(stage: Stage, count: int = 1) -> bool:
    return (await stage.backend.counts("q")).active == count


async def _sleep(seconds: float) -> str:
    await pass_time(seconds)
    return "done"


@pytest.mark.promise("P-81", "B12")
def test_a_stop_before_the_first_turn_claims_nothing(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        await stage.enqueue_many("sleep", [(1.0,)] * 5)
        process = stage.process()
        process.worker.stop()
        began_ms = stage.clock()
        assert await process.worker.run() == 0
        assert stage.clock() - began_ms < 1_000
        assert process.wire.calls["claim"] == 0
        assert (await stage.backend.counts("q")).waiting == 5

    theatre(play)


@pytest.mark.promise("P-81", "B12")
def test_an_idle_worker_stops_within_a_second_and_leaves_delayed_jobs_alone(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        job = await stage.enqueue("sleep", 1.0, delay_ms=3_600_000)
        due_ms = (await stage.job(job)).due_ms
        process = stage.start()
        await stage.pass_time(2)
        began_ms = stage.clock()
        assert await process.stop() == 0
        assert stage.clock() - began_ms < 1_000
        record = await stage.job(job)
        assert (record.state, record.due_ms) == (State.SCHEDULED, due_ms)
        assert await stage.backend.workers() == ()

    theatre(play)


@pytest.mark.promise("P-81", "B10", "E-25", "A-16")
def test_what_finishes_within_the_drain_time_is_completed_and_nothing_new_is_claimed(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        job = await stage.enqueue("sleep", 6.0)
        draining = stage.start(lease_ms=LEASE_MS, drain_ms=10_000, name="a")
        await stage.until(lambda: _active(stage))
        await stage.pass_time(1)
        draining.worker.stop()
        others = await stage.enqueue_many("sleep", [(0.0,)] * 10)
        stage.start(lease_ms=LEASE_MS, name="b")
        began_ms = stage.clock()
        assert draining.task is not None
        assert await draining.task == 0
        assert stage.clock() - began_ms < 6_500
        await stage.until_ended(*others)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
        assert {(await stage.job(one)).history[0].worker for one in others} == {"b"}
        assert draining.events(Draining)[0].running == 1

    theatre(play)


@pytest.mark.promise("P-81", "B10", "E-22")
def test_what_outlasts_the_drain_time_is_cancelled_and_released(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs: list[int] = []
        cancelled: list[int] = []

        async def work() -> None:
            runs.append(stage.clock())
            try:
                await pass_time(30 if len(runs) == 1 else 0)
            except asyncio.CancelledError:
                cancelled.append(stage.clock())
                raise

        stage.task("work", work)
        job = await stage.enqueue("work")
        stopping = stage.start(drain_ms=1_000, name="a")
        await stage.until(lambda: _active(stage))
        stage.start(name="b")
        began_ms = stage.clock()
        assert await stopping.stop() == 0
        await stage.until_ended(job)
        record = await stage.job(job)
        assert [1_000 <= at_ms - began_ms < 1_200 for at_ms in cancelled] == [True]
        assert runs[1] - began_ms < 2_500
        assert (record.state, record.failures, record.stalls) == (State.COMPLETED, 0, 0)
        assert [attempt.outcome for attempt in record.history] == [Outcome.RELEASED, Outcome.COMPLETED]

    theatre(play)


@pytest.mark.promise("P-81", "B12")
def test_a_second_stop_releases_within_half_a_second_and_exits_non_zero(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        jobs = await stage.enqueue_many("sleep", [(30.0,)] * 3)
        process = stage.start(drain_ms=30_000)
        await stage.until(lambda: _active(stage, 3))
        process.worker.stop()
        await stage.pass_time(1)
        began_ms = stage.clock()
        assert await process.stop() == 1
        assert stage.clock() - began_ms < 500
        records = [await stage.job(job) for job in jobs]
        assert {(one.state, one.stalls, one.failures) for one in records} == {(State.WAITING, 0, 0)}

    theatre(play)


@pytest.mark.promise("P-81")
def test_a_function_that_refuses_its_cancellation_is_left_behind_and_its_job_released(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        stubborn = True

        async def work() -> None:
            while stubborn:
                with suppress(asyncio.CancelledError):
                    await pass_time(5)

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.start(drain_ms=100)
        await stage.until(lambda: _active(stage))
        began_ms = stage.clock()
        assert await process.stop() == 0
        assert stage.clock() - began_ms < 1_100
        assert (await stage.job(job)).state is State.WAITING
        assert [event.ref.id for event in process.events(HandlerStuck)] == [job]
        stubborn = False
        await stage.pass_time(6)
        assert (await stage.job(job)).refused_count == 0, "what it did later was not reported"

    theatre(play)


@pytest.mark.promise("P-81", "B12")
@pytest.mark.parametrize("turns", range(12))
def test_a_run_that_is_cancelled_while_it_starts_ends_within_a_second(theatre: Theatre, turns: int) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        await stage.enqueue_many("sleep", [(30.0,)] * 5)
        process = stage.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        began_ms = stage.clock()
        assert process.task is not None
        process.task.cancel()
        await asyncio.wait({process.task})
        assert stage.clock() - began_ms < 1_000
        counts = await stage.backend.counts("q")
        assert (counts.waiting, counts.active) == (5, 0)

    theatre(play)


@pytest.mark.promise("P-81")
def test_ten_restarts_during_a_long_job_do_not_fail_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs: list[int] = []

        async def work() -> str:
            runs.append(1)
            await pass_time(20 if len(runs) <= 10 else 1)
            return "done"

        stage.task("work", work)
        job = await stage.enqueue("work")
        for _ in range(10):
            process = stage.start(drain_ms=1_000, lease_ms=LEASE_MS)
            await stage.until(lambda: _active(stage))
            await stage.pass_time(1)
            assert await process.stop() == 0
        stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.failures, record.stalls) == (State.COMPLETED, 0, 0)

    theatre(play)


@pytest.mark.promise("P-19", "P-81")
def test_a_drain_waits_for_settlements_that_cannot_be_written_yet(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        job = await stage.enqueue("sleep", 1.0)
        process = stage.start(lease_ms=60_000, drain_ms=10_000)
        await stage.until(lambda: _active(stage))
        process.wire.is_down = True
        process.worker.stop()
        await stage.pass_time(5)
        process.wire.is_down = False
        assert process.task is not None
        assert await process.task == 0
        record = await stage.job(job)
        assert (record.state, record.attempts) == (State.COMPLETED, 1)

    theatre(play)


@pytest.mark.promise("P-81", "P-82")
def test_a_worker_that_cannot_write_at_its_end_says_so_by_its_exit_code(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        await stage.enqueue("sleep", 30.0)
        process = stage.start(lease_ms=60_000, drain_ms=500)
        await stage.until(lambda: _active(stage))
        process.wire.is_down = True
        began_ms = stage.clock()
        assert await process.stop() == 1
        assert stage.clock() - began_ms < 2_000
        assert process.events(WorkerStopped)[0].unsettled == 1

    theatre(play)


@pytest.mark.promise("P-82")
def test_an_error_that_nobody_expects_ends_the_run_with_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        process = stage.process()
        process.wire.fail("expired", ValueError("a bug in the sweep"))
        with pytest.raises(ExceptionGroup) as caught:
            await process.worker.run()
        assert caught.group_contains(ValueError, match="a bug in the sweep")
        assert process.events(WorkerStopped)

    theatre(play)


@pytest.mark.promise("P-82")
def test_a_worker_that_starts_during_an_outage_works_when_it_is_over(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        job = await stage.enqueue("sleep", 0.1)
        process = stage.process()
        process.wire.is_down = True
        process.task = stage.spawn(process.worker.run())
        await stage.pass_time(60)
        process.wire.is_down = False
        await stage.until_ended(job, patience_s=3)
        assert await process.stop() == 0

    theatre(play)


def test_stopping_during_an_outage_with_nothing_to_write_takes_no_drain(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        process = stage.start(drain_ms=30_000)
        await stage.pass_time(1)
        process.wire.fail("claim", BackendUnavailable("gone"), times=10_000)
        await stage.pass_time(60)
        began_ms = stage.clock()
        assert await process.stop() == 0
        assert stage.clock() - began_ms < 1_500

    theatre(play)


@pytest.mark.promise("P-03", "P-81", "B12")
def test_leases_of_a_claim_that_takes_effect_after_the_cancellation_are_released(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        asked = asyncio.Event()
        claim = stage.backend.claim

        async def late(*request: Any) -> Claimed:
            await pass_time(0.05)
            return await claim(*request)

        async def claim_late(*request: Any) -> Claimed:
            """Like a request that was sent: whoever waits for it cannot take it back."""
            asked.set()
            sent = asyncio.ensure_future(late(*request))
            await asyncio.wait({sent})
            return sent.result()

        monkeypatch.setattr(stage.backend, "claim", claim_late)
        await stage.enqueue_many("sleep", [(30.0,)] * 5)
        process = stage.start()
        await asked.wait()
        assert process.task is not None
        process.task.cancel()
        await asyncio.wait({process.task})
        await pass_time(1)
        counts = await stage.backend.counts("q")
        assert (counts.waiting, counts.active) == (5, 0)

    theatre(play)


@pytest.mark.promise("P-03", "P-81", "B12")
@pytest.mark.parametrize("manner", ["stopped twice", "cancelled"])
def test_leases_of_a_claim_that_was_never_answered_are_released_at_the_end(
    theatre: Theatre, manner: str
) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        process = stage.start(name="a")
        await stage.pass_time(1)
        process.wire.hang("claim")
        jobs = await stage.enqueue_many("sleep", [(0.0,)] * 3)
        await stage.until(lambda: _active(stage, 3))
        assert process.task is not None
        began_ms = stage.clock()
        if manner == "cancelled":
            process.task.cancel()
            await asyncio.wait({process.task})
        else:
            process.worker.stop()
            assert await process.stop() == 1
        assert stage.clock() - began_ms < 500
        records = [await stage.job(job) for job in jobs]
        assert {(one.state, one.stalls) for one in records} == {(State.WAITING, 0)}

    theatre(play)


@pytest.mark.promise("P-82")
def test_an_error_of_ours_in_an_attempts_task_ends_the_run_with_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            pass

        class Broken:
            def decode_arguments(self, payload: bytes, *, job: str) -> None:
                raise LookupError("a bug in decoding")

        stage.task("work", work)
        job = await stage.enqueue("work")
        stage.task("work", work, signature=Broken())
        process = stage.process()
        with pytest.raises(ExceptionGroup) as caught:
            await process.worker.run()
        assert caught.group_contains(LookupError, match="a bug in decoding")
        assert process.events(WorkerStopped)[0].exit_code == 70
        assert (await stage.job(job)).failures == 0

    theatre(play)


@pytest.mark.promise("P-82", "P-81")
@pytest.mark.parametrize(("operation", "nth"), [("expired", 1), ("announce", 2), ("outbox", 2)])
def test_a_bug_in_a_chore_gives_back_what_runs_and_costs_it_nothing(
    theatre: Theatre, operation: str, nth: int
) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        job, other = await stage.enqueue("sleep", 600.0), await stage.enqueue("sleep", 1.0)
        process = stage.process(concurrency=2)
        process.wire.fail(operation, ValueError("a bug in a chore"), nth=nth)
        with pytest.raises(ExceptionGroup) as caught:
            await process.worker.run()
        assert caught.group_contains(ValueError, match="a bug in a chore")
        assert process.events(WorkerStopped)[0].unsettled == 0
        record = await stage.job(job)
        assert (record.state, record.stalls, record.failures) == (State.WAITING, 0, 0)
        assert [attempt.outcome for attempt in record.history] == [Outcome.RELEASED]
        assert (await stage.job(other)).stalls == 0

    theatre(play)
