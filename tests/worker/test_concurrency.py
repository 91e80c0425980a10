"""Slots: never more at once than N, never more claimed than can start, and never fewer while work waits."""

from __future__ import annotations

import pytest

from leasemq.context import Ctx
from leasemq.protocol.model import DAY_MS, State
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Stage


@pytest.mark.promise("P-80", "E-23")
@pytest.mark.parametrize("slots", [1, 3, 10, 100])
def test_exactly_as_many_functions_run_at_once_as_there_are_slots(theatre: Theatre, slots: int) -> None:
    jobs = 3 * slots + 1

    async def play(stage: Stage) -> None:
        running = 0
        most = 0

        async def work(n: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await pass_time(0.5 + (n % 7) / 10)
            running -= 1

        stage.task("work", work)
        await stage.enqueue_many("work", [(n,) for n in range(jobs)])
        stage.start(concurrency=slots)
        counts = await stage.backend.counts("q")
        while counts.completed < jobs:
            await stage.pass_time(0.033)  # never the instant at which a function ends
            counts = await stage.backend.counts("q")
            assert counts.active == running, "claimed, but not started"
        assert most == slots

    theatre(play)


@pytest.mark.promise("P-80", "B55")
def test_a_busy_worker_leaves_to_an_idle_one_what_it_cannot_start(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        ran: dict[str, list[str]] = {"w0": [], "w1": []}

        async def long(ctx: Ctx) -> None:
            await pass_time(10)

        async def short(ctx: Ctx) -> None:
            ran["w1"].append("short")

        stage.task("long", long)
        stage.task("short", short)
        await stage.enqueue("long")
        busy = stage.start(concurrency=1)
        await stage.until(lambda: _is_active(stage, 1))
        stage.start(concurrency=1)
        jobs = await stage.enqueue_many("short", [()] * 5)
        await stage.until_ended(*jobs, patience_s=2)
        by_worker = [(await stage.job(job)).history[0].worker for job in jobs]
        assert by_worker == ["w1"] * 5
        assert busy.wire.calls["settle"] == 0

    theatre(play)


async def _is_active(stage: Stage, count: int) -> bool:
    return (await stage.backend.counts("q")).active == count


@pytest.mark.promise("P-32", "B55")
def test_a_job_of_higher_priority_that_comes_later_is_the_next_to_run(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        order: list[int] = []

        async def work(n: int) -> None:
            order.append(n)
            await pass_time(0.1)

        stage.task("work", work)
        await stage.enqueue_many("work", [(n,) for n in range(100)], priority=-10)
        stage.start(concurrency=1)
        await stage.until(lambda: _is_active(stage, 1))
        await stage.enqueue("work", 1_000, priority=10)
        await stage.until_ended(patience_s=60)
        assert order == [0, 1_000, *range(1, 100)]

    theatre(play)


@pytest.mark.promise("P-32", "B55")
def test_a_job_of_high_priority_comes_back_before_the_low_ones_after_a_failure(theatre: Theatre) -> None:
    from leasemq.protocol.retry import Retry

    async def play(stage: Stage) -> None:
        order: list[str] = []

        async def work(name: str) -> None:
            order.append(name)
            if order == ["high"]:
                raise ValueError("once")

        stage.task("work", work, retry=Retry(1, base=0))
        await stage.enqueue("work", "low 1")
        await stage.enqueue("work", "high", priority=5)
        await stage.enqueue("work", "low 2")
        stage.start(concurrency=1)
        await stage.until_ended()
        assert order == ["high", "high", "low 1", "low 2"]

    theatre(play)


@pytest.mark.promise("P-32", "B55")
def test_priority_is_strict_and_what_it_held_back_starts_once_nothing_higher_waits(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        started: list[str] = []

        async def work(name: str) -> None:
            started.append(name)
            await pass_time(0.5)

        stage.task("work", work)
        await stage.enqueue_many("work", [("high",)] * 2, priority=1)
        low = await stage.enqueue("work", "low")
        stage.start(concurrency=1)
        for done in range(20):  # 10 s, with two of high priority in the queue all the time
            await stage.until(lambda done=done: _has_started(started, done + 1))
            await stage.enqueue("work", "high", priority=1)
        assert "low" not in started
        await stage.until_ended(low, patience_s=3)
        assert started == ["high"] * 22 + ["low"]

    theatre(play)


async def _has_started(started: list[str], count: int) -> bool:
    return len(started) >= count


@pytest.mark.promise("P-32")
def test_queues_take_turns_by_weight_or_in_listed_order(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        order: list[str] = []

        async def work(queue: str) -> None:
            order.append(queue)

        stage.task("work", work)
        for queue in ("a", "b"):
            await stage.enqueue_many("work", [(queue,)] * 30, queue=queue)
        process = stage.start(queues={"a": 2, "b": 1}, concurrency=1)
        await stage.until_ended(queue="a")
        await stage.until_ended(queue="b")
        assert [order[:30].count(queue) for queue in ("a", "b")] == [20, 10]
        await process.stop()
        order.clear()
        for queue in ("a", "b"):
            await stage.enqueue_many("work", [(queue,)] * 5, queue=queue)
        stage.start(queues=("b", "a"), concurrency=1)
        await stage.until_ended(queue="a")
        assert order == ["b"] * 5 + ["a"] * 5

    theatre(play)


@pytest.mark.promise("P-52")
def test_a_paused_queue_starts_nothing_until_it_is_resumed(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            pass

        stage.task("work", work)
        stage.start()
        await stage.backend.pause("q")
        job = await stage.enqueue("work")
        await stage.pass_time(20)
        assert (await stage.job(job)).state is State.WAITING
        await stage.backend.resume("q")
        await stage.until_ended(job, patience_s=1)

    theatre(play)


@pytest.mark.promise("P-31", "B36", "E-10")
def test_a_delayed_job_starts_at_its_due_time_in_an_idle_worker(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            pass

        stage.task("work", work)
        process = stage.start()
        await stage.pass_time(1)
        before = process.wire.calls.total()
        job = await stage.enqueue("work", delay_ms=8_000)
        sooner = await stage.enqueue("work", delay_ms=2_000)
        await stage.pass_time(1.9)
        assert (await stage.job(sooner)).state is State.SCHEDULED
        await stage.until_ended(sooner, patience_s=0.6)
        await stage.pass_time(5.4)
        assert (await stage.job(job)).state is State.SCHEDULED
        await stage.until_ended(job, patience_s=1.1)
        assert process.wire.calls.total() - before < 20, "it waited, it did not poll"

    theatre(play)


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize("delay_ms", [4_294_967_295, 4_294_967_296, 60 * DAY_MS, 3_652 * DAY_MS])
def test_a_far_due_time_neither_disturbs_a_worker_nor_is_missed(theatre: Theatre, delay_ms: int) -> None:
    async def play(stage: Stage) -> None:
        runs: list[str] = []

        async def work(ctx: Ctx) -> None:
            runs.append(ctx.job_id)

        stage.task("work", work)
        process = stage.start()
        job = await stage.enqueue("work", delay_ms=delay_ms)
        await stage.pass_time(60)
        assert ((await stage.job(job)).state, runs) == (State.SCHEDULED, [])

        stage.step_store_clock(delay_ms)
        await stage.until_ended(job, patience_s=16)  # by the look that a worker takes from time to time
        assert runs == [job]
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-31", "P-34", "A-8")
def test_a_thousand_jobs_due_at_one_instant_run_once_each_and_hardly_late(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        late_ms: dict[str, list[int]] = {}

        async def work(ctx: Ctx) -> None:
            late_ms.setdefault(ctx.job_id, []).append(stage.clock() - due_ms)

        stage.task("work", work)
        for number in range(4):
            stage.start(concurrency=50, name=f"w{number}")
        await stage.pass_time(1)
        due_ms = stage.clock() + 5_000
        jobs = await stage.enqueue_many("work", [()] * 1_000, delay_ms=5_000)
        await stage.until_ended(patience_s=8)

        assert {job: len(late_ms[job]) for job in jobs} == dict.fromkeys(jobs, 1)
        lateness = sorted(late for (late,) in late_ms.values())
        assert lateness[0] >= 0
        assert lateness[949] <= 250
        records = await stage.backend.get(QUEUE, jobs)
        assert {(one.attempts, one.stalls) for one in records if one is not None} == {(1, 0)}

    theatre(play)


@pytest.mark.promise("P-83", "A-19")
def test_an_idle_worker_costs_one_command_in_five_seconds(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        process = stage.start(lease_ms=30_000)
        await stage.pass_time(60)
        before = process.wire.calls.total() - process.wire.calls["wait"]
        await stage.pass_time(3_600)
        after = process.wire.calls.total() - process.wire.calls["wait"]
        assert (after - before) / 3_600 <= 0.2

    theatre(play)
