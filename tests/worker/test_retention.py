"""Retention keeps up with the rate at which jobs end, and stops nothing else."""

from __future__ import annotations

import pytest

from leasemq.protocol.decide import Returned, decide
from leasemq.protocol.insight import EventKind, JobRecord
from leasemq.protocol.model import Claimant, Keep, NewJob, State
from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Stage

JOBS = 20_000
BATCH = 1_000  # of pruning, at the default sweep batch
LEASE_MS = 30_000


async def _end_all(stage: Stage, keep: Keep) -> None:
    """Run all the jobs through one worker at its defaults."""

    async def work() -> int:
        return 1

    stage.task("work", work)
    stage.start(concurrency=500, lease_ms=LEASE_MS)
    for _ in range(JOBS // 5_000):
        await stage.enqueue_many("work", [()] * 5_000, keep=keep)
    await stage.until_ended(patience_s=60)


async def _results(stage: Stage) -> int:
    """How many results are stored, past their time or not: the store's clock is stepped back to see them."""
    stage.step_store_clock(-3_600_000)
    ids = [f"work-{number}" for number in range(1, JOBS + 1)]
    found = [one for at in range(0, JOBS, 500) for one in await stage.backend.get(QUEUE, ids[at : at + 500])]
    return sum(one is not None and one.result is not None for one in found)


async def _read(stage: Stage, ids: list[str]) -> list[JobRecord]:
    return [record for record in await stage.backend.get(QUEUE, ids) if record is not None]


@pytest.mark.promise("P-01", "P-34")
def test_short_retention_of_twenty_thousand_jobs_is_over_soon_after_its_time(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        await _end_all(stage, Keep(result_ms=20_000, record_ms=20_000))
        before = stage.processes[0].wire.calls["prune"]
        await stage.pass_time(23)
        assert (await stage.backend.counts(QUEUE)).stored == 0
        assert stage.processes[0].wire.calls["prune"] - before <= 3 * JOBS // BATCH

    theatre(play)


@pytest.mark.promise("P-01", "P-34")
def test_results_that_go_before_their_records_go_in_time_too(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        await _end_all(stage, Keep(result_ms=20_000, record_ms=3_600_000))
        before = stage.processes[0].wire.calls["prune"]
        await stage.pass_time(23)
        assert stage.processes[0].wire.calls["prune"] - before <= 3 * JOBS // BATCH
        assert (await stage.backend.counts(QUEUE)).stored == JOBS
        assert await _results(stage) == 0

    theatre(play)


@pytest.mark.promise("P-34")
def test_what_others_left_past_its_retention_goes_at_the_next_look_and_not_a_batch_a_time(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        jobs = [
            NewJob(id=f"old-{n}", task="t", payload=b"{}", keep=Keep(result_ms=1, record_ms=1))
            for n in range(5_000)
        ]
        await stage.backend.enqueue(QUEUE, jobs)
        for at in range(0, 5_000, 1_000):
            await stage.backend.cancel(QUEUE, [job.id for job in jobs[at : at + 1_000]])
        await stage.pass_time(1)
        stage.start(lease_ms=LEASE_MS)
        await stage.pass_time(200)  # a quiet queue is looked at for this once in three minutes
        assert (await stage.backend.counts(QUEUE)).stored == 0

    theatre(play)


@pytest.mark.promise("P-34", "P-60", "E-30")
@pytest.mark.parametrize("record_ms", [0, 3_600_000], ids=["without a record", "before their records"])
def test_results_that_others_left_go_at_the_next_look_and_not_a_batch_a_time(
    theatre: Theatre, record_ms: int
) -> None:
    async def play(stage: Stage) -> None:
        backend, keep = stage.backend, Keep(result_ms=1_000, record_ms=record_ms)
        ids = [f"old-{n}" for n in range(3_000)]
        for at in range(0, 3_000, 1_000):
            part = [NewJob(id=id_, task="t", payload=b"{}", keep=keep) for id_ in ids[at : at + 1_000]]
            await backend.enqueue(QUEUE, part)
            dead = Claimant(worker="dead", incarnation="i", request_id=f"{at:032x}")
            leases = (await backend.claim(QUEUE, 1_000, LEASE_MS, dead)).leases
            ends = [
                decide(one, Returned(result=b"1"), settlement_id=at + n) for n, one in enumerate(leases, 1)
            ]
            await backend.settle(QUEUE, ends)
        await stage.pass_time(2)
        stage.start(lease_ms=LEASE_MS)
        await stage.pass_time(200)
        assert (await backend.counts(QUEUE)).stored == (3_000 if record_ms else 0)
        stage.step_store_clock(-3_600_000)  # what is past its time is not answered
        slips = [one for id_ in ids for one in await backend.slips(QUEUE, [(id_, 0)])]
        results = [
            one.result for at in range(0, 3_000, 500) for one in await _read(stage, ids[at : at + 500])
        ]
        assert [slips.count(None), results.count(None)] == [3_000, len(results)]

    theatre(play)


@pytest.mark.promise("P-34", "P-60", "E-30")
def test_results_that_outlive_their_records_go_in_time_too(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> int:
            return 1

        stage.task("work", work)
        process = stage.start(concurrency=500, lease_ms=LEASE_MS)
        keep = Keep(result_ms=20_000, record_ms=0)
        ids = await stage.enqueue_many("work", [()] * 3_000, keep=keep)
        await stage.until_ended()
        before = process.wire.calls["prune"]
        assert None not in [one for id_ in ids for one in await stage.backend.slips(QUEUE, [(id_, 1)])]
        await stage.pass_time(23)
        assert process.wire.calls["prune"] - before <= 3 * 3_000 // BATCH
        stage.step_store_clock(-3_600_000)
        left = [one for id_ in ids for one in await stage.backend.slips(QUEUE, [(id_, 1)])]
        assert left == [None] * 3_000

    theatre(play)


@pytest.mark.promise("P-34", "P-02")
def test_a_flood_of_records_to_prune_does_not_hold_up_the_recovery_of_the_dead(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> int:
            return 1

        stage.task("work", work)
        keep = Keep(result_ms=1, record_ms=1)
        await stage.enqueue_many("unknown", [()] * 300, keep=keep)
        await stage.backend.cancel(QUEUE, [f"unknown-{n}" for n in range(1, 301)])
        dead = await stage.enqueue("work", queue="other")
        claimant = Claimant(worker="dead", incarnation="i", request_id="a" * 32)
        await stage.backend.claim("other", 1, 1_000, claimant)
        await stage.pass_time(2)
        process = stage.process(queues=(QUEUE, "other"), lease_ms=2_000, sweep_batch=1)
        process.wire.delay("prune", 100, times=1_000)
        process.task = stage.spawn(process.worker.run())
        await stage.until_ended(dead, queue="other", patience_s=4)
        assert (await stage.job(dead, "other")).state is State.COMPLETED
        assert (await stage.backend.counts(QUEUE)).stored > 0, "the flood was not over yet"

    theatre(play)


@pytest.mark.promise("P-62", "E-30")
def test_a_worker_forgets_events_that_are_as_old_as_it_is_told_and_keeps_the_records(
    theatre: Theatre,
) -> None:
    async def play(stage: Stage) -> None:
        async def kinds(pass_s: float) -> list[EventKind]:
            await stage.pass_time(pass_s)
            return [one.kind for one in (await stage.backend.events(QUEUE, "", 10)).events]

        await stage.backend.enqueue(QUEUE, [NewJob(id="a", task="t", payload=b"{}")])
        await stage.backend.cancel(QUEUE, ["a"])
        stage.start(lease_ms=LEASE_MS)
        assert await kinds(600) == [EventKind.ENQUEUED, EventKind.CANCELLED]
        stage.start(lease_ms=LEASE_MS, event_age_ms=1_200_000)
        assert await kinds(300) == [EventKind.ENQUEUED, EventKind.CANCELLED]
        assert await kinds(600) == []
        assert (await stage.backend.counts(QUEUE)).stored == 1

    theatre(play)


@pytest.mark.promise("A-34", "P-43", "P-34")
def test_a_worker_leaves_so_many_records_as_it_is_told_and_a_million_unless_it_is(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> int:
            return 1

        asked: list[int] = []

        def hear(queue: str, limit: int, event_age_ms: int, newest: int) -> bool:
            asked.append(newest)
            return False

        stage.task("work", work)
        first = stage.start(lease_ms=LEASE_MS)
        first.wire.refusals["prune"] = hear
        ids = await stage.enqueue_many("work", [()] * 250)
        await stage.until_ended()
        await stage.pass_time(300)
        assert set(asked) == {1_000_000}
        assert (await stage.backend.counts(QUEUE)).stored == 250
        await first.stop()

        second = stage.start(lease_ms=LEASE_MS, sweep_batch=1, keep_newest=20)
        await stage.pass_time(300)
        assert {record.ref.id for record in await _read(stage, ids)} <= set(ids[-30:])
        assert (await stage.backend.counts(QUEUE)).stored == 20
        assert second.wire.calls["prune"] < 230, "not a record a time"

    theatre(play)
