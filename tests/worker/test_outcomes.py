"""What a function does, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from leasemq.context import Ctx, running_job
from leasemq.errors import Dead, RetryAfter, Snooze
from leasemq.events import JobEnded
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.overrides import Overrides, encode_overrides
from leasemq.protocol.retry import Retry
from leasemq.testing.virtual_loop import pass_time
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage


class Silent(BaseException):
    """An own BaseException."""


class Unspeakable(Exception):
    """Its text cannot be had, and it cannot be rebuilt."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__()
        self.lock = (one, two)

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Untouchable(Exception):
    """No attribute of it can be read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"do not touch {name}")


class Unclassed(Exception):
    """What it is cannot be asked."""

    @property  # type: ignore[misc]  # what is tried here is that it is no class
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Partless(ExceptionGroup[Exception]):
    """A group whose parts cannot be had."""

    @property
    def exceptions(self) -> Any:
        raise RuntimeError("no parts")


class DelayFree(Snooze):
    """A verdict without what it needs."""

    def __init__(self) -> None:
        pass


def stuck_in_itself() -> Exception:
    error = ValueError("a cycle")
    error.__cause__ = error
    return error


RAISED: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: ValueError("boom"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "TimeoutError": TimeoutError,
    "BaseException": lambda: Silent("own"),
    "str() raises": lambda: Unspeakable(1, 2),
    "untouchable": Untouchable,
    "unclassed": Unclassed,
    "partless": lambda: Partless("several", [ValueError("x")]),
    "snooze without a delay": DelayFree,
    "cycle": stuck_in_itself,
    "group": lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("x")]),
}


async def _run_beside_good_ones(
    stage: Stage, error: Callable[[], BaseException]
) -> tuple[Process, JobRecord]:
    async def bad() -> None:
        raise error()

    async def good() -> int:
        return 1

    stage.task("bad", bad, retry=Retry(2, base=0))
    stage.task("good", good)
    job = await stage.enqueue("bad")
    process = stage.start(concurrency=2)
    await stage.until_ended(job)
    good_ones = await stage.enqueue_many("good", [()] * 20)
    await stage.until_ended(*good_ones)
    assert {(await stage.job(one)).state for one in good_ones} == {State.COMPLETED}
    return process, await stage.job(job)


@pytest.mark.promise("P-21", "P-25", "B38", "B39")
@pytest.mark.parametrize("name", RAISED)
def test_whatever_an_async_function_raises_ends_its_attempt_and_nothing_else(
    theatre: Theatre, name: str
) -> None:
    async def play(stage: Stage) -> None:
        process, record = await _run_beside_good_ones(stage, RAISED[name])
        assert record.state is State.FAILED
        assert (record.attempts, record.failures, record.stalls) == (3, 3, 0)
        assert [attempt.outcome for attempt in record.history] == ["retried", "retried", "failed"]
        assert record.error is not None
        assert decode_error(record.error).traceback
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-25", "B39")
def test_a_function_that_cancels_its_own_task_has_failed(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def bad() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await pass_time(1)

        stage.task("bad", bad)
        job = await stage.enqueue("bad")
        process = stage.start()
        await stage.until_ended(job)
        assert (await stage.job(job)).failures == 1
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-20", "P-22", "E-11")
def test_retries_follow_the_policy_from_stored_counters(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        starts: list[int] = []

        async def bad() -> None:
            starts.append(stage.clock())
            raise ValueError("again")

        stage.task("bad", bad, retry=Retry(3, base=1, factor=2, jitter="none"))
        job = await stage.enqueue("bad")
        for _ in range(2):  # another worker each time: the delay is not a worker's memory
            process = stage.start()
            seen = len(starts)
            await stage.until(lambda seen=seen: _longer(starts, seen + 1))  # type: ignore[misc]  # mypy takes the default for a parameter
            await process.stop()
        stage.start()
        await stage.until_ended(job)
        gaps = [round((b - a) / 1_000) for a, b in pairwise(starts)]
        assert gaps == [1, 2, 4]

    theatre(play)


async def _longer(seen: list[int], count: int) -> bool:
    return len(seen) > count


@pytest.mark.promise("P-21", "E-13")
def test_without_a_policy_one_failure_is_the_end(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        process, record = await _run_without_policy(stage)
        assert (record.state, record.attempts, record.reason) == (State.FAILED, 1, "error")
        ended = process.events(JobEnded)[0]
        assert (ended.outcome, ended.error_type) == (Outcome.FAILED, "ValueError")

    theatre(play)


async def _run_without_policy(stage: Stage) -> tuple[Process, JobRecord]:
    async def bad() -> None:
        raise ValueError("once")

    stage.task("bad", bad)
    job = await stage.enqueue("bad")
    process = stage.start()
    await stage.until_ended(job)
    return process, await stage.job(job)


@pytest.mark.promise("P-20")
def test_a_function_says_itself_how_its_attempt_ends(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        starts: list[tuple[str, int]] = []

        async def work(ctx: Ctx, verdict: str) -> None:
            starts.append((verdict, stage.clock()))
            if ctx.attempt > 1:
                return
            match verdict:
                case "snooze":
                    raise Snooze(5)
                case "retry":
                    raise RetryAfter(3)
                case _:
                    raise Dead("no use")

        stage.task("work", work, retry=Retry(2, base=60))
        jobs = [await stage.enqueue("work", verdict) for verdict in ("snooze", "retry", "dead")]
        stage.start()
        await stage.until_ended(*jobs)
        snoozed, retried, dead = [await stage.job(job) for job in jobs]
        assert (snoozed.state, snoozed.failures, snoozed.attempts) == (State.COMPLETED, 0, 2)
        assert (retried.state, retried.failures, retried.attempts) == (State.COMPLETED, 1, 2)
        assert (dead.state, dead.reason, dead.attempts) == (State.FAILED, "dead", 1)
        times = {verdict: [at for name, at in starts if name == verdict] for verdict in ("snooze", "retry")}
        assert [round((b - a) / 1_000) for a, b in times.values()] == [5, 3]

    theatre(play)


@pytest.mark.promise("P-20")
def test_a_nonsensical_delay_in_a_verdict_is_the_functions_failure(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            raise Snooze(-1)

        stage.task("work", work)
        job = await stage.enqueue("work")
        stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert record.state is State.FAILED
        assert decode_error(record.error or b"").type == "leasemq.errors.InvalidDelay"

    theatre(play)


class Opaque:
    """Not plain data."""


class Trap:
    """Not plain data, and hostile when looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"do not touch {name}")


UNENCODABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (Opaque, "result_not_serializable"),
    "lambda": (lambda: lambda: 1, "result_not_serializable"),
    "nan": (lambda: float("nan"), "result_not_serializable"),
    "inf": (lambda: float("inf"), "result_not_serializable"),
    "hostile": (Trap, "result_not_serializable"),
    "too large": (lambda: "x" * 2_000, "result_too_large"),
}


@pytest.mark.promise("P-26", "B33", "B34", "A-18")
@pytest.mark.parametrize("name", UNENCODABLE)
def test_a_result_that_cannot_be_kept_fails_the_job_at_once(theatre: Theatre, name: str) -> None:
    make, reason = UNENCODABLE[name]

    async def play(stage: Stage) -> None:
        async def work() -> Any:
            return make()

        stage.task("work", work, retry=Retry(5, base=0), result_limit_bytes=1_000)
        job = await stage.enqueue("work")
        process = stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.reason, record.attempts) == (State.FAILED, reason, 1)
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-27")
@pytest.mark.parametrize("manner", ["is cancelled", "swallows the cancellation", "raises something else"])
def test_an_async_function_that_runs_out_of_time_has_failed(theatre: Theatre, manner: str) -> None:
    async def play(stage: Stage) -> None:
        async def slow() -> str:
            try:
                await pass_time(60)
            except asyncio.CancelledError:
                if manner == "is cancelled":
                    raise
                if manner == "raises something else":
                    raise ValueError("cleaning up failed") from None
            return "too late"

        stage.task("slow", slow, timeout_ms=500)
        job = await stage.enqueue("slow")
        stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.reason, record.failures) == (State.FAILED, "timeout", 1)
        assert decode_error(record.error or b"").type == "leasemq.errors.HandlerTimeout"

    theatre(play)


