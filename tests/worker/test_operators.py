"""What operators do to a queue while real workers work on it, through the public API."""

from __future__ import annotations

from typing import Any

import pytest

from leasemq.client.connection import Connections, Source
from leasemq.events import LeaseWasLost
from leasemq.protocol.insight import Change
from leasemq.protocol.model import Acceptance, NewJob, Outcome, State, Unique
from leasemq.queue import Queue
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import QUEUE, Process, Stage

J = "long-1"


def operated(stage: Stage) -> Queue:
    """The public face of the stage's queue."""
    source = Source(open=lambda: stage.backend, is_shared=True)
    return Queue(name=QUEUE, _connections=Connections(lambda: source))


class Scene:
    """J runs for 3 s, 10 jobs are queued, 5 are due in a second; each has a key. Owned by one play."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.queue = operated(stage)
        self.started: list[str] = []

    async def set_up(self) -> Process:
        """Answer the worker that runs J."""
        stage = self.stage

        async def long(ctx: Any) -> None:
            self.started.append(ctx.job_id)
            await pass_time(3)

        async def short(ctx: Any) -> None:
            self.started.append(ctx.job_id)

        stage.task("long", long)
        stage.task("short", short)
        await stage.enqueue("long", unique=Unique(key="J"))
        worker = stage.start(concurrency=1)
        await stage.until(self._is_running)
        for number in range(15):
            delay_ms = 0 if number < 10 else 1_000
            await stage.enqueue("short", unique=Unique(key=str(number)), delay_ms=delay_ms)
        return worker

    async def frees_keys(self) -> None:
        """Assert that each key can be taken again."""
        again = [
            NewJob(id=f"again-{key}", task="short", payload=b"{}", unique=Unique(key=key))
            for key in ("J", *map(str, range(15)))
        ]
        answers = await self.stage.backend.enqueue(QUEUE, again)
        assert {one.acceptance for one in answers} == {Acceptance.CREATED}

    async def _is_running(self) -> bool:
        return (await self.queue.counts()).active == 1


@pytest.mark.promise("P-52", "B58", "A-20", "P-31", "P-43")
def test_a_pause_holds_back_what_waits_and_comes_due_until_it_is_lifted(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        scene = Scene(stage)
        first = await scene.set_up()
        await scene.queue.pause()
        await scene.queue.pause()
        second = stage.start(concurrency=4)

        await pass_time(5)
        assert scene.started == [J]
        assert (await stage.job(J)).state is State.COMPLETED
        assert (await scene.queue.counts()).waiting == 15
        await stage.enqueue("short")
        for worker in (first, second):
            assert await worker.stop() == 0
        for _ in range(2):
            stage.start(concurrency=4)
        await pass_time(5)
        counts = await scene.queue.counts()
        assert (counts.waiting, counts.paused, scene.started) == (16, True, [J])

        await scene.queue.resume()
        await stage.until_ended(patience_s=1)
        counts = await scene.queue.counts()
        assert (counts.completed, len(scene.started), len(set(scene.started))) == (17, 17, 17)

    theatre(play)


@pytest.mark.promise("P-53", "B58", "A-20", "P-41", "P-43")
def test_a_drain_takes_what_has_not_started_and_lets_what_runs_end(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        scene = Scene(stage)
        await scene.set_up()

        assert await scene.queue.drain(dry_run=True) == 15
        assert await scene.queue.drain() == 15
        await stage.until_ended(J)

        record = await stage.job(J)
        assert (record.state, record.attempts, record.refused_count) == (State.COMPLETED, 1, 0)
        counts = await scene.queue.counts()
        assert (counts.stored, counts.completed, counts.removed) == (1, 1, 15)
        assert scene.started == [J]
        await scene.frees_keys()

    theatre(play)


@pytest.mark.promise("P-53", "B58", "A-22", "E-49", "P-11", "P-17")
def test_obliterating_by_force_takes_the_lease_and_the_job_stays_gone(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        scene = Scene(stage)
        worker = await scene.set_up()

        assert await scene.queue.obliterate(force=True) == 16
        await scene.frees_keys()
        await scene.queue.drain()
        await pass_time(5)

        assert [event.ref.id for event in worker.events(LeaseWasLost)] == [J]
        assert await scene.queue.get(J) is None
        counts = await scene.queue.counts()
        assert (counts.stored, counts.failed, counts.expired) == (0, 0, 0)
        after = await stage.enqueue("short")
        await stage.until_ended(after)
        assert scene.started == [J, after]
        assert worker.task is not None
        assert not worker.task.done()

    theatre(play)


@pytest.mark.promise("P-54", "P-53", "A-22")
def test_what_runs_is_not_replayed_and_what_was_replayed_runs_to_an_end_of_its_own(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        runs: list[int] = []
        queue = operated(stage)

        async def once_bad(ctx: Any) -> None:
            runs.append(ctx.fence)
            told = await queue.these([ctx.job_id]).replay()
            assert [one.change for one in told.not_done] == [Change.ILLEGAL]
            if len(runs) == 1:
                raise ValueError("no")

        stage.task("once_bad", once_bad)
        job = await stage.enqueue("once_bad", ttl_ms=60_000)
        stage.start()
        await stage.until_ended(job)
        before = await stage.job(job)
        await pass_time(3_600)

        assert (await queue.where(task="once_bad").replay()).done == 1
        await stage.until_ended(job)

        record = await stage.job(job)
        assert (before.state, record.state, record.payload) == (State.FAILED, State.COMPLETED, before.payload)
        assert [one.outcome for one in record.history] == [Outcome.FAILED, Outcome.COMPLETED]
        assert [one.replay for one in record.history] == [False, True]
        assert runs == sorted(runs)
        assert before.expires_ms is not None
        assert record.expires_ms is not None
        assert record.expires_ms > before.expires_ms

    theatre(play)


@pytest.mark.promise("P-53", "P-31", "P-32")
def test_promoted_moved_and_reprioritised_jobs_start_when_and_in_the_order_told(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        started: list[tuple[str, int]] = []
        queue = operated(stage)
        began_ms = stage.clock()

        async def work(ctx: Any) -> None:
            started.append((ctx.job_id, (stage.clock() - began_ms) // 1_000))

        stage.task("work", work)
        for name in ("promoted", "sooner", "later", "first", "second"):
            await stage.enqueue("work", id=name, delay_ms=60_000)
        await queue.reprioritise("first", 9)
        assert (await queue.these(["sooner", "later"]).reschedule(10)).done == 2
        await queue.reschedule("later", 100)
        stage.start(concurrency=1)
        await queue.promote("promoted")

        await stage.until_ended(patience_s=200)

        assert started == [
            ("promoted", 0), ("sooner", 10), ("first", 60), ("second", 60), ("later", 100),
        ]  # fmt: skip

    theatre(play)
