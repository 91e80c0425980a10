"""What functions ask for: made once in its scope, closed in reverse, whatever the function came to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any, cast

import pytest

from leasemq import Ctx, Snooze
from leasemq.additions import Additions
from leasemq.context import WorkerCtx, running_job
from leasemq.dependencies import Dependencies
from leasemq.errors import InvalidSetting, Refused
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import State
from leasemq.worker.hooks import Hook, Hooks
from leasemq.worker.loop import HURRIED, STOPPED
from leasemq.worker.scopes import WorkerScope
from tests.worker.conftest import Theatre
from tests.worker.stage import Process, Stage, perform_in_real_time

pytestmark = pytest.mark.promise("A-42")


class Company:
    """What tests of dependencies share. Owned by one test."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.dependencies = Dependencies()

    def start(self, stage: Stage, function: Callable[..., Any], **policy: Any) -> Process:
        """A worker that runs the function with the dependencies."""
        shared = WorkerScope(self.dependencies)
        stage.task("t", function, dependencies=self.dependencies, shared=shared, **policy)
        hooks = Hooks(
            start=(Hook(name="open", call=shared.open),),
            stop=(Hook(name="close", call=shared.close, within_s=60),),
        )
        process = stage.process(hooks=hooks)
        process.task = stage.spawn(process.worker.run())
        return process

    async def run(self, stage: Stage, function: Callable[..., Any], **policy: Any) -> JobRecord:
        """One job, from its beginning to its end and its worker's."""
        process = self.start(stage, function, **policy)
        id_ = await stage.enqueue("t")
        await stage.until_ended(id_)
        await process.stop()
        return await stage.job(id_)

    def noted(self, name: str) -> Callable[[], AsyncIterator[str]]:
        """A dependency that tells when it is made, and how it is closed."""

        async def make() -> AsyncIterator[str]:
            self.told.append(f"make {name}")
            try:
                yield name
            except BaseException as error:
                self.told.append(f"{name} sees {type(error).__name__}")
                raise
            else:
                self.told.append(f"close {name}")

        return make

    def noted_sync(self, name: str) -> Callable[[], Iterator[str]]:
        """The same, for functions in threads; it tells which thread, too."""

        def make() -> Iterator[str]:
            thread = threading.get_ident()
            self.told.append(f"make {name}")
            try:
                yield name
            except BaseException as error:
                self.told.append(f"{name} sees {type(error).__name__}")
                raise
            else:
                self.told.append(f"close {name} {'here' if threading.get_ident() == thread else 'elsewhere'}")

        return make


@pytest.fixture
def company() -> Company:
    return Company()


def message(record: JobRecord) -> str:
    assert record.error is not None
    return decode_error(record.error).message


def test_a_dependency_is_made_once_and_closed_in_reverse_before_the_end_is_recorded(
    theatre: Theatre, company: Company
) -> None:
    a, b = company.noted("a"), company.noted("b")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> list[str]:
            both = await asyncio.gather(ctx.use(a), ctx.use(a))
            company.told.append("run")
            return [*both, await ctx.use(b)]

        record = await company.run(stage, function)
        assert record.result is not None
        assert b'["a","a","b"]' in record.result

    theatre(play)
    assert company.told == ["make a", "run", "make b", "close b", "close a"]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "generator", "async generator"])
def test_each_kind_of_function_can_be_a_dependency(theatre: Theatre, company: Company, kind: str) -> None:
    def plain() -> str:
        return "made"

    async def coroutine() -> str:
        return "made"

    def generator(ctx: Ctx) -> Iterator[str]:
        yield "made" if ctx.attempt == 1 else "again"

    async def async_generator() -> AsyncIterator[str]:
        yield "made"

    kinds: dict[str, Callable[..., Any]] = {
        "plain": plain,
        "coroutine": coroutine,
        "generator": generator,
        "async generator": async_generator,
    }

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> Any:
            return await ctx.use(kinds[kind])

        record = await company.run(stage, function)
        assert record.result is not None
        assert b'"made"' in record.result

    theatre(play)


