"""What a running job writes beside its end: one time each, in order, and only while it owns its job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasemq import App, Ctx
from leasemq.errors import InvalidSetting, LeaseLost, PayloadTooLarge
from leasemq.events import LeaseWasLost
from leasemq.job import Job
from leasemq.notes import LOG_LINE_LIMIT_BYTES, PROGRESS_LIMIT_BYTES, Progress, decode_progress
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import State
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LEASE_MS = 2_000

app = App("memory://")  # never opened: only its calls are of interest here


@app.task(name="child", queue="q")
async def child(name: str) -> str:
    return name


def _active_attempts(stage: Stage, job: str, count: int) -> Any:
    async def is_so() -> bool:
        record = await stage.job(job)
        return record.state is State.ACTIVE and record.attempts == count

    return is_so


@pytest.mark.promise("P-03", "P-63", "E-39")
@pytest.mark.parametrize("lost", ["reply", "request"])
def test_a_note_whose_answer_is_lost_is_there_one_time_and_fails_nothing(theatre: Theatre, lost: str) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> str:
            await ctx.log("one")
            await asyncio.gather(ctx.log("two"), ctx.progress(1, 2), ctx.log("three"))
            await ctx.enqueue(child.options(id="c").call("ada"))
            return "done"

        stage.task("work", work)
        stage.routines["child"] = child.routine()
        process = stage.process()
        lose = process.wire.lose_reply if lost == "reply" else process.wire.lose_request
        for nth in (1, 2, 4, 6, 7):
            lose("note", nth)
        process.task = stage.spawn(process.worker.run())
        job = await stage.enqueue("work", trail=100)
        await stage.until_ended(job, patience_s=120)

        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures, record.stalls) == (State.COMPLETED, 1, 0, 0)
        assert len(record.log) == 3
        page = await stage.backend.trail("q", job, None, None, 100)
        assert page is not None
        kinds = [entry.kind.value for entry in page.entries]
        assert kinds == ["enqueued", "claimed", "log", "log", "progress", "log", "completed"]
        assert not process.events(LeaseWasLost)
        await stage.until_ended()
        assert (await stage.backend.counts("q")).accepted == 2

    theatre(play)


@pytest.mark.promise("P-11", "P-110", "E-47")
def test_a_child_of_a_running_job_is_there_at_once_however_quiet_the_worker_was(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            for number in range(3):
                handle: Job[str] = await ctx.enqueue(child.options(id=f"c{number}").call("ada"))
                assert (handle.queue, handle.id, handle.generation) == ("q", f"c{number}", None)
                await pass_time(0.4)  # within the pause after a look that found nothing
            await pass_time(3_600)

        stage.task("work", work)
        stage.routines["child"] = child.routine()
        stage.start(sweep=False)
        job = await stage.enqueue("work")
        for number in range(3):
            await stage.until(_is_stored(stage, f"c{number}"), patience_s=0.45)
        await stage.until_ended("c0", "c1", "c2", patience_s=1)
        assert (await stage.job(job)).state is State.ACTIVE
        assert (await stage.job("c1")).creator == (await stage.job(job)).ref

    theatre(play)


def _is_stored(stage: Stage, job: str) -> Any:
    async def is_so() -> bool:
        return (await stage.backend.get("q", [job]))[0] is not None

    return is_so


@pytest.mark.promise("P-01", "P-110", "E-47")
def test_a_child_outlives_the_worker_that_had_no_time_to_enqueue_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                await ctx.enqueue(child.options(id="c").call("ada"))
                await pass_time(3_600)

        stage.task("work", work)
        stage.routines["child"] = child.routine()
        dying = stage.process(lease_ms=LEASE_MS)
        dying.wire.lose_request("outbox", times=1_000)
        dying.task = stage.spawn(dying.worker.run())
        job = await stage.enqueue("work")
        await stage.until(_active_attempts(stage, job, 1))
        await stage.pass_time(0.5)
        await dying.die()
        assert (await stage.backend.get("q", ["c"]))[0] is None

        stage.start(lease_ms=LEASE_MS)
        await stage.until(_is_stored(stage, "c"))
        await stage.until_ended(job, "c")
        assert (await stage.job("c")).state is State.COMPLETED

    theatre(play)


@pytest.mark.promise("P-11", "P-63", "E-39")
@pytest.mark.parametrize("verb", ["progress", "log", "checkpoint", "enqueue"])
def test_each_note_of_a_stale_attempt_is_refused_and_changes_nothing(theatre: Theatre, verb: str) -> None:
    async def play(stage: Stage) -> None:
        told: list[str] = []

        async def work(ctx: Ctx) -> None:
            if ctx.attempt > 1:
                await pass_time(3_600)
            await pass_time(1)
            writes: dict[str, Any] = {
                "progress": lambda: ctx.progress(1),
                "log": lambda: ctx.log("late"),
                "checkpoint": lambda: ctx.checkpoint("late"),
                "enqueue": lambda: ctx.enqueue(child.options(id="c").call("late")),
            }
            try:
                await writes[verb]()
            except LeaseLost as error:
                told.append(str(error))
                raise

        stage.task("work", work)
        job = await stage.enqueue("work", trail=100)
        holder = stage.start(lease_ms=60_000, sweep=False)
        await stage.until(_active_attempts(stage, job, 1))
        stage.step_store_clock(61_000)
        stage.start(lease_ms=60_000)
        await stage.until(_active_attempts(stage, job, 2), patience_s=0.9)
        await stage.pass_time(1)

        record = await stage.job(job)
        listed = "offer" if verb == "enqueue" else verb
        assert (len(told), [event.write for event in holder.events(LeaseWasLost)]) == (1, [listed])
        assert [write.write for write in record.refused] == [listed]
        assert (record.state, record.progress, record.log, record.checkpoint) == (
            State.ACTIVE,
            None,
            (),
            None,
        )
        assert await stage.backend.outbox("q", 10) == ()
        page = await stage.backend.trail("q", job, None, None, 100)
        assert page is not None
        assert [entry.kind.value for entry in page.entries] == ["enqueued", "claimed", "stalled", "claimed"]

    theatre(play)


@pytest.mark.promise("P-63", "P-101")
def test_notes_that_are_too_large_are_refused_and_the_attempt_goes_on(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        refused: list[str] = []

        async def work(ctx: Ctx) -> None:
            for write in (
                lambda: ctx.progress(1, data="x" * PROGRESS_LIMIT_BYTES),
                lambda: ctx.log("x" * LOG_LINE_LIMIT_BYTES),
                lambda: ctx.checkpoint("x" * 1024 * 1024),
            ):
                try:
                    await write()
                except PayloadTooLarge as error:
                    refused.append(str(error))
            await ctx.progress(2, 4, "half", data={"rows": [1, 2]})

        stage.task("work", work)
        stage.start()
        job = await stage.enqueue("work")
        await stage.until_ended(job)

        record = await stage.job(job)
        assert [text[:8] for text in refused] == ["progress", "log line", "checkpoi"]
        assert (record.state, record.log, record.checkpoint) == (State.COMPLETED, (), None)
        told = decode_progress(record.progress or b"", job=job)
        assert told == Progress(current=2, total=4, message="half", data={"rows": [1, 2]}, attempt=1)
        assert told.fraction == 0.5

    theatre(play)


@pytest.mark.promise("P-42", "P-110")
def test_a_strict_child_is_refused_for_nobody_would_hear_of_its_conflict(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        told: list[str] = []

        async def work(ctx: Ctx) -> None:
            try:
                await ctx.enqueue(child.options(id="c", strict=True).call("ada"))
            except InvalidSetting as error:
                told.append(str(error))

        stage.task("work", work)
        stage.start()
        job = await stage.enqueue("work")
        await stage.until_ended(job)
        assert "strict=True" in told[0]
        assert (await stage.backend.counts("q")).accepted == 1

    theatre(play)


@pytest.mark.promise("P-63", "P-83")
def test_many_jobs_that_report_all_the_time_share_their_requests(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            for number in range(20):
                await ctx.progress(number, 20)

        stage.task("work", work)
        process = stage.process(concurrency=50)
        process.wire.delay("note", 20, times=100_000)
        process.task = stage.spawn(process.worker.run())
        await stage.enqueue_many("work", [()] * 50)
        await stage.until_ended()

        events = await stage.backend.events("q", "", 10_000)
        assert [event.kind for event in events.events].count(EventKind.PROGRESS) == 50 * 20
        assert process.wire.calls["note"] <= 60

    theatre(play)
