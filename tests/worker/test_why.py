"""What `why` says while real workers work, freeze, die, stop and start again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leasemq.client.explaining import explained
from leasemq.protocol.model import State
from leasemq.protocol.reasons import Reason, Why
from leasemq.protocol.why import Asked
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Stage

LEASE_MS = 4_000


async def why(stage: Stage, job_id: str) -> Sequence[Reason]:
    """All reasons."""
    return await explained(stage.backend, QUEUE, Asked(id=job_id))


async def kinds(stage: Stage, job_id: str) -> list[Why]:
    """Their kinds."""
    return [reason.kind for reason in await why(stage, job_id)]


async def sleep(seconds: float) -> None:
    await pass_time(seconds)


@pytest.mark.promise("P-116", "P-02")
def test_a_job_whose_worker_dies_is_explained_from_its_lease_to_its_second_run(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", sleep)
        job = await stage.enqueue("sleep", 10)
        assert await kinds(stage, job) == [Why.NO_WORKER]
        first = stage.start(name="first", lease_ms=LEASE_MS)
        await stage.pass_time(2)
        (leased,) = await why(stage, job)
        await first.die()
        await stage.pass_time(LEASE_MS / 1_000)
        lapsed = (await why(stage, job))[0]
        stage.start(name="second", lease_ms=LEASE_MS)
        await stage.until_ended(job)
        stall, ended = await why(stage, job)

        assert (leased.kind, leased.values["worker"]) == (Why.LEASED, "first")
        assert leased.values["pid"] is not None
        assert (lapsed.kind, lapsed.values["worker"]) == (Why.LAPSED, "first")
        assert (ended.kind, ended.values["attempts"]) == (Why.COMPLETED, 2)
        assert (stall.kind, stall.values["worker"]) == (Why.AFTER_STALL, "first")
        assert stall.values["fence"] == leased.values["fence"]
        assert (await stage.backend.counts(QUEUE)).stalls == 1

    theatre(play)


@pytest.mark.promise("P-116", "P-115", "P-81")
def test_a_job_that_was_given_back_at_a_shutdown_says_so_and_is_counted(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", sleep)
        worker = stage.start(name="w", drain_ms=0)
        job = await stage.enqueue("sleep", 60)
        await stage.pass_time(1)
        await worker.stop()

        nobody, released = await why(stage, job)

        assert (nobody.kind, released.kind) == (Why.NO_WORKER, Why.AFTER_RELEASE)
        assert released.values["worker"] == "w"
        counts = await stage.backend.counts(QUEUE)
        assert (counts.releases, counts.stalls, counts.refused) == (1, 0, 0)

    theatre(play)


@pytest.mark.promise("P-116", "P-28")
def test_a_task_that_the_only_worker_does_not_know_is_named(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("known", sleep, aliases=("also known",))
        stage.start()
        await stage.pass_time(1)
        (worker,) = await stage.backend.workers()
        job = await stage.enqueue("unknown")
        await stage.pass_time(0.5)

        given_back, no_task = await why(stage, job)

        assert worker.tasks == ("also known", "known")
        assert (given_back.kind, given_back.values["task"]) == (Why.GIVEN_BACK, "unknown")
        assert (no_task.kind, no_task.values["tasks_known"]) == (Why.NO_TASK, ["also known", "known"])
        assert no_task.says.endswith("the 1 worker there knows also known, known")

    theatre(play)


@pytest.mark.promise("P-116", "P-80")
def test_a_job_behind_a_full_worker_waits_for_a_slot_and_runs_when_there_is_one(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", sleep)
        stage.start(concurrency=1)
        busy = await stage.enqueue("sleep", 20)
        first, second = await stage.enqueue_many("sleep", [(0,), (0,)])
        await stage.pass_time(8)  # until the worker has told that its slot is taken

        full = {job: await kinds(stage, job) for job in (busy, first, second)}
        await stage.until_ended(first, second)

        assert full[busy] == [Why.LEASED]
        assert full[first] == [Why.NO_SLOT, Why.NEXT]
        assert full[second] == [Why.NO_SLOT, Why.BEHIND]

    theatre(play)


@pytest.mark.promise("P-116", "P-24")
def test_while_a_worker_makes_way_for_a_suspect_both_jobs_say_so(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stage.task("sleep", sleep)
        poison = await stage.enqueue("sleep", 5, max_stalls=1)
        killed = stage.start(name="killed", concurrency=1, lease_ms=LEASE_MS)
        await stage.pass_time(1)
        stage.start(name="w", concurrency=2, lease_ms=LEASE_MS)
        long = await stage.enqueue("sleep", 30)
        await stage.pass_time(1)
        await killed.die()

        async def is_reserved() -> bool:
            return "worker" in (await why(stage, poison))[0].values and await has_stalled()

        async def has_stalled() -> bool:
            return (await stage.job(poison)).stalls == 1

        await stage.until(is_reserved)
        other = await stage.enqueue("sleep", 0)
        await stage.pass_time(1)
        suspect, stall = await why(stage, poison)
        making_way = await kinds(stage, other)
        await stage.until(lambda: is_active(stage, poison), patience_s=60)
        alone = await kinds(stage, other)
        await stage.until_ended(poison, long, other)

        assert (suspect.kind, suspect.values["worker"]) == (Why.SUSPECT, "w")
        assert stall.kind is Why.AFTER_STALL
        assert making_way == alone == [Why.MAKING_WAY, Why.NEXT]

    theatre(play)


async def is_active(stage: Stage, job_id: str) -> bool:
    return (await stage.job(job_id)).state is State.ACTIVE