@pytest.mark.parametrize("error", [ValueError("no"), Snooze(0.5)])
def test_the_clean_up_sees_what_the_function_raised_and_cannot_undo_it(
    theatre: Theatre, company: Company, error: Exception
) -> None:
    async def swallows() -> AsyncIterator[int]:
        try:
            yield 1
        except (ValueError, Snooze):
            company.told.append("swallowed")

    a = company.noted("a")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            if ctx.attempt > 1:
                return
            await ctx.use(a)
            await ctx.use(swallows)
            raise error

        record = await company.run(stage, function)
        is_failed = isinstance(error, ValueError)
        assert record.state is (State.FAILED if is_failed else State.COMPLETED)
        assert record.attempts == (1 if is_failed else 2)

    theatre(play)
    assert company.told == ["make a", "swallowed", f"a sees {type(error).__name__}"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_clean_up_that_raises_fails_the_attempt_that_had_succeeded(
    theatre: Theatre, company: Company, is_async: bool
) -> None:
    a = company.noted("a")
    a_sync = company.noted_sync("a")

    def commit() -> Iterator[int]:
        yield 1
        raise ConnectionError("the commit failed")

    async def play(stage: Stage) -> None:
        async def in_loop(ctx: Ctx) -> str:
            await ctx.use(a)
            await ctx.use(commit)
            return "done"

        def in_thread(ctx: Ctx) -> str:
            ctx.use_sync(a_sync)
            ctx.use_sync(commit)
            return "done"

        record = await company.run(stage, in_loop if is_async else in_thread)
        assert record.state is State.FAILED
        assert message(record) == "the commit failed"

    (theatre if is_async else perform_in_real_time)(play)
    assert company.told == ["make a", "a sees ConnectionError"]


def test_a_clean_up_that_raises_does_not_hide_the_function_s_own_error(
    theatre: Theatre, company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_twice() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ConnectionError("the roll-back failed")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(fails_twice)
            raise ValueError("the first")

        assert message(await company.run(stage, function)) == "the first"

    with caplog.at_level(logging.ERROR):
        theatre(play)
    assert "clean-up of the dependency" in caplog.text
    assert "the roll-back failed" in caplog.text


def test_an_error_while_it_is_made_is_the_attempt_s_failure(theatre: Theatre, company: Company) -> None:
    a = company.noted("a")

    async def broken() -> AsyncIterator[int]:
        if company.told:
            raise OSError("no route")
        yield 1

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(a)
            await ctx.use(broken)

        assert message(await company.run(stage, function)) == "no route"

    theatre(play)
    assert company.told == ["make a", "a sees OSError"]


@pytest.mark.parametrize("cause", ["timeout", "cancel"])
def test_what_is_open_is_closed_when_the_function_is_cancelled(
    theatre: Theatre, company: Company, cause: str
) -> None:
    a = company.noted("a")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(a)
            is_running.set()
            await asyncio.Event().wait()

        is_running = asyncio.Event()
        process = company.start(stage, function, timeout_ms=1_000 if cause == "timeout" else None)
        id_ = await stage.enqueue("t")
        await is_running.wait()
        if cause == "cancel":
            await stage.backend.cancel("q", [id_])
        await stage.until_ended(id_)
        await process.stop()
        state = (await stage.job(id_)).state
        assert state is (State.FAILED if cause == "timeout" else State.CANCELLED)

    theatre(play)
    assert company.told == ["make a", "a sees CancelledError"]


def test_a_clean_up_that_does_not_end_is_bounded_in_time(theatre: Theatre, company: Company) -> None:
    async def hangs() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(hangs)

        record = await company.run(stage, function)
        assert record.state is State.FAILED
        assert "hangs did not end within 5 s" in message(record)

    theatre(play)


@pytest.mark.parametrize("fault", ["", "raise", "timeout"])
def test_a_function_in_a_thread_closes_what_it_used_in_its_own_thread(company: Company, fault: str) -> None:
    a = company.noted_sync("a")

    async def play(stage: Stage) -> None:
        def function(ctx: Ctx) -> list[str]:
            told = [ctx.use_sync(a), ctx.use_sync(a)]
            if fault == "raise":
                raise ValueError
            while fault == "timeout" and not ctx.cancelled:
                pause.wait(0.01)
            return told

        pause = threading.Event()
        record = await company.run(stage, function, timeout_ms=100 if fault == "timeout" else None)
        assert record.state is (State.FAILED if fault else State.COMPLETED)

    perform_in_real_time(play)
    ends = {"": "close a here", "raise": "a sees ValueError", "timeout": "a sees HandlerTimeout"}
    assert company.told == ["make a", ends[fault]]


def test_what_jobs_share_is_made_once_and_closed_at_the_worker_s_stop(
    theatre: Theatre, company: Company
) -> None:
    config = company.noted("config")

    async def client(worker: WorkerCtx) -> AsyncIterator[str]:
        told = f"client of {await worker.use(config)}"
        company.told.append(f"make {told}")
        yield told
        company.told.append("close client")

    for one in (config, client):
        company.dependencies.declare(one, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> str:
            return await ctx.use(client)

        process = company.start(stage, function)
        await stage.enqueue_many("t", [()] * 20)
        await stage.until_ended()
        company.told.append("ended")
        assert await process.stop() == STOPPED

    theatre(play)
    assert company.told == ["make config", "make client of config", "ended", "close client", "close config"]


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_plain_function_makes_for_all_is_made_once_and_in_a_thread(
    company: Company, is_async: bool
) -> None:
    pool = company.noted_sync("pool")
    loop_thread = threading.get_ident()

    def connect() -> bool:
        return threading.get_ident() != loop_thread

    company.dependencies.declare(pool, "worker")
    company.dependencies.declare(connect, "worker")

    async def play(stage: Stage) -> None:
        async def in_loop(ctx: Ctx) -> tuple[str, bool]:
            return await ctx.use(pool), await ctx.use(connect)

        def in_thread(ctx: Ctx) -> tuple[str, bool]:
            return ctx.use_sync(pool), ctx.use_sync(connect)

        process = company.start(stage, in_loop if is_async else in_thread)
        ids = await stage.enqueue_many("t", [()] * 20)
        await stage.until_ended()
        results = {(await stage.job(id_)).result for id_ in ids}
        assert len(results) == 1
        assert b'["pool",true]' in (results.pop() or b"")
        company.told.append("ended")
        assert await process.stop() == STOPPED

    perform_in_real_time(play)
    assert company.told[:2] == ["make pool", "ended"]
    assert company.told[2].startswith("close pool")


def test_what_could_not_be_made_for_all_is_tried_again_by_the_next_job(
    theatre: Theatre, company: Company
) -> None:
    async def flaky() -> str:
        company.told.append("try")
        if len(company.told) == 1:
            raise OSError("no route")
        return "made"

    company.dependencies.declare(flaky, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> str:
            return await ctx.use(flaky)

        process = company.start(stage, function)
        first = await stage.enqueue("t")
        await stage.until_ended(first)
        second = await stage.enqueue("t")
        await stage.until_ended(second)
        await process.stop()
        assert (await stage.job(first)).state is State.FAILED
        assert (await stage.job(second)).state is State.COMPLETED

    theatre(play)


@pytest.mark.parametrize(
    "odd",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize("when", ["made", "closed"])
def test_whatever_is_raised_by_what_jobs_share_ends_no_worker(
    theatre: Theatre, company: Company, odd: BaseException, when: str
) -> None:
    async def odd_one() -> AsyncIterator[int]:
        if when == "made":
            raise odd
        yield 1
        raise odd

    config = company.noted("config")
    company.dependencies.declare(config, "worker")
    company.dependencies.declare(odd_one, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(config)
            await ctx.use(odd_one)

        process = company.start(stage, function)
        id_ = await stage.enqueue("t")
        await stage.until_ended(id_)
        assert await process.stop() == (STOPPED if when == "made" else HURRIED)
        record = await stage.job(id_)
        assert record.state is (State.FAILED if when == "made" else State.COMPLETED)
        if when == "made":
            assert record.error is not None
            assert type(odd).__name__ in decode_error(record.error).type

    theatre(play)
    assert company.told == ["make config", "close config"]


def test_what_jobs_share_knows_nothing_of_the_job_that_asked_first(
    theatre: Theatre, company: Company
) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    seen: list[object] = []

    async def pool() -> AsyncIterator[int]:
        seen.append((variable.get(), running_job.get()))
        yield 1
        seen.append((variable.get(), running_job.get()))

    company.dependencies.declare(pool, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> int:
            variable.set("the job's")
            return await ctx.use(pool)

        process = company.start(stage, function)
        await stage.until_ended(await stage.enqueue("t"))
        await process.stop()

    theatre(play)
    assert seen == [("nobody's", None)] * 2


def test_what_jobs_share_is_entered_and_left_in_one_task(theatre: Theatre, company: Company) -> None:
    tasks: list[object] = []

    async def pool() -> AsyncIterator[int]:
        tasks.append(asyncio.current_task())
        yield 1
        tasks.append(asyncio.current_task())

    company.dependencies.declare(pool, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> int:
            return await ctx.use(pool)

        process = company.start(stage, function)
        await stage.until_ended(await stage.enqueue("t"))
        await process.stop()

    theatre(play)
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


@pytest.mark.parametrize("scope", ["job", "worker"])
def test_two_that_wait_for_each_other_are_told_and_not_left_waiting(
    theatre: Theatre, company: Company, scope: str
) -> None:
    both = asyncio.Barrier(2)

    async def meet(use: Callable[[Any], Awaitable[Any]], other: Any) -> Any:
        await both.wait()
        return await use(other)

    async def chicken(context: WorkerCtx) -> Any:
        return await meet(context.use, egg)

    async def egg(context: WorkerCtx) -> Any:
        return await meet(context.use, chicken)

    async def job_s_chicken(context: Ctx) -> Any:
        return await meet(context.use, job_s_egg)

    async def job_s_egg(context: Ctx) -> Any:
        return await meet(context.use, job_s_chicken)

    company.dependencies.declare(chicken, "worker")
    company.dependencies.declare(egg, "worker")
    two: Any = (chicken, egg) if scope == "worker" else (job_s_chicken, job_s_egg)

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await asyncio.gather(*map(ctx.use, two))

        record = await company.run(stage, function)
        assert record.error is not None
        assert "uses itself" in decode_error(record.error).message

    theatre(play)


def test_a_loop_of_the_function_s_own_may_use_what_jobs_share_and_nothing_else(company: Company) -> None:
    pool, session = company.noted("pool"), company.noted("session")
    company.dependencies.declare(pool, "worker")

    async def play(stage: Stage) -> None:
        def function(ctx: Ctx) -> list[str]:
            async def inside() -> list[str]:
                used = await ctx.use(pool)
                with pytest.raises(InvalidSetting, match="use_sync"):
                    await ctx.use(session)
                return [used]

            return asyncio.run(inside())

        record = await company.run(stage, function)
        assert record.state is State.COMPLETED

    perform_in_real_time(play)
    assert company.told == ["make pool", "close pool"]


def test_a_shared_clean_up_may_use_what_was_made_before_and_makes_nothing(
    theatre: Theatre, company: Company
) -> None:
    config, other = company.noted("config"), company.noted("other")

    async def client(worker: WorkerCtx) -> AsyncIterator[int]:
        await worker.use(config)
        yield 1
        company.told.append(f"close with {await worker.use(config)}")
        with pytest.raises(Refused):
            await worker.use(other)

    for one in (config, other, client):
        company.dependencies.declare(one, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(client)

        process = company.start(stage, function)
        await stage.until_ended(await stage.enqueue("t"))
        assert await process.stop() == STOPPED

    theatre(play)
    assert company.told == ["make config", "close with config", "close config"]


async def test_nothing_is_made_for_jobs_that_outlive_their_worker() -> None:
    dependencies = Dependencies()
    made: list[int] = []

    def pool() -> int:
        made.append(1)
        return 1

    dependencies.declare(pool, "worker")
    scope = WorkerScope(dependencies)
    context = WorkerCtx(scope)
    await scope.open()
    assert await scope.use(pool, context) == 1
    await scope.close()
    with pytest.raises(Refused, match="does not run"):
        await scope.use(pool, context)
    with pytest.raises(Refused, match="does not run"):
        await asyncio.to_thread(scope.use_sync, pool, cast("Any", context))
    assert made == [1]


async def test_who_waits_for_what_a_stopping_worker_does_not_make_is_told() -> None:
    dependencies = Dependencies()

    async def pool() -> None:
        await asyncio.Event().wait()

    dependencies.declare(pool, "worker")
    scope = WorkerScope(dependencies)
    await scope.open()
    using = asyncio.create_task(scope.use(pool, WorkerCtx(scope)))
    at_once = asyncio.create_task(scope.use(pool, WorkerCtx(scope)))
    await asyncio.sleep(0)
    await scope.close()
    for one in (using, at_once):
        with pytest.raises(Refused, match="the worker stops"):
            await one


def test_what_a_task_of_the_function_is_late_to_make_is_closed(theatre: Theatre, company: Company) -> None:
    is_late = asyncio.Event()
    late: list[asyncio.Task[Any]] = []

    async def slow() -> AsyncIterator[int]:
        await is_late.wait()
        company.told.append("make")
        try:
            yield 1
        finally:
            company.told.append("close")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            late.append(asyncio.create_task(ctx.use(slow)))
            await asyncio.sleep(0)

        await company.run(stage, function)
        is_late.set()
        with pytest.raises(Refused, match="after the function had ended"):
            await late[0]

    theatre(play)
    assert company.told == ["make", "close"]


def test_overrides_end_each_for_itself_in_whatever_order() -> None:
    dependencies = Dependencies()

    def real() -> None: ...
    def first() -> None: ...
    def second() -> None: ...

    one, other = dependencies.overridden(real, first), dependencies.overridden(real, second)
    one.__enter__()
    other.__enter__()
    assert dependencies.recipe(real).call is second
    one.__exit__(None, None, None)
    assert dependencies.recipe(real).call is second
    other.__exit__(None, None, None)
    assert dependencies.recipe(real).call is real


def test_what_is_built_in_and_tells_nobody_what_it_takes_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="wrap it in a function"):
        Dependencies().recipe(dict)
    with pytest.raises(InvalidSetting, match="takes no parameter"):
        Additions().add_hook([], dict)


def test_a_job_that_is_cancelled_does_not_cancel_what_all_wait_for(
    theatre: Theatre, company: Company
) -> None:
    async def slow() -> AsyncIterator[str]:
        company.told.append("make")
        await is_made.wait()
        yield "made"

    company.dependencies.declare(slow, "worker")
    is_made = asyncio.Event()

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> str:
            return await ctx.use(slow)

        process = company.start(stage, function)
        first, second = await stage.enqueue("t"), await stage.enqueue("t")
        await stage.pass_time(1)
        await stage.backend.cancel("q", [first])
        await stage.until_ended(first)
        is_made.set()
        await stage.until_ended(second)
        assert (await stage.job(second)).state is State.COMPLETED
        await process.stop()

    theatre(play)
    assert company.told == ["make"]


def test_a_shared_clean_up_that_raises_is_logged_and_told_by_the_exit_code(
    theatre: Theatre, company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise OSError("still in use")

    config = company.noted("config")
    company.dependencies.declare(config, "worker")
    company.dependencies.declare(broken, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(config)
            await ctx.use(broken)

        process = company.start(stage, function)
        await stage.until_ended(await stage.enqueue("t"))
        assert await process.stop() == HURRIED

    with caplog.at_level(logging.ERROR):
        theatre(play)
    assert company.told == ["make config", "close config"]
    assert "still in use" in caplog.text


def test_another_function_stands_in_within_an_override(theatre: Theatre, company: Company) -> None:
    real, fake = company.noted("real"), company.noted("fake")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> str:
            return await ctx.use(real)

        with company.dependencies.overridden(real, fake):
            record = await company.run(stage, function)
        assert record.result is not None
        assert b'"fake"' in record.result

    theatre(play)
    assert company.told == ["make fake", "close fake"]
    assert company.dependencies.recipe(real).call is real


def test_what_middleware_asked_for_is_open_until_it_ends_and_the_rest_until_the_function_does(
    theatre: Theatre, company: Company
) -> None:
    a, b = company.noted("a"), company.noted("b")
    additions = Additions()

    async def around(ctx: Ctx, call_next: Callable[[], Awaitable[Any]]) -> Any:
        await ctx.use(a)
        value = await call_next()
        company.told.append("after")
        return value

    additions.add_middleware(around)

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> str:
            return await ctx.use(a) + await ctx.use(b)

        record = await company.run(stage, function, around=additions.around())
        assert record.state is State.COMPLETED

    theatre(play)
    assert company.told == ["make a", "make b", "close b", "after", "close a"]


async def uses_itself(ctx: Ctx) -> int:
    return await ctx.use(in_a_circle)


async def in_a_circle(ctx: Ctx) -> int:
    return await ctx.use(uses_itself)


async def of_one_job(ctx: Ctx) -> int:
    return ctx.attempt


async def of_the_worker(worker: WorkerCtx) -> int:
    return await worker.use(of_one_job)  # type: ignore[arg-type]  # the mistake is the point


async def takes_a_number(n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("dependency", "complaint"),
    [
        (uses_itself, "uses itself: uses_itself → in_a_circle → uses_itself"),
        (of_the_worker, "made for one job"),
        (takes_a_number, "takes 'n', which nobody gives it"),
        ("text", "give the function itself"),
    ],
)
def test_what_cannot_be_made_fails_the_attempt_and_says_why(
    theatre: Theatre, company: Company, dependency: Any, complaint: str
) -> None:
    company.dependencies.declare(of_the_worker, "worker")

    async def play(stage: Stage) -> None:
        async def function(ctx: Ctx) -> None:
            await ctx.use(dependency)

        assert complaint in message(await company.run(stage, function))

    theatre(play)


def test_a_function_in_a_thread_is_told_that_it_cannot_use_what_is_asynchronous(company: Company) -> None:
    a = company.noted("a")

    async def play(stage: Stage) -> None:
        def function(ctx: Ctx) -> None:
            ctx.use_sync(a)

        assert "is asynchronous" in message(await company.run(stage, function))

    perform_in_real_time(play)


def test_a_job_s_context_is_refused_to_what_all_jobs_share() -> None:
    with pytest.raises(InvalidSetting, match="may take nothing, or first a parameter annotated as WorkerCtx"):
        Dependencies().declare(of_one_job, "worker")
    with pytest.raises(InvalidSetting, match="scope='request'"):
        Dependencies().declare(of_one_job, "request")
