"""Requests and replies that are lost: nothing is lost or doubled with them."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.context import Ctx
from leasemq.events import JobEnded, LeaseWasLost, SettlementRefused, StraysReleased
from leasemq.protocol.model import Keep, Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage


def _counting(stage: Stage) -> dict[str, int]:
    runs: dict[str, int] = {}

    async def work(ctx: Ctx) -> int:
        name = ctx.job_id
        runs[name] = runs.get(name, 0) + 1
        await pass_time(0.05)
        return runs[name]

    stage.task("work", work)
    return runs


@pytest.mark.promise("P-03")
@pytest.mark.parametrize("lost", ["lose_reply", "lose_request"])
def test_a_claim_that_was_not_answered_is_repeated_and_costs_nothing(theatre: Theatre, lost: str) -> None:
    async def play(stage: Stage) -> None:
        runs = _counting(stage)
        jobs = await stage.enqueue_many("work", [()] * 10)
        process = stage.process(concurrency=4)
        getattr(process.wire, lost)("claim", times=3)
        process.task = stage.spawn(process.worker.run())
        await stage.until_ended(*jobs)
        records = [await stage.job(job) for job in jobs]
        assert set(runs.values()) == {1}
        assert {(one.state, one.attempts, one.stalls) for one in records} == {(State.COMPLETED, 1, 0)}
        assert not process.events(LeaseWasLost)
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-03", "P-19")
@pytest.mark.parametrize("lost", ["lose_reply", "lose_request"])
def test_a_settlement_that_was_not_answered_is_repeated_and_has_one_effect(
    theatre: Theatre, lost: str
) -> None:
    async def play(stage: Stage) -> None:
        runs = _counting(stage)
        jobs = await stage.enqueue_many("work", [()] * 10)
        process = stage.process(concurrency=4)
        getattr(process.wire, lost)("settle", times=4)
        process.task = stage.spawn(process.worker.run())
        await stage.until_ended(*jobs)
        records = [await stage.job(job) for job in jobs]
        assert set(runs.values()) == {1}
        assert {(one.state, one.attempts, one.refused_count) for one in records} == {(State.COMPLETED, 1, 0)}
        assert not process.events(LeaseWasLost)
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-03")
def test_a_record_that_went_with_its_end_is_no_lost_lease(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        _counting(stage)
        job = await stage.enqueue("work", keep=Keep(record_ms=0, result_ms=0))
        process = stage.process()
        process.wire.lose_reply("settle")
        process.task = stage.spawn(process.worker.run())
        await stage.until_ended(job)
        assert await process.stop() == 0
        assert (await stage.backend.get("q", [job]))[0] is None
        assert not process.events(LeaseWasLost)
        assert [event.outcome for event in process.events(JobEnded)] == [Outcome.COMPLETED]

    theatre(play)


@pytest.mark.promise("P-03", "P-81")
def test_leases_of_a_claim_whose_answer_comes_after_a_stop_are_released_unstarted(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs = _counting(stage)
        process = stage.process(concurrency=4)
        process.task = stage.spawn(process.worker.run())
        await stage.pass_time(1)
        process.wire.delay("claim", 700)
        jobs = await stage.enqueue_many("work", [()] * 3)
        await stage.pass_time(0.2)
        assert await process.stop() == 0
        records = [await stage.job(job) for job in jobs]
        assert {(one.state, one.attempts, one.stalls) for one in records} == {(State.WAITING, 1, 0)}
        assert runs == {}

    theatre(play)


@pytest.mark.promise("P-03")
def test_leases_that_nobody_knows_are_released_after_a_reconnect(theatre: Theatre) -> None:
    """A reply lost, and its repeat answered by other jobs' leases: the first ones were released meanwhile."""

    async def play(stage: Stage) -> None:
        from leasemq.protocol.model import Claimant

        runs = _counting(stage)
        jobs = await stage.enqueue_many("work", [()] * 2)
        process = stage.process(concurrency=1)
        process.wire.lose_request("claim")
        process.task = stage.spawn(process.worker.run())
        await asyncio.sleep(0)
        incarnation = (await _announced(stage))[0]
        stray = Claimant(worker="w0", incarnation=incarnation, request_id="f" * 32)
        taken = (await stage.backend.claim("q", 1, 30_000, stray)).leases
        await stage.until_ended(*jobs, patience_s=5)
        assert [one.ref.id for one in taken] == [jobs[0]]
        assert runs == dict.fromkeys(jobs, 1)
        assert process.events(StraysReleased)[0].count == 1
        assert (await stage.job(jobs[0])).stalls == 0

    theatre(play)


