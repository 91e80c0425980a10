"""Functions that block: in threads of their own; and the keeper's thread beside a blocked loop. Real time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from leasemq import App
from leasemq.context import Ctx, running_job
from leasemq.errors import JobCancelled, LeaseLost
from leasemq.events import HandlerStuck, JobStarted, LeaseWasLost, WorkerStopped
from leasemq.maintenance import Sweep
from leasemq.protocol.envelope import decode_plain
from leasemq.protocol.failure import decode_error
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.worker.forks import ESCAPED
from tests.worker.stage import Stage, real_stage
from tests.worker.test_outcomes import RAISED


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A stage in real time."""
    async with real_stage() as one:
        yield one


async def _active(stage: Stage, count: int = 1) -> bool:
    """Whether so many functions run: a claimed job is active before its worker has heard of it."""
    started = sum(len(process.events(JobStarted)) for process in stage.processes)
    return started >= count == (await stage.backend.counts("q")).active


def _blocked(until: threading.Event) -> None:
    assert until.wait(20), "the test never let it go"


@pytest.mark.promise("P-80", "E-23")
@pytest.mark.parametrize("slots", [1, 3, 10])
async def test_exactly_as_many_threads_run_at_once_as_there_are_slots(stage: Stage, slots: int) -> None:
    gate = threading.Semaphore(0)
    guard = threading.Lock()
    seen = {"now": 0, "most": 0}

    def work() -> None:
        with guard:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        assert gate.acquire(timeout=20)
        with guard:
            seen["now"] -= 1

    stage.task("work", work)
    await stage.enqueue_many("work", [()] * (2 * slots))
    stage.start(concurrency=slots)

    async def are_full() -> bool:
        return seen["now"] == slots

    await stage.until(are_full)
    assert (await stage.backend.counts("q")).active == slots
    gate.release(2 * slots)
    await stage.until_ended()
    assert seen["most"] == slots


@pytest.mark.promise("P-21", "P-25", "B38", "B39")
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_sync_function_raises_ends_its_attempt_and_nothing_else(
    stage: Stage, name: str
) -> None:
    make: Callable[[], BaseException] = RAISED[name]

    def bad() -> None:
        raise make()

    def good() -> int:
        return 1

    stage.task("bad", bad, retry=Retry(2, base=0))
    stage.task("good", good)
    job = await stage.enqueue("bad")
    good_ones = await stage.enqueue_many("good", [()] * 20)
    process = stage.start(concurrency=2)
    await stage.until_ended(job, *good_ones)
    record = await stage.job(job)
    assert (record.state, record.attempts, record.failures, record.stalls) == (State.FAILED, 3, 3, 0)
    if name == "StopIteration":
        assert decode_error(record.error or b"").type == "StopIteration"
    assert {(await stage.job(one)).state for one in good_ones} == {State.COMPLETED}
    assert await process.stop() == 0


LEASE_MS = 400


@pytest.mark.promise("P-15", "P-16", "B09", "A-15")
@pytest.mark.alone
async def test_an_async_function_that_blocks_the_loop_for_leases_keeps_its_job(stage: Stage) -> None:
    runs: list[int] = []
    three_leases = threading.Event()

    async def blocking(ctx: Ctx) -> str:
        runs.append(ctx.attempt)
        _blocked(three_leases)
        return "done"

    stage.task("blocking", blocking)
    job = await stage.enqueue("blocking")
    elsewhere = threading.Thread(target=_sweep_for_three_leases, args=(stage, three_leases))
    process = stage.start(lease_ms=LEASE_MS)
    elsewhere.start()
    await stage.until_ended(job)
    elsewhere.join()
    record = await stage.job(job)
    assert (record.state, record.attempts, record.stalls, runs) == (State.COMPLETED, 1, 0, [1])
    assert not process.events(LeaseWasLost)


