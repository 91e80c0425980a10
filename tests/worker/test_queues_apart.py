"""One queue's store is out of reach while others are served: none of those waits for it, and it is told."""

from __future__ import annotations

import logging

import pytest

from leasemq.context import Ctx
from leasemq.events import (
    BackendBack,
    BackendLost,
    JobEnded,
    LeaseWasLost,
    QueueLost,
    QueueReached,
    StraysReleased,
)
from leasemq.logs import level_of
from leasemq.maintenance import follow_up
from leasemq.protocol.model import Parent, State
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage

QUEUES = ("a", "b", "c")  # asked in this order
FROZEN_MS = 5_000
LEASE_MS = 2_000

cut_or_frozen = pytest.mark.parametrize("frozen_ms", [0, FROZEN_MS])


def cut_off(process: Process, queue: str, frozen_ms: int) -> None:
    """Let nothing of a queue get through any more."""
    process.wire.frozen_ms = frozen_ms
    process.wire.queues_down.add(queue)


async def _noop() -> None:
    pass


@pytest.mark.promise("P-98", "P-82", "P-01")
@cut_or_frozen
@pytest.mark.parametrize("slots", [1, 30])
def test_a_queue_that_cannot_be_reached_holds_up_no_other(
    theatre: Theatre, frozen_ms: int, slots: int
) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES, concurrency=slots)
        await stage.pass_time(1)
        cut_off(process, "a", frozen_ms)
        stuck = await stage.enqueue_many("noop", [()] * 3, queue="a")
        await stage.pass_time((frozen_ms + 500) / 1_000)  # by then it is known to be out of reach
        for _ in range(20):
            for queue in ("b", "c"):
                job = await stage.enqueue("noop", queue=queue)
                await stage.until_ended(job, queue=queue, patience_s=0.2)
            await stage.pass_time(0.5)
        process.wire.queues_down.clear()
        await stage.until_ended(*stuck, queue="a", patience_s=3 + frozen_ms / 1_000)
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-98", "P-82")
def test_a_queue_that_freezes_holds_up_the_others_for_no_longer_than_half_a_second(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES, concurrency=30)
        await stage.pass_time(1)
        cut_off(process, "a", 60_000)
        await stage.enqueue("noop", queue="a")
        await stage.pass_time(0.01)
        job = await stage.enqueue("noop", queue="b")
        await stage.until_ended(job, queue="b", patience_s=0.6)

    theatre(play)


@pytest.mark.promise("P-82")
@cut_or_frozen
def test_a_queue_out_of_reach_is_told_once_and_told_when_it_is_back(theatre: Theatre, frozen_ms: int) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES, lease_ms=LEASE_MS)
        await stage.pass_time(1)
        cut_off(process, "b", frozen_ms)
        for _ in range(60):
            await stage.enqueue("noop", queue="a")
            await stage.enqueue("noop", queue="b")
            await stage.pass_time(0.5)
        assert [event.queue for event in process.events(QueueLost)] == ["b"]
        process.wire.queues_down.clear()
        await stage.until_ended(queue="b", patience_s=3 + frozen_ms / 1_000)
        await stage.pass_time(frozen_ms / 1_000 + 2)
        assert [event.queue for event in process.events(QueueReached)] == ["b"]
        assert process.events(QueueReached)[0].after_ms > 25_000
        assert len(process.events(BackendLost)) == len(process.events(BackendBack)) == 1
        assert len([event for event in process.told if level_of(event) >= logging.INFO]) <= 8

    theatre(play)


@pytest.mark.promise("P-82", "P-98")
def test_an_outage_of_all_names_no_queue(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES, lease_ms=LEASE_MS)
        await stage.pass_time(5)
        process.wire.is_down = True
        await stage.pass_time(30)
        process.wire.is_down = False
        await stage.pass_time(5)
        assert len(process.events(BackendLost)) == len(process.events(BackendBack)) == 1
        assert not process.events(QueueLost)

    theatre(play)


@pytest.mark.promise("P-02", "P-19")
@cut_or_frozen
def test_the_dead_are_recovered_in_the_queues_that_can_be_reached(theatre: Theatre, frozen_ms: int) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            await pass_time(60 if ctx.attempt == 1 else 0)

        stage.task("work", work)
        survivor = stage.start(queues=QUEUES, lease_ms=LEASE_MS)
        await stage.pass_time(1)
        cut_off(survivor, "a", frozen_ms)
        await stage.pass_time(2 * LEASE_MS / 1_000 + 2 * frozen_ms / 1_000)
        for _ in range(3):
            dying = stage.start(queues=("b",), lease_ms=LEASE_MS)
            survivor.wire.queues_down.add("b")  # so that the other one gets it
            job = await stage.enqueue("work", queue="b")
            await stage.pass_time(0.2)
            survivor.wire.queues_down.discard("b")
            await stage.pass_time(LEASE_MS / 1_000 + frozen_ms / 1_000)
            await dying.die()
            await stage.until_ended(job, queue="b", patience_s=2 * LEASE_MS / 1_000 + 2)
            assert (await stage.job(job, "b")).stalls == 1

    theatre(play)


