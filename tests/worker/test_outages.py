"""Outages in the middle of work: nothing lost, no budget spent, one line per change of state."""

from __future__ import annotations

import logging

import pytest

from leasemq.context import Ctx
from leasemq.events import BackendBack, BackendLost, LeasesInDanger, LeaseWasLost
from leasemq.logs import level_of
from leasemq.protocol.model import State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LEASE_MS = 2_000


@pytest.mark.promise("P-19", "P-82", "P-98", "B13", "B15", "A-17")
@pytest.mark.parametrize("outage_s", [1.0, 5.0, 20.0])
def test_an_outage_loses_nothing_and_spends_no_budget(theatre: Theatre, outage_s: float) -> None:
    async def play(stage: Stage) -> None:
        completed_runs: list[str] = []

        async def work(ctx: Ctx, seconds: float) -> None:
            await pass_time(seconds)
            completed_runs.append(ctx.job_id)

        stage.task("work", work)
        jobs = await stage.enqueue_many("work", [(n % 5 / 2,) for n in range(100)])
        processes = [stage.start(lease_ms=LEASE_MS, concurrency=10) for _ in range(2)]
        await stage.pass_time(0.7)
        for process in processes:
            process.wire.is_down = True
        await stage.pass_time(outage_s)
        for process in processes:
            process.wire.is_down = False
        back_ms = stage.clock()
        await stage.until_ended(patience_s=60)
        records = [await stage.job(job) for job in jobs]
        ended_as = {(one.state, one.failures, one.stalls, one.refused_count) for one in records}
        assert ended_as == {(State.COMPLETED, 0, 0, 0)}
        assert set(completed_runs) == set(jobs)
        for process in processes:
            assert len(process.events(BackendLost)) == len(process.events(BackendBack)) == 1
            assert len([event for event in process.told if level_of(event) >= logging.INFO]) <= 6
        assert stage.clock() - back_ms < 30_000

    theatre(play)