@pytest.mark.promise("P-27")
def test_a_timeout_of_the_functions_own_making_is_an_ordinary_failure(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            async with asyncio.timeout(0.1):
                await pass_time(1)

        stage.task("work", work, timeout_ms=60_000)
        job = await stage.enqueue("work")
        stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert record.reason == "error"
        assert decode_error(record.error or b"").type == "TimeoutError"

    theatre(play)


@pytest.mark.promise("P-99", "P-28")
def test_arguments_that_cannot_be_read_fail_the_job_and_stop_nothing(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        entered: list[int] = []

        async def work(n: int) -> None:
            entered.append(n)

        stage.task("work", work)
        broken = await stage.enqueue("work", 1, payload=b'{"v": 1, "sch')
        good = await stage.enqueue("work", 2)
        stage.start()
        await stage.until_ended(broken, good)
        record = await stage.job(broken)
        assert (record.state, record.reason, record.attempts) == (State.FAILED, "corrupt", 1)
        assert entered == [2]

    theatre(play)


@pytest.mark.promise("P-28", "B42")
def test_arguments_that_do_not_fit_are_a_failure_that_names_the_parameter(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        entered: list[int] = []

        async def old(user: int) -> None:
            raise AssertionError("replaced below")

        async def new(user: int, site: str) -> None:
            entered.append(user)

        stage.task("work", old)
        job = await stage.enqueue("work", 1)
        stage.task("work", new, retry=Retry(2, base=0))
        stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.failures, entered) == (State.FAILED, 3, [])
        message = decode_error(record.error or b"").message
        assert "work" in message
        assert "site" in message

    theatre(play)


@pytest.mark.promise("P-28", "B42")
def test_a_job_of_an_unknown_task_is_left_to_a_worker_that_knows_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        entered: list[str] = []

        async def work() -> None:
            entered.append("new")

        stage.task("new_task", work)
        newer = stage.enqueue("new_task")
        job = await newer
        old = stage.start(routines={}, name="old")
        await stage.pass_time(5)
        record = await stage.job(job)
        assert record.attempts <= 10
        assert (record.failures, record.stalls, entered) == (0, 0, [])
        stage.start(name="new")
        await stage.until_ended(job, patience_s=3_000)  # each time it is due, either may be the first
        record = await stage.job(job)
        assert (record.state, record.history[-1].worker, entered) == (State.COMPLETED, "new", ["new"])
        assert old.events(JobEnded)[0].outcome is Outcome.RELEASED

    theatre(play)


@pytest.mark.promise("P-28")
def test_an_envelope_of_a_newer_release_is_left_alone(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(n: int) -> None:
            raise AssertionError("not for this worker")

        stage.task("work", work)
        job = await stage.enqueue("work", 1, payload=b'{"v": 99, "body": "?"}')
        stage.start()
        await stage.pass_time(5)
        record = await stage.job(job)
        assert not record.state.is_terminal
        assert (record.failures, record.stalls) == (0, 0)

    theatre(play)


def test_a_task_is_found_under_its_former_name(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> str:
            return "done"

        stage.task("new_name", work, aliases=("old_name",))
        job = await stage.enqueue("old_name", payload=b'{"v":1,"schema":"x"}')
        stage.start()
        await stage.until_ended(job)
        assert (await stage.job(job)).state is State.COMPLETED

    theatre(play)


@pytest.mark.promise("P-13", "P-14", "P-63")
def test_a_function_sees_its_fence_and_a_key_that_outlives_the_attempt(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        seen: list[tuple[int, str, str, Any]] = []

        async def work(ctx: Ctx) -> None:
            assert running_job.get() == ctx.ref
            seen.append(
                (ctx.fence, ctx.idempotency_key(), ctx.idempotency_key("charge"), ctx.last_checkpoint)
            )
            await ctx.progress(1, 2, "half")
            await ctx.log("a line")
            await ctx.checkpoint({"page": ctx.attempt})
            if ctx.attempt == 1:
                raise ValueError("once")

        stage.task("work", work, retry=Retry(1, base=0))
        job, other = [await stage.enqueue("work") for _ in range(2)]
        process = stage.start(concurrency=1)
        await stage.until_ended(job, other)
        record = await stage.job(job)
        assert (record.state, len(record.log)) == (State.COMPLETED, 2)
        of_job = [entry for entry in seen if entry[1] == seen[0][1]]
        assert len(of_job) == 2
        assert of_job[0][0] < of_job[1][0]
        assert [entry[0] for entry in of_job] == [attempt.fence for attempt in record.history]
        assert of_job[0][2] == of_job[1][2] != of_job[0][1]
        assert [entry[3] for entry in of_job] == [None, {"page": 1}]
        assert len({entry[1] for entry in seen}) == 2
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-20", "P-27", "A-3")
def test_a_policy_that_the_job_brings_wins_over_the_tasks(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(3)

        stage.task("work", work, retry=Retry(9, base=0), timeout_ms=60_000)
        own = encode_overrides(Overrides(retry=Retry(1, base=0), timeout_ms=500, lease_ms=90_000))
        job = await stage.enqueue("work", overrides=own)
        stage.start(lease_ms=1_000)
        await stage.pass_time(0.45)
        record = await stage.job(job)
        assert record.lease_until_ms is not None
        assert record.lease_until_ms - await stage.backend.now_ms() > 80_000
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, record.reason, record.attempts) == (State.FAILED, "timeout", 2)

    theatre(play)


@pytest.mark.promise("P-99")
def test_unreadable_overrides_fail_the_job_and_stop_nothing(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work() -> None:
            raise AssertionError("not under a policy that nobody can read")

        stage.task("work", work)
        job = await stage.enqueue("work", overrides=b"\x00nonsense")
        process = stage.start()
        await stage.until_ended(job)
        assert (await stage.job(job)).reason == "corrupt"
        assert await process.stop() == 0

    theatre(play)


@pytest.mark.promise("P-63")
def test_notes_are_written_before_their_jobs_end_even_if_nobody_waits_for_them(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            pending = [asyncio.ensure_future(ctx.log(f"line {n}")) for n in range(50)]
            await asyncio.sleep(0)
            assert not all(one.done() for one in pending)

        stage.task("work", work)
        process = stage.process()
        process.wire.delay("note", 300, times=5)
        process.task = stage.spawn(process.worker.run())
        job = await stage.enqueue("work")
        await stage.until_ended(job)
        record = await stage.job(job)
        assert (record.state, len(record.log), record.refused_count) == (State.COMPLETED, 50, 0)

    theatre(play)