def _sweep_for_three_leases(stage: Stage, over: threading.Event) -> None:
    """Another process's sweep: it recovers whatever lease has expired."""

    async def sweep() -> None:
        one = Sweep(stage.backend, ["q"])
        until_ms = stage.clock() + 3 * LEASE_MS
        while stage.clock() < until_ms:
            await one.step("q")
            await asyncio.sleep(LEASE_MS / 20_000)

    try:
        asyncio.run(sweep())
    finally:
        over.set()


@pytest.mark.promise("P-63", "P-51")
async def test_a_sync_function_writes_notes_and_sees_its_cancellation(stage: Stage) -> None:
    told: list[str] = []

    def work(ctx: Ctx) -> None:
        assert running_job.get() == ctx.ref
        ctx.progress_sync(1, 2)
        ctx.log_sync("a line")
        ctx.checkpoint_sync([1, 2])
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        try:
            ctx.check_cancelled()
        except JobCancelled as error:
            told.append(str(error))
            raise

    stage.task("work", work)
    job = await stage.enqueue("work")
    stage.start()

    async def has_noted() -> bool:
        return (await stage.job(job)).checkpoint is not None

    await stage.until(has_noted)
    await stage.backend.cancel("q", [job])
    await stage.until_ended(job)
    record = await stage.job(job)
    assert (record.state, len(record.log), len(told)) == (State.CANCELLED, 1, 1)
    assert record.progress is not None


@pytest.mark.promise("P-81", "P-16", "B10")
async def test_a_thread_that_outlasts_the_drain_is_left_behind_and_what_it_sends_is_refused(
    stage: Stage,
) -> None:
    let_go = threading.Event()
    refused = threading.Event()

    def work(ctx: Ctx) -> str:
        if ctx.attempt > 1:
            return "second"
        _blocked(let_go)
        try:
            ctx.progress_sync(1)
        except LeaseLost:
            refused.set()
        return "first"

    routine = stage.task("work", work)
    job = await stage.enqueue("work")
    stopping = stage.start(drain_ms=100)
    await stage.until(lambda: _active(stage))
    assert await stopping.stop() == 0
    assert stopping.events(WorkerStopped)[0].unsettled == 0
    assert [event.ref.id for event in stopping.events(HandlerStuck)] == [job]
    assert (await stage.job(job)).state is State.WAITING
    stage.start()
    await stage.until_ended(job)
    let_go.set()
    await asyncio.to_thread(refused.wait, 10)
    record = await stage.job(job)
    assert refused.is_set()
    assert routine.signature.decode_result(record.result or b"") == "second"
    assert [attempt.outcome for attempt in record.history] == [Outcome.RELEASED, Outcome.COMPLETED]


@pytest.mark.promise("P-27")
async def test_a_thread_out_of_time_keeps_its_slot_and_fails_when_it_ends(stage: Stage) -> None:
    let_go = threading.Event()

    def work(ctx: Ctx) -> str:
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        _blocked(let_go)
        return "too late"

    stage.task("work", work, timeout_ms=50)
    slow = await stage.enqueue("work")
    stage.start(concurrency=1)
    await stage.until(lambda: _active(stage))
    other = await stage.enqueue("work")
    assert (await stage.job(other)).state is State.WAITING
    let_go.set()
    await stage.until_ended(slow, other)
    records = [await stage.job(job) for job in (slow, other)]
    assert {(one.state, one.reason, one.attempts) for one in records} == {(State.FAILED, "timeout", 1)}