async def _announced(stage: Stage) -> list[str]:
    for _ in range(100):
        if seen := await stage.backend.workers():
            return [worker.incarnation for worker in seen]
        await asyncio.sleep(0)
    raise AssertionError("the worker did not announce itself")


@pytest.mark.promise("P-99", "P-34")
def test_a_refused_batch_is_split_until_the_bad_item_stands_alone(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        _counting(stage)
        jobs = await stage.enqueue_many("work", [()] * 8)
        process = stage.process(concurrency=8)
        process.wire.refuse("settle", lambda _, settlements: jobs[5] in [one.job_id for one in settlements])
        process.task = stage.spawn(process.worker.run())
        good = [job for job in jobs if job != jobs[5]]
        await stage.until_ended(*good)
        refused = process.events(SettlementRefused)
        assert [event.ref.id for event in refused] == [jobs[5]]
        assert {(await stage.job(job)).attempts for job in good} == {1}

    theatre(play)


@pytest.mark.promise("P-03", "P-11", "P-19")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_at_random_each_job_completes_and_no_run_is_wasted(
    theatre: Theatre, seed: int
) -> None:
    import random

    async def play(stage: Stage) -> None:
        dice = random.Random(seed)
        runs: dict[str, int] = {}

        async def work(ctx: Ctx) -> None:
            name = ctx.job_id
            runs[name] = runs.get(name, 0) + 1
            await pass_time(dice.random())
            await ctx.progress(1)
            if dice.random() < 0.2:
                raise ValueError("unlucky")

        stage.task("work", work, retry=Retry(50, base=0.1))
        jobs = await stage.enqueue_many("work", [()] * 40)
        for slots in (1, 3, 10):
            process = stage.process(concurrency=slots, lease_ms=5_000)
            for operation in ("claim", "settle", "renew", "note", "advance", "expired", "announce", "wait"):
                for nth in range(1, 200):
                    if dice.random() < 0.15:
                        lose = process.wire.lose_reply if dice.random() < 0.5 else process.wire.lose_request
                        lose(operation, nth)
            process.task = stage.spawn(process.worker.run())
        await stage.until_ended(patience_s=300)
        records = [await stage.job(job) for job in jobs]
        assert {one.state for one in records} == {State.COMPLETED}
        assert sum(one.stalls for one in records) == 0
        for one in records:
            assert one.failures == one.attempts - 1 - sum(
                attempt.outcome is Outcome.RELEASED for attempt in one.history
            )
        for process in stage.processes:
            assert await process.stop() == 0

    theatre(play, seed=seed)


@pytest.mark.promise("P-03", "P-11")
def test_a_job_that_ends_while_strays_are_looked_for_is_not_taken_for_one(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(seconds: float) -> None:
            await pass_time(seconds)

        stage.task("work", work)
        job = await stage.enqueue("work", 2.0)
        process = stage.start(concurrency=5)
        await stage.pass_time(0.5)
        process.wire.lose_reply("claim")
        process.wire.delay("claimed_by", 3_000)
        other = await stage.enqueue("work", 0.0)
        await stage.until_ended(job, other)
        await stage.pass_time(5)
        assert (await stage.job(job)).refused_count == 0
        assert not process.events(LeaseWasLost)
        assert not process.events(StraysReleased)

    theatre(play)