@pytest.mark.promise("P-31")
@cut_or_frozen
def test_due_jobs_start_in_the_queues_that_can_be_reached(theatre: Theatre, frozen_ms: int) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES)
        for queue in ("a", "b"):
            await stage.enqueue("noop", queue=queue, delay_ms=3_000)
        await stage.pass_time(1)
        cut_off(process, "a", frozen_ms)
        await stage.until_ended(queue="b", patience_s=3)

    theatre(play)


@pytest.mark.promise("P-110")
@cut_or_frozen
def test_dependants_start_in_the_queues_that_can_be_reached(theatre: Theatre, frozen_ms: int) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(0.2)

        stage.task("work", work)
        first = await stage.enqueue("work", queue="a")
        parent = await stage.enqueue("work", queue="b")
        child = await stage.enqueue("work", queue="b", parents=(Parent(queue="b", id=parent),))
        await follow_up(stage.backend, "b", 100)
        process = stage.start(queues=QUEUES)
        process.wire.lose_request("settle", times=2)  # both end at one moment
        await stage.until_ended(first, queue="a")
        cut_off(process, "a", frozen_ms)
        await stage.until_ended(child, queue="b", patience_s=3)

    theatre(play)


@pytest.mark.promise("P-80", "P-03")
@pytest.mark.parametrize("lost", ["lose_reply", "lose_request"])
def test_what_a_late_answer_brings_beyond_the_free_slots_is_given_back_at_once(
    theatre: Theatre, lost: str
) -> None:
    async def play(stage: Stage) -> None:
        running, most = 0, 0

        async def work(seconds: float) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await pass_time(seconds)
            running -= 1

        stage.task("work", work)
        process = stage.start(queues=("a", "b"), concurrency=4)
        await stage.pass_time(1)
        getattr(process.wire, lost)("claim", times=1)
        long = await stage.enqueue_many("work", [(5.0,)] * 4, queue="a")
        await stage.enqueue_many("work", [(5.0,)] * 4, queue="b")
        await stage.until_ended(queue="a")
        await stage.until_ended(queue="b")
        records = [await stage.job(job, "a") for job in long]
        assert most == 4
        assert {(one.state, one.stalls, one.failures) for one in records} == {(State.COMPLETED, 0, 0)}
        assert not process.events(LeaseWasLost)
        assert not process.events(StraysReleased)

    theatre(play)


@pytest.mark.promise("P-24")
def test_a_suspect_that_a_late_answer_brings_runs_beside_nothing(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        beside: list[int] = []
        running = 0

        async def work(ctx: Ctx) -> None:
            nonlocal running
            running += 1
            beside.append(running if ctx.attempt > 1 else 0)
            await pass_time(1)
            running -= 1

        stage.task("work", work)
        dying = stage.start(queues=("a",), lease_ms=LEASE_MS, sweep=False)
        suspect = await stage.enqueue("work", queue="a", max_stalls=1)
        await stage.pass_time(0.2)
        await dying.die()
        running = 0
        await _recovered(stage, "a")
        process = stage.process(queues=("a", "b"), concurrency=30)
        process.wire.delay("claim", 1_000)  # its first claim, which takes the suspect
        process.task = stage.spawn(process.worker.run())
        await stage.enqueue_many("work", [()] * 3, queue="b")
        await stage.until_ended(suspect, queue="a")
        assert max(beside) == 1
        assert [event.outcome.value for event in process.events(JobEnded)].count("stalled") == 0

    theatre(play)


async def _recovered(stage: Stage, queue: str) -> None:
    """Return when the only job there waits again."""
    from leasemq.maintenance import Sweep

    sweep = Sweep(stage.backend, [queue], lease_ms=LEASE_MS, clock=stage.clock, patience_ms=0)

    async def waits() -> bool:
        await sweep.step(queue)
        return (await stage.backend.counts(queue)).waiting == 1

    await stage.until(waits)


@pytest.mark.promise("P-81", "P-03")
@cut_or_frozen
def test_a_worker_stops_although_a_queue_cannot_be_reached(theatre: Theatre, frozen_ms: int) -> None:
    async def play(stage: Stage) -> None:
        stage.task("noop", _noop)
        process = stage.start(queues=QUEUES, drain_ms=20_000)
        await stage.pass_time(1)
        cut_off(process, "a", frozen_ms)
        await stage.enqueue("noop", queue="a")
        await stage.pass_time(3)
        stopped_ms = stage.clock()
        assert await process.stop() == 0
        assert stage.clock() - stopped_ms < (1_000 if not frozen_ms else 25_000)

    theatre(play)