@pytest.mark.promise("P-11", "P-16")
async def test_a_thread_whose_lease_is_lost_reports_nothing_when_it_ends(stage: Stage) -> None:
    from leasemq.protocol.decide import Silent, decide

    let_go = threading.Event()

    def work(ctx: Ctx) -> str:
        if ctx.attempt == 1:
            _blocked(let_go)
        return f"attempt {ctx.attempt}"

    routine = stage.task("work", work)
    job = await stage.enqueue("work")
    holder = stage.start(lease_ms=300, sweep=False)
    await stage.until(lambda: _active(stage))
    lease = (await stage.backend.claimed_by("q", (await stage.backend.workers())[0].incarnation))[0]
    holder.wire.is_down = True

    async def is_stolen() -> bool:
        settlement = decide(lease, Silent(), settlement_id=7)
        return (await stage.backend.settle("q", [settlement]))[0] == "applied"

    await stage.until(is_stolen)
    stage.start(lease_ms=300)
    await stage.until_ended(job)
    holder.wire.is_down = False

    async def has_learned() -> bool:
        return bool(holder.events(LeaseWasLost))

    await stage.until(has_learned)
    let_go.set()
    assert await holder.stop() == 0
    record = await stage.job(job)
    assert routine.signature.decode_result(record.result or b"") == "attempt 2"
    assert (record.refused_count, [one.write for one in record.refused]) == (1, ["renew"])


async def test_threads_are_reused_and_end_with_the_worker(stage: Stage) -> None:
    def work() -> str:
        return threading.current_thread().name

    others = set(threading.enumerate())
    routine = stage.task("work", work)
    jobs = await stage.enqueue_many("work", [()] * 50)
    process = stage.start(concurrency=3)
    await stage.until_ended(*jobs)
    names = {routine.signature.decode_result((await stage.job(job)).result or b"") for job in jobs}
    assert len(names) <= 3
    await process.stop()

    async def have_ended() -> bool:
        own = [one for one in threading.enumerate() if one not in others]
        return not any(one.name.startswith("leasemq-") for one in own)

    await stage.until(have_ended)


@pytest.mark.promise("P-82")
async def test_an_error_in_the_keepers_thread_ends_the_run_with_it(stage: Stage) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    stage.task("work", work)
    await stage.enqueue("work")
    process = stage.process(lease_ms=100)
    process.wire.fail("renew", LookupError("a bug in the keeper"))
    with pytest.raises(ExceptionGroup) as caught:
        await process.worker.run()
    assert caught.group_contains(LookupError, match="a bug in the keeper")


@pytest.mark.promise("P-19", "P-15")
async def test_renewals_that_fail_are_tried_again_through_the_whole_lease(stage: Stage) -> None:
    let_go = asyncio.Event()

    async def work() -> str:
        await let_go.wait()
        return "done"

    stage.task("work", work)
    job = await stage.enqueue("work")
    process = stage.process(lease_ms=1_500)
    process.wire.lose_request("renew", times=4)
    process.task = stage.spawn(process.worker.run())

    async def has_renewed() -> bool:
        return process.wire.calls["renew"] >= 6

    await stage.until(has_renewed)
    let_go.set()
    await stage.until_ended(job)
    record = await stage.job(job)
    assert (record.state, record.attempts, record.refused_count) == (State.COMPLETED, 1, 0)


@pytest.mark.promise("P-81", "P-52", "B10")
async def test_a_thread_that_heeds_the_flag_is_waited_for_at_the_end_of_the_drain(stage: Stage) -> None:
    let_go = threading.Event()
    ends: list[str] = []

    def tidying(ctx: Ctx) -> None:
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        let_go.set()
        ends.append("tidied up")

    def deaf() -> str:
        _blocked(let_go)
        return "done"

    stage.task("tidying", tidying)
    stage.task("deaf", deaf)
    heeding, finishing = await stage.enqueue("tidying"), await stage.enqueue("deaf")
    process = stage.start(drain_ms=50)
    await stage.until(lambda: _active(stage, 2))
    assert await process.stop() == 0
    assert ends == ["tidied up"], "its slot and its lease were given back after it, not before"
    assert not process.events(HandlerStuck)
    records = [await stage.job(job) for job in (heeding, finishing)]
    assert [one.state for one in records] == [State.COMPLETED, State.COMPLETED]