@pytest.mark.promise("P-83", "A-17", "B13")
def test_work_goes_on_within_three_seconds_of_the_end_of_a_long_outage(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            pass

        stage.task("work", work)
        process = stage.start()
        await stage.pass_time(1)
        process.wire.is_down = True
        await stage.pass_time(300)
        process.wire.is_down = False
        jobs = await stage.enqueue_many("work", [()] * 10)
        await stage.until_ended(*jobs, patience_s=3)

    theatre(play)


@pytest.mark.promise("P-82", "B13")
def test_flaps_are_told_as_what_they_are_and_not_per_try(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        process = stage.start(lease_ms=LEASE_MS)
        await stage.pass_time(1)
        for _ in range(3):
            process.wire.is_down = True
            await stage.pass_time(5)
            process.wire.is_down = False
            await stage.pass_time(5)
        assert len(process.events(BackendLost)) == 3
        assert len(process.events(BackendBack)) == 3
        assert all(event.after_ms >= 4_000 for event in process.events(BackendBack))

    theatre(play)


@pytest.mark.promise("P-82")
def test_a_connection_that_flaps_writes_no_line_for_each_time(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(0.05)

        stage.task("work", work)
        process = stage.start(lease_ms=LEASE_MS, queues=("q", "r"))
        await stage.pass_time(1)
        jobs = await stage.enqueue_many("work", [()] * 1_000)
        for _ in range(40):
            process.wire.is_down = True
            await stage.pass_time(0.1)
            process.wire.is_down = False
            await stage.pass_time(0.4)
        assert len(process.events(BackendLost)) <= 2
        await stage.until_ended(*jobs)
        await stage.pass_time(10)
        assert len(process.events(BackendBack)) == len(process.events(BackendLost))
        assert process.worker.health().is_connected

    theatre(play)


@pytest.mark.promise("P-82", "P-84")
@pytest.mark.parametrize("seconds", [0.05, 1.0])
def test_a_busy_worker_is_connected_again_though_what_could_not_be_renewed_is_long_over(
    theatre: Theatre, seconds: float
) -> None:
    async def play(stage: Stage) -> None:
        async def work(seconds: float) -> None:
            await pass_time(seconds)

        stage.task("work", work)
        await stage.enqueue_many("work", [(4.0,), *[(seconds,)] * int(30 / seconds)])
        process = stage.start(lease_ms=9_000, concurrency=2)
        process.wire.lose_request("renew", times=1_000)
        await stage.pass_time(4.5)
        assert process.events(BackendLost)
        await stage.pass_time(1.5)
        assert process.worker.health().is_connected
        assert len(process.events(BackendBack)) == 1

    theatre(play)


@pytest.mark.promise("P-20", "P-22", "B54")
def test_a_thousand_jobs_that_fail_together_return_spread_out(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        seconds: list[int] = []

        async def work(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                raise ValueError("together")
            seconds.append(stage.clock() // 1_000)

        stage.task("work", work, retry=Retry(1, base=10, jitter="full"))
        jobs = await stage.enqueue_many("work", [()] * 1_000)
        process = stage.start(concurrency=100)
        await stage.until_ended(patience_s=60)
        records = await stage.backend.get("q", jobs)
        assert {one.attempts for one in records if one is not None} == {2}
        buckets = {second: seconds.count(second) for second in seconds}
        assert max(buckets.values()) <= 148
        assert len(buckets) >= 10
        assert not process.events(LeaseWasLost)

    theatre(play)


@pytest.mark.promise("P-82", "P-19")
def test_the_end_of_an_outage_is_told_even_if_nothing_is_left_to_renew(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(seconds: float) -> None:
            await pass_time(seconds)

        stage.task("work", work)
        job = await stage.enqueue("work", 1.5)
        process = stage.start(lease_ms=LEASE_MS)
        await stage.pass_time(0.2)
        process.wire.lose_request("renew", times=50)
        await stage.until_ended(job)
        await stage.pass_time(3)
        assert len(process.events(BackendLost)) == len(process.events(BackendBack)) == 1

    theatre(play)


@pytest.mark.promise("P-19", "P-02")
def test_a_process_that_starts_when_an_outage_ends_recovers_nothing_of_those_that_outlived_it(
    theatre: Theatre,
) -> None:
    """It cannot know of the outage; whoever tries to renew, however rarely, must come first all the same."""

    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(1)

        stage.task("work", work)
        for _ in range(6):
            job = await stage.enqueue("work")
            holder = stage.start(lease_ms=LEASE_MS)
            await stage.pass_time(0.5)
            holder.wire.is_down = True
            await stage.pass_time(3 * LEASE_MS / 1_000)
            newcomer = stage.start(lease_ms=LEASE_MS)
            await stage.pass_time(0.1)  # it has found the lease that has ended
            holder.wire.is_down = False
            await stage.until_ended(job)
            record = await stage.job(job)
            assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
            await holder.stop()
            await newcomer.stop()

    theatre(play)


@pytest.mark.promise("P-19", "P-27")
def test_an_end_that_cannot_be_written_keeps_its_lease_also_past_the_time_out(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(0.5)

        stage.task("work", work, timeout_ms=1_000)
        job = await stage.enqueue("work")
        holder = stage.start(lease_ms=3 * LEASE_MS)
        holder.wire.lose_request("settle", times=1_000)
        stage.start(lease_ms=3 * LEASE_MS)
        await stage.pass_time(5 * 3 * LEASE_MS / 1_000)
        holder.wire.plans.clear()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
        assert not holder.events(LeasesInDanger)

    theatre(play)


@pytest.mark.promise("P-82", "P-16", "P-19")
def test_one_line_tells_of_all_leases_that_an_outage_endangers(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(30)

        stage.task("work", work)
        await stage.enqueue_many("work", [()] * 50)
        process = stage.start(lease_ms=LEASE_MS, concurrency=50)
        await stage.pass_time(1)
        process.wire.is_down = True
        await stage.pass_time(3 * LEASE_MS / 1_000)
        assert [event.count for event in process.events(LeasesInDanger)] == [50]

    theatre(play)
