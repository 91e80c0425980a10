"""What an app puts around every attempt, wherever the job's own function runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leasemq import Ctx, Dead, Retry, Snooze
from leasemq.additions import Additions
from leasemq.errors import InvalidSetting, Refused
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Outcome, State
from leasemq.worker.routine import Around
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage, perform_in_real_time

pytestmark = pytest.mark.promise("A-42")

CallNext = Callable[[], Awaitable[Any]]


def chained(*middleware: Around) -> Around | None:
    additions = Additions()
    for one in middleware:
        additions.add_middleware(one)
    return additions.around()


async def ended(stage: Stage, function: Callable[..., Any], *middleware: Around, **policy: Any) -> JobRecord:
    stage.task("t", function, around=chained(*middleware), **policy)
    id_ = await stage.enqueue("t")
    process = stage.start()
    await stage.until_ended(id_)
    await process.stop()
    return await stage.job(id_)


def told_error(record: JobRecord) -> str:
    assert record.error is not None
    return decode_error(record.error).message


async def in_loop() -> str:
    return "in loop"


def in_thread() -> str:
    return "in thread"


@pytest.mark.parametrize("function", [in_loop, in_thread])
def test_middleware_runs_in_order_around_each_attempt_in_the_loop(
    theatre: Theatre, function: Callable[[], Any]
) -> None:
    told: list[object] = []

    async def outer(ctx: Ctx, call_next: CallNext) -> Any:
        told.append(("outer", ctx.attempt, threading.get_ident() == here))
        value = await call_next()
        told.append(value)
        return "replaced"

    async def inner(ctx: Ctx, call_next: CallNext) -> Any:
        told.append("inner")
        return await call_next()

    async def play(stage: Stage) -> None:
        record = await ended(stage, function, outer, inner)
        assert record.result is not None
        assert b"replaced" in record.result

    here = threading.get_ident()
    (theatre if function is in_loop else perform_in_real_time)(play)
    assert told == [("outer", 1, True), "inner", function.__name__.replace("_", " ")]


@pytest.mark.parametrize("is_async", [True, False])
def test_middleware_sees_the_function_s_error_and_may_decide_how_the_attempt_ends(
    theatre: Theatre, is_async: bool
) -> None:
    seen: list[str] = []

    async def raises() -> None:
        raise ConnectionError("no route")

    def raises_in_thread() -> None:
        raise ConnectionError("no route")

    async def give_up(ctx: Ctx, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except ConnectionError as error:
            seen.append(str(error))
            if ctx.attempt == 1:
                raise Snooze(0.05) from error
            raise Dead("enough") from error

    async def play(stage: Stage) -> None:
        stage.task("t", raises if is_async else raises_in_thread, around=chained(give_up))
        id_ = await stage.enqueue("t")
        process = stage.start()
        await stage.until_ended(id_)
        await process.stop()
        record = await stage.job(id_)
        assert (record.state, record.attempts, record.failures) == (State.FAILED, 2, 1)
        assert told_error(record) == "enough"

    (theatre if is_async else perform_in_real_time)(play)
    assert seen == ["no route", "no route"]


def test_an_error_of_the_middleware_is_the_attempt_s_failure(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def broken(ctx: Ctx, call_next: CallNext) -> Any:
            await call_next()
            raise KeyError("mine")

        record = await ended(stage, in_loop, broken, retry=Retry(1, base=0))
        assert (record.state, record.attempts, record.failures) == (State.FAILED, 2, 2)
        assert "mine" in told_error(record)

    theatre(play)


def test_a_second_call_of_the_function_in_one_attempt_is_refused(theatre: Theatre) -> None:
    runs: list[int] = []

    async def play(stage: Stage) -> None:
        async def again(ctx: Ctx, call_next: CallNext) -> Any:
            await call_next()
            return await call_next()

        async def run() -> None:
            runs.append(1)

        record = await ended(stage, run, again)
        assert record.state is State.FAILED
        assert "call_next a second time" in told_error(record)

    theatre(play)
    assert runs == [1]


def test_what_middleware_leaves_running_ends_before_the_end_is_recorded(theatre: Theatre) -> None:
    told: list[str] = []
    kept: list[asyncio.Task[Any]] = []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
            return "late"
        finally:
            told.append("function ended")

    async def impatient(ctx: Ctx, call_next: CallNext) -> Any:
        kept.append(asyncio.ensure_future(call_next()))
        await asyncio.wait(kept, timeout=5)
        return "enough"

    async def play(stage: Stage) -> None:
        record = await ended(stage, slow, impatient)
        assert record.state is State.COMPLETED
        assert record.ended_ms is not None
        told.append("recorded")

    theatre(play)
    assert told == ["function ended", "recorded"]


def test_a_call_after_the_middleware_has_ended_is_refused(theatre: Theatre) -> None:
    told: list[str] = []
    is_recorded = asyncio.Event()
    kept: list[asyncio.Task[Any]] = []

    async def function() -> None:
        told.append("ran")

    async def forgetful(ctx: Ctx, call_next: CallNext) -> Any:
        async def later() -> None:
            await is_recorded.wait()
            await call_next()

        kept.append(asyncio.create_task(later()))

    async def play(stage: Stage) -> None:
        await ended(stage, function, forgetful)
        is_recorded.set()
        with pytest.raises(Refused, match="after it had ended"):
            await kept[0]

    theatre(play)
    assert told == []


def test_a_function_that_ends_the_program_in_a_task_of_middleware_ends_its_attempt_only(
    theatre: Theatre,
) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def in_a_task(ctx: Ctx, call_next: CallNext) -> Any:
        return await asyncio.ensure_future(call_next())

    async def play(stage: Stage) -> None:
        record = await ended(stage, leave, in_a_task)
        assert record.state is State.FAILED
        assert "SystemExit(3)" in told_error(record)

    theatre(play)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_cancellation_passes_through_middleware_that_waits(theatre: Theatre, is_async: bool) -> None:
    told: list[str] = []

    async def play(stage: Stage) -> None:
        async def waits(ctx: Ctx, call_next: CallNext) -> Any:
            value = await call_next()
            is_waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.append("closed")
            return value

        is_waiting = asyncio.Event()
        stage.task("t", in_loop if is_async else in_thread, around=chained(waits))
        id_ = await stage.enqueue("t")
        process = stage.start()
        await is_waiting.wait()
        await stage.backend.cancel("q", [id_])
        await stage.until_ended(id_)
        assert (await stage.job(id_)).state is State.CANCELLED
        await process.stop()

    (theatre if is_async else perform_in_real_time)(play)
    assert told == ["closed"]


@pytest.mark.parametrize("is_async", [True, False])
def test_the_timeout_bounds_middleware_too(theatre: Theatre, is_async: bool) -> None:
    async def play(stage: Stage) -> None:
        async def waits(ctx: Ctx, call_next: CallNext) -> Any:
            await asyncio.Event().wait()

        record = await ended(stage, in_loop if is_async else in_thread, waits, timeout_ms=100)
        assert (record.state, record.reason) == (State.FAILED, "timeout")
        assert [one.outcome for one in record.history] == [Outcome.FAILED]

    (theatre if is_async else perform_in_real_time)(play)


def test_what_is_no_middleware_is_refused_where_it_is_registered() -> None:
    additions = Additions()

    async def takes_one(ctx: Ctx) -> None: ...

    def not_async(ctx: Ctx, call_next: CallNext) -> Any: ...

    with pytest.raises(InvalidSetting, match=r"takes_one.*\(ctx, call_next\)"):
        additions.add_middleware(takes_one)  # type: ignore[type-var]  # the mistake is the point
    with pytest.raises(InvalidSetting, match="not_async is not an async function"):
        additions.add_middleware(not_async)
    with pytest.raises(InvalidSetting, match="takes no parameter"):
        additions.add_hook(additions.start, in_need)  # type: ignore[type-var]  # the mistake is the point


def in_need(of: int) -> None: ...