@pytest.mark.promise("P-63", "P-21")
@pytest.mark.parametrize("verb", ["progress", "log", "checkpoint", "enqueue"])
async def test_a_sync_note_in_an_async_function_fails_its_attempt_and_not_the_loop(
    stage: Stage, verb: str
) -> None:
    async def work(ctx: Ctx) -> None:
        match verb:
            case "progress":
                ctx.progress_sync(1)
            case "log":
                ctx.log_sync("a line")
            case "enqueue":
                ctx.enqueue_sync(child.call())
            case _:
                ctx.checkpoint_sync(1)

    stage.task("work", work)
    job = await stage.enqueue("work")
    stage.start()
    await stage.until_ended(job)
    record = await stage.job(job)
    told = decode_error(record.error or b"")
    assert (record.state, told.type.rpartition(".")[2]) == (State.FAILED, "SyncInsideLoop")
    assert f"await ctx.{verb}()" in told.message


@App("memory://").task(name="child", queue="q")
def child() -> None:
    """Enqueued by others."""


@pytest.mark.promise("P-110", "P-63", "E-47")
@pytest.mark.parametrize("place", ["thread", "a loop of its own"])
async def test_a_function_in_a_thread_enqueues_children_and_leaves_a_checkpoint(
    stage: Stage, place: str
) -> None:
    def work(ctx: Ctx) -> str:
        if ctx.attempt > 1:
            return str(ctx.last_checkpoint)
        call = child.options(id="c").call()
        if place == "thread":
            ctx.checkpoint_sync("left")
            assert ctx.enqueue_sync(call).id == "c"
        else:
            asyncio.run(ctx.checkpoint("left"))
            assert asyncio.run(ctx.enqueue(call)).id == "c"
        raise ValueError("once more")

    routine = stage.task("work", work, retry=Retry(1, base=0))
    stage.routines["child"] = child.routine()
    stage.start()
    job = await stage.enqueue("work")
    await stage.until_ended(job)

    async def has_run() -> bool:
        (record,) = await stage.backend.get("q", ["c"])
        return record is not None and record.state is State.COMPLETED

    await stage.until(has_run)
    record = await stage.job(job)
    assert routine.signature.decode_result(record.result or b"") == "left"
    assert (await stage.job("c")).creator == record.ref


@pytest.mark.promise("P-63", "P-11")
async def test_a_note_from_a_loop_of_the_function_s_own_is_written_by_the_worker_s(stage: Stage) -> None:
    def work(ctx: Ctx) -> str:
        asyncio.run(ctx.progress(1, 2))
        asyncio.run(ctx.checkpoint("half"))
        return "done"

    stage.task("work", work)
    job = await stage.enqueue("work")
    stage.start()
    await stage.until_ended(job)
    record = await stage.job(job)
    assert (record.state, record.failures) == (State.COMPLETED, 0)
    assert decode_plain(record.checkpoint or b"", what="checkpoint") == "half"


@pytest.mark.promise("P-05", "P-80", "B43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("place", ["thread", "loop"])
async def test_what_a_function_forks_ends_where_it_would_go_on_as_a_second_worker(
    stage: Stage, place: str
) -> None:
    def forked() -> int:
        child = os.fork()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0

    async def forked_in_the_loop() -> int:
        ended = forked()
        await asyncio.sleep(0)
        return ended

    routine = stage.task("work", forked if place == "thread" else forked_in_the_loop)
    job = await stage.enqueue("work")
    stage.start()
    await stage.until_ended(job)
    record = await stage.job(job)
    assert routine.signature.decode_result(record.result or b"") == ESCAPED
    assert record.attempts == 1


@pytest.mark.promise("P-11", "P-63")
def test_a_note_after_the_worker_s_loop_was_closed_is_refused() -> None:
    let_go, told = threading.Event(), threading.Event()
    seen: list[type[BaseException]] = []

    def work(ctx: Ctx) -> None:
        _blocked(let_go)
        try:
            ctx.progress_sync(1)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            told.set()

    async def main() -> None:
        async with real_stage() as stage:
            stage.task("work", work)
            await stage.enqueue("work")
            process = stage.start(drain_ms=10)
            await stage.until(lambda: _active(stage))
            await process.stop()

    asyncio.run(main())
    let_go.set()
    assert told.wait(20)
    assert seen == [LeaseLost]
