"""Leases while they are held, in danger, lost; cancellation, which the holder learns of the same way."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.context import Ctx
from leasemq.errors import LeaseLost
from leasemq.events import JobEnded, LeaseInDanger, LeaseWasLost
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Outcome, State
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage

LEASE_MS = 2_000


async def _active(stage: Stage, count: int = 1) -> bool:
    return (await stage.backend.counts("q")).active == count


@pytest.mark.promise("P-02", "P-15", "A-15", "E-19")
def test_a_function_of_many_leases_keeps_its_job(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def long() -> str:
            await pass_time(LEASE_MS / 1_000 * 5)
            return "done"

        stage.task("long", long)
        job = await stage.enqueue("long")
        holder = stage.start(lease_ms=LEASE_MS)
        stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls, record.refused_count) == (
            State.COMPLETED,
            1,
            0,
            0,
        )
        assert 12 <= holder.wire.calls["renew"] + stage.processes[1].wire.calls["renew"] <= 20

    theatre(play)


@pytest.mark.promise("P-02", "P-23", "B04", "A-13")
@pytest.mark.parametrize("lease_ms", [LEASE_MS, 30_000])
def test_the_job_of_a_dead_process_starts_elsewhere_within_its_lease_and_a_second(
    theatre: Theatre, lease_ms: int
) -> None:
    async def play(stage: Stage) -> None:
        starts: list[int] = []

        async def work() -> None:
            starts.append(stage.clock())
            if len(starts) == 1:
                await pass_time(3_600)

        stage.task("work", work)
        job = await stage.enqueue("work")
        dying = stage.start(lease_ms=lease_ms)
        await stage.until(lambda: _active(stage))
        stage.start(lease_ms=lease_ms)
        await stage.pass_time(17)
        died_ms = stage.clock()
        await dying.die()
        await stage.until_ended(job, patience_s=120)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls, record.failures) == (State.COMPLETED, 2, 1, 0)
        assert starts[1] - died_ms <= lease_ms + 1_000

    theatre(play)


@pytest.mark.promise("P-11", "P-17", "B01", "A-11")
def test_a_worker_that_learns_of_a_lost_lease_cancels_at_once_and_reports_nothing(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        cancelled: list[int] = []

        async def work(ctx: Ctx) -> str:
            if ctx.attempt > 1:
                return "second"
            try:
                await pass_time(60)
            except asyncio.CancelledError:
                cancelled.append(stage.clock())
                raise
            return "first"

        routine = stage.task("work", work)
        job = await stage.enqueue("work")
        frozen = stage.start(lease_ms=LEASE_MS, name="frozen")
        await stage.until(lambda: _active(stage))
        settled = frozen.wire.calls["settle"]
        _freeze(stage, job)
        other = stage.start(lease_ms=LEASE_MS, name="other")
        await stage.until_ended(job)
        await stage.pass_time(LEASE_MS / 1_000)
        record = await stage.job(job)
        assert routine.signature.decode_result(record.result or b"") == "second"
        lost = frozen.events(LeaseWasLost) + other.events(LeaseWasLost)
        assert [(event.write, event.attempt) for event in lost] == [("renew", 1)]
        assert len(cancelled) == 1
        assert (record.stalls, record.failures, record.refused_count) == (1, 0, 1)
        assert frozen.wire.calls["settle"] == settled + len(frozen.events(JobEnded))

    theatre(play)


def _freeze(stage: Stage, job: str) -> None:
    """Let the lease run out as when the holder is frozen: the backend's clock jumps past it."""
    stage.step_store_clock(LEASE_MS + 1)


