"""A job that kills its process ends as a dead letter; no job beside it does."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.context import Ctx
from leasemq.events import JobEnded, MakingWay
from leasemq.protocol.model import State
from leasemq.testing.virtual_loop import pass_time
from leasemq.worker.company import Company
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage

LEASE_MS = 2_000


class Deaths:
    """Imitates processes that die while they run `poison`, and a supervisor that starts them again."""

    def __init__(self, stage: Stage, slots: int) -> None:
        self.stage = stage
        self.slots = slots
        self.count = 0
        self.runs = 0
        self.alone: list[bool] = []
        self.running_good = 0
        self.mended = False
        self._now = asyncio.Event()

    async def poison(self) -> None:
        """Kill the process that runs this."""
        self.runs += 1
        if self.mended:
            return
        self.alone.append(self.running_good == 0)
        self._now.set()
        await pass_time(3_600)

    async def good(self) -> None:
        """Take a moment, so that others run beside it."""
        self.running_good += 1
        try:
            await pass_time(0.1)
        finally:
            self.running_good -= 1

    async def supervise(self) -> None:
        """Start a worker anew whenever it died."""
        while True:
            process = self.stage.start(concurrency=self.slots, lease_ms=LEASE_MS, name="restarted")
            await self._now.wait()
            self._now.clear()
            self.count += 1
            await process.die()
            self.running_good = 0


@pytest.mark.promise("P-02", "P-23", "P-24", "B07", "A-14")
@pytest.mark.parametrize("slots", [1, 10, 100])
def test_a_poison_job_is_dead_after_its_stalls_and_takes_no_other_job_along(
    theatre: Theatre, slots: int
) -> None:
    async def play(stage: Stage) -> None:
        deaths = Deaths(stage, slots)
        stage.task("poison", deaths.poison)
        stage.task("good", deaths.good)
        poison = await stage.enqueue("poison", max_stalls=2)
        good = await stage.enqueue_many("good", [()] * 20, max_stalls=2)
        supervisor = asyncio.get_running_loop().create_task(deaths.supervise())
        await stage.until_ended(poison, *good, patience_s=120)
        record = await stage.job(poison)
        assert (record.state, record.reason) == (State.FAILED, "stalled")
        assert (deaths.runs, deaths.count, record.stalls, record.failures) == (3, 3, 3, 0)
        assert deaths.alone[-1], "its last run was alone"
        others = [await stage.job(job) for job in good]
        assert {one.state for one in others} == {State.COMPLETED}
        if slots == 1:
            assert {one.attempts for one in others} == {1}
        deaths.mended = True
        await stage.backend.replay("q", [poison], 1)
        await stage.until_ended(poison)
        assert (await stage.job(poison)).state is State.COMPLETED
        supervisor.cancel()

    theatre(play)


async def _all_active(stage: Stage, count: int) -> bool:
    return (await stage.backend.counts("q")).active == count


@pytest.mark.promise("P-24")
def test_a_busy_worker_runs_empty_for_a_suspect_and_then_goes_on(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        running: set[str] = set()
        beside: list[set[str]] = []

        async def work(ctx: Ctx) -> None:
            name = ctx.job_id
            running.add(name)
            beside.append(set(running))
            await pass_time(1)
            running.discard(name)

        stage.task("work", work)
        suspect = await stage.enqueue("work", max_stalls=1)
        dying = stage.start(lease_ms=LEASE_MS, concurrency=1)
        await stage.until(lambda: _all_active(stage, 1))
        await dying.die()
        running.clear()
        beside.clear()
        others = await stage.enqueue_many("work", [()] * 30)
        worker = stage.start(lease_ms=LEASE_MS, concurrency=5)
        await stage.until_ended(suspect, *others, patience_s=120)
        assert {frozenset(names) for names in beside if suspect in names} == {frozenset({suspect})}
        record = await stage.job(suspect)
        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 2, 1)
        assert max(map(len, beside)) == 5
        started = [next(iter(names)) for names in beside if len(names) == 1]
        assert suspect in started
        assert len(worker.events(JobEnded)) == 31

    theatre(play)


@pytest.mark.promise("P-24", "P-82")
def test_a_worker_that_claims_nothing_because_of_a_suspect_says_so(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", pass_time)
        suspect = await stage.enqueue("sleep", 0.1, max_stalls=1)
        dying = stage.start(lease_ms=LEASE_MS, concurrency=1)
        await stage.until(lambda: _all_active(stage, 1))
        await dying.die()
        long = await stage.enqueue("sleep", 20.0)
        worker = stage.start(lease_ms=LEASE_MS, concurrency=5)
        await stage.pass_time(5)
        assert [(one.queue, one.running) for one in worker.events(MakingWay)] == [("q", 1)]
        late = await stage.enqueue("sleep", 0.1)
        await stage.until_ended(suspect, long, late, patience_s=120)
        assert len(worker.events(MakingWay)) == 1

    theatre(play)


@pytest.mark.promise("P-24", "P-34")
def test_suspects_do_not_stop_the_other_processes(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            await pass_time(0.5)

        stage.task("work", work)
        suspects = await stage.enqueue_many("work", [()] * 4, max_stalls=1)
        dying = stage.start(lease_ms=LEASE_MS, concurrency=4)
        await stage.until(lambda: _all_active(stage, 4))
        await dying.die()
        others = await stage.enqueue_many("work", [()] * 60)
        workers: list[Process] = [stage.start(lease_ms=LEASE_MS, concurrency=3) for _ in range(3)]
        await stage.until_ended(*suspects, *others, patience_s=120)
        assert {(await stage.job(job)).state for job in (*suspects, *others)} == {State.COMPLETED}
        assert all(len(worker.events(JobEnded)) > 5 for worker in workers)

    theatre(play)


@pytest.mark.promise("P-24")
@pytest.mark.parametrize("beside_it", [0, 20])
def test_a_suspect_is_alone_in_its_process_whichever_of_its_workers_has_it(
    theatre: Theatre, beside_it: int
) -> None:
    async def play(stage: Stage) -> None:
        running: dict[str, int] = {}
        beside: list[dict[str, int]] = []

        async def work(ctx: Ctx) -> None:
            running[ctx.job_id] = ctx.attempt
            beside.append(dict(running))
            await pass_time(0.5)
            del running[ctx.job_id]

        stage.task("work", work)
        suspects = await stage.enqueue_many("work", [()] * 3, max_stalls=1)
        dying = stage.start(lease_ms=LEASE_MS, concurrency=3)
        await stage.until(lambda: _all_active(stage, 3))
        await dying.die()
        running.clear()
        beside.clear()
        company = Company()
        others = await stage.enqueue_many("work", [()] * beside_it)
        elsewhere = await stage.enqueue_many("work", [()] * 60, queue="r")
        stage.start(lease_ms=LEASE_MS, concurrency=3, company=company)
        stage.start(lease_ms=LEASE_MS, concurrency=3, company=company, queues=("r",))
        await stage.until_ended(*suspects, *others, patience_s=120)
        await stage.until_ended(*elsewhere, queue="r", patience_s=120)
        with_suspect = [names for names in beside if set(names) & set(suspects)]
        assert [len(names) for names in with_suspect] == [1, 1, 1]
        assert max(map(len, beside)) == (6 if others else 3)

    theatre(play)