@pytest.mark.promise("P-11", "P-63")
def test_progress_under_a_stale_fence_is_refused_and_stops_the_function(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        told: list[str] = []

        async def work(ctx: Ctx) -> None:
            if ctx.attempt > 1:
                return
            await pass_time(0.5)
            try:
                await ctx.progress(1)
            except LeaseLost as error:
                told.append(str(error))
                raise

        stage.task("work", work)
        job = await stage.enqueue("work")
        holder = stage.start(lease_ms=60_000, name="holder", sweep=False)
        await stage.until(lambda: _active(stage))
        await _take_over(stage, job)
        await stage.pass_time(1)
        assert len(told) == 1
        assert [event.write for event in holder.events(LeaseWasLost)] == ["progress"]
        record = await stage.job(job)
        assert (record.state, record.refused_count, record.failures) == (State.ACTIVE, 1, 0)

    theatre(play)


async def _take_over(stage: Stage, job: str) -> None:
    """End the lease as a sweep does, and claim the job for somebody else."""
    from leasemq.protocol.decide import Silent, decide
    from leasemq.protocol.model import Claimant

    stage.step_store_clock(120_000)
    lease = (await stage.backend.expired("q", 1))[0]
    await stage.backend.settle("q", [decide(lease, Silent(), settlement_id=99)])
    claimant = Claimant(worker="x", incarnation="x", request_id="e" * 32)
    assert (await stage.backend.claim("q", 1, 3_600_000, claimant)).leases[0].ref.id == job


@pytest.mark.promise("P-16", "P-19", "E-20")
def test_an_async_function_is_stopped_before_its_lease_can_have_ended(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stopped: list[int] = []

        async def work(ctx: Ctx) -> None:
            if ctx.attempt > 1:
                return
            try:
                await pass_time(60)
            finally:
                stopped.append(stage.clock())

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=LEASE_MS)
        await stage.until(lambda: _active(stage))
        claimed_ms = stage.clock()
        process.wire.is_down = True
        await stage.pass_time(LEASE_MS / 1_000)
        assert claimed_ms < stopped[0] < claimed_ms + LEASE_MS
        assert len(process.events(LeaseInDanger)) == 1
        process.wire.is_down = False
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.failures, record.stalls) == (State.COMPLETED, 0, 0)
        assert record.history[0].outcome is Outcome.RELEASED

    theatre(play)


@pytest.mark.promise("P-16", "P-19")
def test_an_outage_shorter_than_the_remaining_lease_is_not_noticed_by_the_function(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> str:
            await pass_time(6)
            return "done"

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=6_000)
        await stage.until(lambda: _active(stage))
        await stage.pass_time(1.9)
        process.wire.is_down = True
        await stage.pass_time(3)
        process.wire.is_down = False
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.attempts) == (State.COMPLETED, 1)
        assert not process.events(LeaseInDanger)

    theatre(play)


@pytest.mark.promise("P-19")
def test_a_finished_attempt_is_renewed_until_its_settlement_is_answered(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs: list[int] = []

        async def work() -> str:
            runs.append(1)
            return "done"

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.process(lease_ms=LEASE_MS)
        process.wire.lose_request("settle", times=40)
        process.task = stage.spawn(process.worker.run())
        await stage.until(lambda: _active(stage))
        stage.start(lease_ms=LEASE_MS)
        await stage.until_ended(job, patience_s=120)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls, runs) == (State.COMPLETED, 1, 0, [1])
        assert record.ended_ms is not None
        assert record.ended_ms - record.created_ms > 3 * LEASE_MS

    theatre(play)


@pytest.mark.promise("P-50", "P-51", "A-21")
def test_cancelling_a_running_job_cancels_its_function_whatever_it_then_does(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def obedient() -> None:
            await pass_time(60)

        async def stubborn() -> str:
            try:
                await pass_time(60)
            except asyncio.CancelledError:
                return "I finished all the same"
            return "never"

        stage.task("obedient", obedient)
        stage.task("stubborn", stubborn)
        jobs = [await stage.enqueue("obedient"), await stage.enqueue("stubborn")]
        process = stage.start()
        await stage.until(lambda: _active(stage, 2))
        assert list(await stage.backend.cancel("q", jobs)) == [CancelAnswer.CANCELLING] * 2
        await stage.until_ended(*jobs, patience_s=0.1)
        records = [await stage.job(job) for job in jobs]
        assert {(one.state, one.failures, one.result) for one in records} == {(State.CANCELLED, 0, None)}
        assert {event.outcome for event in process.events(JobEnded)} == {Outcome.CANCELLED}

    theatre(play)


@pytest.mark.promise("P-51")
@pytest.mark.parametrize("pushes", ["lost", "heard"])
def test_without_a_push_a_cancellation_is_learned_with_the_next_renewal(
    theatre: Theatre, pushes: str
) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(60)

        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.process(lease_ms=3_000)
        if pushes == "lost":
            process.wire.lose_reply("wait", times=1_000)
        process.task = stage.spawn(process.worker.run())
        await stage.until(lambda: _active(stage))
        await stage.pass_time(0.5)
        await stage.backend.cancel("q", [job])
        await stage.until_ended(job, patience_s=1.1 if pushes == "lost" else 0.1)
        assert (await stage.job(job)).state is State.CANCELLED

    theatre(play)


@pytest.mark.promise("P-50")
def test_a_cancellation_that_a_settlement_did_not_know_of_wins(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> str:
            await stage.backend.cancel("q", [ctx.job_id])
            return "done"

        stage.task("work", work)
        process = stage.process()
        process.wire.lose_reply("wait", times=1_000)
        process.task = stage.spawn(process.worker.run())
        job = await stage.enqueue("work")
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.result, record.refused_count) == (State.CANCELLED, None, 0)
        assert process.wire.calls["settle"] == 2

    theatre(play)


@pytest.mark.promise("P-18")
def test_a_task_of_its_own_lease_is_renewed_for_that_long(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(10)

        stage.task("work", work, lease_ms=60_000)
        job = await stage.enqueue("work")
        process: Process = stage.start(lease_ms=LEASE_MS)
        await stage.until(lambda: _active(stage))
        await stage.pass_time(1.5)
        record = await stage.job(job)
        assert record.lease_until_ms is not None
        assert record.lease_until_ms - await stage.backend.now_ms() > 50_000
        renewals = process.wire.calls["renew"]
        await stage.pass_time(5)
        assert process.wire.calls["renew"] == renewals == 1

    theatre(play)


@pytest.mark.promise("P-12", "A-12", "E-18")
@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_step_of_the_stores_clock_costs_at_most_a_run_and_accepts_no_stale_write(
    theatre: Theatre, step_ms: int
) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> int:
            await pass_time(1)
            return ctx.attempt

        routine = stage.task("work", work)
        jobs = await stage.enqueue_many("work", [()] * 5)
        for _ in range(2):
            stage.start(lease_ms=LEASE_MS)
        await stage.until(lambda: _active(stage, 5))
        stage.step_store_clock(step_ms)
        await stage.until_ended(*jobs)
        for job in jobs:
            record = await stage.job(job)
            assert record.state is State.COMPLETED
            assert routine.signature.decode_result(record.result or b"") == record.attempts

    theatre(play)


@pytest.mark.promise("P-02", "P-18")
def test_a_job_whose_task_has_a_shorter_lease_is_held_for_no_longer_from_the_claim_on(
    theatre: Theatre,
) -> None:
    """Its worker dies before the first heartbeat."""

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                await pass_time(3_600)

        stage.task("work", work, lease_ms=3_000)
        stage.task("other", work)
        job = await stage.enqueue("work")
        dying = stage.start(lease_ms=30_000)
        await stage.until(lambda: _active(stage))
        await stage.pass_time(0.5)
        await dying.die()
        stage.start(lease_ms=30_000)
        await stage.until_ended(job, patience_s=3 + 1)
        assert (await stage.job(job)).stalls == 1

    theatre(play)


@pytest.mark.promise("P-02", "P-16", "P-18")
def test_a_task_without_a_lease_of_its_own_has_the_workers_beside_one_with_a_shorter_lease(
    theatre: Theatre,
) -> None:
    """The claim is as short as the other's; its first heartbeat gives it the full length, and it needs it."""

    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(25)

        stage.task("short", work, lease_ms=3_000)
        stage.task("work", work)
        job = await stage.enqueue("work")
        process = stage.start(lease_ms=30_000)
        await stage.pass_time(2)
        process.wire.is_down = True
        await stage.pass_time(20)
        process.wire.is_down = False
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
        assert not process.events(LeaseInDanger)

    theatre(play)
