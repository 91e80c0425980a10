"""The harness over a program's own app: what is enqueued runs through the store and a real worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Ctx, JobFailed, Retry, Snooze, State
from leasemq.errors import BackendUnavailable, InvalidSetting, Refused, SyncInsideLoop, VirtualTimeStuck
from leasemq.protocol.model import Outcome
from leasemq.testing import Crash, Harness

A_MINUTE_S = 60.0

pytestmark = pytest.mark.promise("A-49")


far_app = App("memory://")


@far_app.task(name="far", executor="process")
async def far(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@dataclass(slots=True)
class Program:
    """An app and what its functions did. Owned by the test."""

    app: App
    done: list[object] = field(default_factory=list)


@pytest.fixture
def program() -> Program:
    program = Program(App("memory://"))
    app, done = program.app, program.done

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        done.append((a, b))
        return a + b

    @app.task(name="plain", retry=Retry(1, delays=[60], jitter="none"))
    def plain(text: str) -> str:
        done.append(text)
        if text == "bad":
            raise ValueError("a bad text")
        return text.upper()

    @app.task(name="slow", timeout=90)
    async def slow(seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append(seconds)

    return program


@pytest.fixture(params=["memory", "sqlite"])
def backend_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(backend_name: str, tmp_path: Path) -> Path | None:
    if backend_name == "sqlite":
        import_module("leasemq.backends.sqlite")  # reads its statements; a test's loop is watched for that
    return tmp_path / "jobs.db" if backend_name == "sqlite" else None


async def some_real_time() -> None:
    """Let the loop under test go wrong if it can: it has nothing to do meanwhile, and must not leap."""
    for _ in range(100):
        await asyncio.to_thread(threading.Event().wait, 0.001)


async def test_what_is_enqueued_runs_when_the_test_says_so(program: Program, file: Path | None) -> None:
    add = program.app.tasks["add"]
    async with Harness(program.app, sqlite=file) as jobs:
        job = await add.enqueue(1, 2)
        assert await job.state() is State.WAITING
        ran = await jobs.run_until_idle()
        assert (ran.completed, ran.attempts, ran.jobs[0].arguments) == (1, 1, {"a": 1, "b": 2})
        assert await job.result(timeout=0) == 3


async def test_inline_a_job_is_over_when_it_is_enqueued(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file, inline=True):
        assert await (await program.app.tasks["add"].enqueue(1, 2)).result() == 3
        assert await (await program.app.tasks["plain"].enqueue("text")).result() == "TEXT"


def test_inline_works_for_a_caller_without_a_loop(program: Program, file: Path | None) -> None:
    with Harness(program.app, sqlite=file, inline=True) as jobs:
        assert program.app.tasks["plain"].enqueue_sync("text").result_sync() == "TEXT"
        assert [one.arguments for one in jobs.enqueued_sync()] == [{"text": "text"}]


async def test_inline_the_function_gets_what_went_through_the_store(program: Program) -> None:
    got: list[object] = []

    @program.app.task(name="keep")
    async def keep(items: list[int]) -> list[int]:
        got.append(items)
        return items

    given = [1, 2]
    async with Harness(program.app, inline=True):
        answer = await (await keep.enqueue(given)).result()
    assert got == [given]
    assert got[0] is not given
    assert answer is not got[0]


async def test_inline_two_callers_at_once_are_both_served(program: Program) -> None:
    add = program.app.tasks["add"]
    async with Harness(program.app, inline=True):
        one, two = await asyncio.gather(add.enqueue(1, 1), add.enqueue(2, 2))
        assert (await one.result(), await two.result()) == (2, 4)


async def test_inline_a_wait_that_would_have_no_end_is_refused(program: Program) -> None:
    async with Harness(program.app, inline=True) as jobs:
        job = await program.app.tasks["add"].options(delay=60).enqueue(1, 1)
        with pytest.raises(Refused, match="advance"):
            await job.result()
        await jobs.advance(minutes=1)
        assert await job.result() == 2


async def test_a_job_enqueued_by_a_job_runs_as_well(program: Program, file: Path | None) -> None:
    add, plain = program.app.tasks["add"], program.app.tasks["plain"]

    @program.app.task(name="parent", queue="parents")
    async def parent() -> None:
        await add.enqueue(3, 4)

    @program.app.task(name="grandparent")
    def grandparent() -> None:
        parent.enqueue_sync()
        plain.options(queue="elsewhere").enqueue_sync("child")

    async with Harness(program.app, sqlite=file, inline=True) as jobs:
        await grandparent.enqueue()
        assert sorted(one.task for one in await jobs.enqueued()) == ["add", "grandparent", "parent", "plain"]
        assert {one.state for one in await jobs.enqueued()} == {State.COMPLETED}
    assert sorted(map(str, program.done)) == ["(3, 4)", "child"]


async def test_the_error_itself_is_raised_on_demand(program: Program) -> None:
    async with Harness(program.app) as jobs:
        await program.app.tasks["plain"].enqueue("bad")
        with pytest.raises(ValueError, match="a bad text") as caught:
            await jobs.run_until_idle(raise_errors=True)
        assert caught.traceback[-1].name == "plain"
        assert (await jobs.advance(hours=1)).failed == 1
        (dead,) = await jobs.dead()
        assert dead.error is not None
        assert dead.error.message == "a bad text"
        assert "in plain" in dead.error.traceback


async def test_an_error_that_left_no_exception_is_raised_as_it_is_stored(program: Program) -> None:
    async with Harness(program.app) as jobs:
        await program.app.tasks["slow"].enqueue(100.0)
        with pytest.raises(JobFailed, match=r"HandlerTimeout.*longer than its timeout of 90 s"):
            await jobs.run_until_idle(raise_errors=True)


async def test_jobs_that_enqueue_jobs_for_ever_are_told_of(program: Program) -> None:
    @program.app.task(name="endless")
    async def endless() -> None:
        program.done.append("again")
        await endless.enqueue()

    async with Harness(program.app) as jobs:
        await endless.enqueue()
        with pytest.raises(VirtualTimeStuck, match=r"more than max_jobs=20 attempts .* of endless"):
            await jobs.run_until_idle(max_jobs=20)
        assert 20 <= len(program.done) <= 40


async def test_a_function_that_waits_for_ever_is_told_of(program: Program) -> None:
    @program.app.task(name="patient")
    async def patient() -> None:
        await asyncio.Event().wait()

    async with Harness(program.app) as jobs:
        job = await patient.enqueue()
        with pytest.raises(VirtualTimeStuck, match=f"60 minutes .* still run: .*{job.id}.* of patient"):
            await jobs.run_until_idle()


async def test_delayed_jobs_run_at_their_times(program: Program, file: Path | None) -> None:
    times: list[float] = []

    async with Harness(program.app, sqlite=file) as jobs:
        began = jobs.now

        @program.app.task(name="note")
        async def note() -> None:
            times.append(round((jobs.now - began).total_seconds()))

        for delay in (7_200, 60, 3_600):
            await note.options(delay=delay).enqueue()
        assert (await jobs.run_until_idle()).attempts == 0
        assert (await jobs.advance(hours=1)).completed == 2
        assert times == [60, 3_600]
        assert (jobs.now - began) == timedelta(hours=1)
        assert (await jobs.advance(timedelta(hours=1))).completed == 1
        assert times == [60, 3_600, 7_200]


async def test_a_job_that_becomes_due_is_claimed_once(program: Program, file: Path | None) -> None:
    slow = program.app.tasks["slow"]
    async with Harness(program.app, sqlite=file) as jobs:
        await slow.enqueue(50.0)
        await jobs.run_until_idle()
        job = await slow.options(delay=3_600).enqueue(50.0)
        assert (await jobs.advance(hours=2)).completed == 1
        assert (await job.record()).attempts == 1


async def test_a_long_time_passes_at_once(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        job = await program.app.tasks["add"].options(delay=timedelta(days=300)).enqueue(1, 2)
        assert (await jobs.advance(days=299)).attempts == 0
        assert (await jobs.advance(days=1)).completed == 1
        assert await job.result() == 3


async def test_retries_run_when_their_pause_is_over(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        job = await program.app.tasks["plain"].enqueue("bad")
        ran = await jobs.run_until_idle()
        assert ran.outcomes == {Outcome.RETRIED: 1}
        assert (await jobs.run_until_idle()).attempts == 0
        ran = await jobs.advance(hours=1)
        assert ran.outcomes == {Outcome.FAILED: 1}
        with pytest.raises(JobFailed, match="a bad text"):
            await job.result()


async def test_a_snoozed_job_comes_back(program: Program) -> None:
    @program.app.task(name="later")
    async def later(ctx: Ctx) -> int:
        if ctx.attempt == 1:
            raise Snooze(600)
        return ctx.attempt

    async with Harness(program.app) as jobs:
        job = await later.enqueue()
        assert (await jobs.run_until_idle(raise_errors=True)).outcomes == {Outcome.SNOOZED: 1}
        assert (await jobs.advance(minutes=9)).attempts == 0
        assert (await jobs.advance(minutes=1)).completed == 1
        assert await job.result() == 2


async def test_a_time_out_strikes_when_its_time_has_passed(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        job = await program.app.tasks["slow"].enqueue(1_000.0)
        assert (await jobs.advance(seconds=89)).attempts == 0
        assert await job.state() is State.ACTIVE
        assert (await jobs.advance(seconds=2)).attempts == 1
        (seen,) = await jobs.enqueued()
        assert seen.error is not None
        assert seen.error.type.endswith("HandlerTimeout")


async def test_a_sleeping_function_takes_no_time_and_keeps_its_lease(program: Program) -> None:
    async with Harness(program.app, lease=10) as jobs:
        began = jobs.now
        await program.app.tasks["slow"].enqueue(A_MINUTE_S)
        ran = await jobs.run_until_idle()
        assert (ran.completed, ran.attempts) == (1, 1)
        assert (jobs.now - began).total_seconds() == pytest.approx(60, abs=0.01)


@pytest.mark.promise("P-02", "P-20")
@pytest.mark.parametrize("point", [Crash.BEFORE_FUNCTION, Crash.AFTER_FUNCTION])
async def test_a_killed_worker_s_job_runs_again_when_its_lease_has_ended(
    program: Program, file: Path | None, point: Crash
) -> None:
    add = program.app.tasks["add"]
    async with Harness(program.app, sqlite=file) as jobs:
        job = await add.enqueue(1, 2)
        jobs.crash_worker(point, task=add)
        ran = await jobs.run_until_idle()
        assert ran.crashes == 1
        other = await program.app.tasks["plain"].enqueue("text")
        assert (await jobs.run_until_idle()).completed == 1
        assert (await job.state(), await other.state()) == (State.ACTIVE, State.COMPLETED)
        assert (await jobs.advance(seconds=20)).attempts == 0
        assert (await jobs.advance(minutes=2)).completed == 1
        assert await job.result() == 3
        assert program.done.count((1, 2)) == (1 if point is Crash.BEFORE_FUNCTION else 2)
        assert (await job.record()).stalls == 1


async def test_a_crash_hits_the_attempt_that_it_was_planned_for_and_no_other(program: Program) -> None:
    async with Harness(program.app) as jobs:
        jobs.crash_worker(task="plain")
        await program.app.tasks["add"].enqueue(1, 2)
        assert (await jobs.run_until_idle()).crashes == 0
        await program.app.tasks["plain"].enqueue("text")
        assert (await jobs.run_until_idle()).crashes == 1
        assert (await jobs.advance(minutes=2)).completed == 1


async def test_a_worker_is_killed_while_a_function_runs(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        job = await program.app.tasks["slow"].enqueue(60.0)
        await jobs.advance(seconds=30)
        await jobs.kill_worker()
        assert (await jobs.run_until_idle()).attempts == 0
        assert await job.state() is State.ACTIVE
        assert (await jobs.advance(minutes=3)).completed == 1
        assert program.done == [60.0]


@pytest.mark.promise("P-03", "P-40")
async def test_a_lost_reply_to_an_enqueue_leaves_one_job(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        jobs.lose_reply("enqueue")
        job = await program.app.tasks["add"].enqueue(1, 2)
        assert job.created
        assert (await jobs.run_until_idle()).completed == 1
        assert program.done == [(1, 2)]


@pytest.mark.promise("P-03")
async def test_a_lost_reply_to_a_completion_runs_nothing_again(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        jobs.lose_reply("complete", times=2)
        job = await program.app.tasks["add"].enqueue(1, 2)
        assert (await jobs.run_until_idle()).completed == 1
        assert (await jobs.advance(minutes=5)).attempts == 0
        assert program.done == [(1, 2)]
        assert await job.result() == 3


async def test_a_lost_reply_to_a_claim_costs_no_job(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        jobs.lose_reply("claim")
        job = await program.app.tasks["add"].enqueue(1, 2)
        await jobs.run_until_idle()
        assert await job.result(timeout=0) == 3
        assert (await job.record()).stalls == 0


async def test_a_paused_queue_rests(program: Program) -> None:
    async with Harness(program.app) as jobs:
        await program.app.tasks["add"].enqueue(1, 2)
        await program.app.queue("default").pause()
        assert (await jobs.run_until_idle()).attempts == 0
        assert (await jobs.advance(hours=1)).attempts == 0
        await program.app.queue("default").resume()
        assert (await jobs.run_until_idle()).completed == 1


async def test_time_stands_still_while_a_thread_works(program: Program) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    @program.app.task(name="in_thread", timeout=20)
    def in_thread() -> bool:
        has_begun.set()
        return may_end.wait(10)

    async def let_it_end() -> None:
        await asyncio.to_thread(has_begun.wait, 10)
        await some_real_time()
        may_end.set()

    async with Harness(program.app) as jobs:
        began = jobs.now
        job = await in_thread.enqueue()
        await asyncio.gather(jobs.run_until_idle(), let_it_end())
        assert await job.result() is True
        assert jobs.now == began


async def test_a_function_may_use_sockets(program: Program) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    @program.app.task(name="ask", timeout=5)
    async def ask(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer.decode()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server, Harness(program.app) as jobs:
        job = await ask.enqueue(server.sockets[0].getsockname()[1])
        await jobs.run_until_idle(raise_errors=True)
        assert await job.result() == "HELLO\n"


async def test_a_late_answer_is_waited_for(program: Program) -> None:
    has_asked, may_answer = threading.Event(), threading.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_asked.set()
        await asyncio.to_thread(may_answer.wait, 10)
        writer.write(b"late\n")
        await writer.drain()
        writer.close()

    @program.app.task(name="ask", timeout=600)
    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    async def let_it_answer() -> None:
        await asyncio.to_thread(has_asked.wait, 10)
        await some_real_time()
        may_answer.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, Harness(program.app) as jobs:
        began = jobs.now
        job = await ask.enqueue(server.sockets[0].getsockname()[1])
        await asyncio.gather(jobs.run_until_idle(), let_it_answer())
        assert await job.result() == b"late\n"
        assert jobs.now - began < timedelta(minutes=10)


async def test_a_crash_takes_no_time_of_its_own(program: Program, file: Path | None) -> None:
    async with Harness(program.app, sqlite=file) as jobs:
        began = jobs.now
        await program.app.tasks["add"].enqueue(1, 2)
        jobs.crash_worker()
        await jobs.run_until_idle()
        assert jobs.now == began


async def test_the_app_has_its_own_jobs_back_afterwards(program: Program) -> None:
    add = program.app.tasks["add"]
    async with program.app:
        own = await add.enqueue(1, 2)
        async with Harness(program.app) as jobs:
            await add.enqueue(3, 4)
            assert [one.arguments["a"] for one in await jobs.enqueued()] == [3]
        assert await own.state() is State.WAITING
        assert (await program.app.queue("default").counts()).accepted == 1


async def test_jobs_are_seen_with_their_arguments_by_name(program: Program) -> None:
    @program.app.task(name="mail")
    async def mail(ctx: Ctx, to: str, copies: int = 1) -> None: ...

    async with Harness(program.app) as jobs:
        await mail.enqueue("a@example.org")
        await mail.enqueue("b@example.org", copies=2)
        await program.app.tasks["add"].enqueue(1, 2)
        seen = await jobs.enqueued(mail)
        assert [one.arguments for one in seen] == [
            {"to": "a@example.org"},
            {"to": "b@example.org", "copies": 2},
        ]
        assert await jobs.enqueued("add") != []
        assert await jobs.dead() == []


async def test_wrong_use_is_told(program: Program) -> None:
    jobs = Harness(program.app)
    with pytest.raises(Refused, match="inside `async with"):
        jobs.crash_worker()
    async with jobs:
        with pytest.raises(InvalidSetting, match="before_function, after_function"):
            jobs.crash_worker("sometime")
        with pytest.raises(InvalidSetting, match="enqueue, claim, complete"):
            jobs.lose_reply("post")  # type: ignore[arg-type]  # the wrong use under test
        with pytest.raises(InvalidSetting, match="timedelta"):
            await jobs.advance(fortnights=1)
        with pytest.raises(Refused, match="in use"):
            async with jobs:
                pass


async def test_a_harness_outside_of_its_with_is_refused(program: Program) -> None:
    jobs = Harness(program.app)
    for _ in ("before", "after"):
        with pytest.raises(Refused, match="not open"):
            await jobs.run_until_idle()
        with pytest.raises(Refused, match="not open"):
            await jobs.enqueued()
        async with jobs:
            assert (await jobs.run_until_idle()).attempts == 0


async def test_a_harness_that_could_not_begin_leaves_the_app_as_it_was(
    program: Program, tmp_path: Path
) -> None:
    import_module("leasemq.backends.sqlite")
    before = set(threading.enumerate())
    with pytest.raises(BackendUnavailable):
        async with Harness(program.app, sqlite=tmp_path / "no folder" / "jobs.db"):
            pass
    await program.app.tasks["add"].enqueue(1, 2)
    assert (await program.app.queue().counts()).waiting == 1
    assert set(threading.enumerate()) == before


async def test_a_second_harness_on_one_app_is_refused(program: Program) -> None:
    async with Harness(program.app) as jobs:
        with pytest.raises(Refused, match="under test already"):
            async with Harness(program.app):
                pass
        await program.app.tasks["add"].enqueue(1, 2)
        assert (await jobs.run_until_idle()).completed == 1


@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_a_job_that_drives_the_harness_is_told_that_a_test_does(program: Program, where: str) -> None:
    async def in_loop() -> None:
        await jobs.run_until_idle()

    def in_thread() -> None:
        jobs.run_until_idle_sync()

    task: Any = program.app.task(name="t")(in_loop if where == "loop" else in_thread)
    async with Harness(program.app) as jobs:
        await task.enqueue()
        with pytest.raises(Refused, match="driven by a test"):
            await jobs.run_until_idle(raise_errors=True)


async def test_the_sync_face_is_refused_inside_a_running_loop(program: Program) -> None:
    with pytest.raises(SyncInsideLoop), Harness(program.app):
        pass
    async with Harness(program.app) as jobs:
        for call in (jobs.run_until_idle_sync, jobs.advance_sync, jobs.dead_sync, jobs.kill_worker_sync):
            with pytest.raises(SyncInsideLoop):
                call()


async def test_a_test_that_fails_while_jobs_run_leaves_nothing_running(
    program: Program, file: Path | None
) -> None:
    @program.app.task(name="stubborn")
    async def stubborn() -> None:
        program.done.append("runs")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        async with Harness(program.app, sqlite=file) as jobs:
            await stubborn.enqueue()
            await program.app.tasks["slow"].enqueue(80)
            await jobs.advance(5)
            raise ZeroDivisionError
    assert program.done == ["runs"]
    assert asyncio.all_tasks() == before
    await program.app.tasks["add"].enqueue(1, 2)
    assert (await program.app.queue().counts()).waiting == 1


async def test_a_killed_worker_runs_no_stop_hook_and_a_stopped_one_does(program: Program) -> None:
    @program.app.on_stop
    def say_goodbye() -> None:
        program.done.append("stopped")

    @program.app.dependency(scope="worker")
    async def pool() -> AsyncIterator[int]:
        yield 1
        program.done.append("closed")

    @program.app.task(name="t")
    async def t(ctx: Ctx) -> int:
        return await ctx.use(pool)

    async with Harness(program.app) as jobs:
        await t.enqueue()
        jobs.crash_worker()
        assert (await jobs.run_until_idle()).crashes == 1
        assert program.done == ["closed"]
        await jobs.advance(minutes=2)
    assert program.done == ["closed", "closed", "stopped"]


async def test_a_thread_that_never_ends_is_not_waited_for_for_ever(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasemq.testing.patient_loop.THREAD_HEARING_S", 0.02)
    monkeypatch.setattr("leasemq.testing.patient_loop.LONGEST_HEARING_S", 0.1)
    is_over = threading.Event()

    @program.app.task(name="stuck")
    def stuck() -> None:
        is_over.wait(60)

    async with Harness(program.app) as jobs:
        await stuck.enqueue()
        with pytest.raises(VirtualTimeStuck, match="stuck"):
            await asyncio.wait_for(jobs.run_until_idle(), 30)
        is_over.set()


async def test_time_passes_beside_what_jobs_share_and_stands_still_while_it_is_made(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "leasemq.testing.patient_loop.HEARING_S", 60.0
    )  # if it is waited for, this is noticed

    @program.app.dependency(scope="worker")
    def engine() -> Iterator[int]:
        threading.Event().wait(0.1)  # real time, in a thread
        yield 1
        program.done.append("closed")

    @program.app.task(name="t", timeout=10)
    async def t(ctx: Ctx, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return await ctx.use(engine)

    async with Harness(program.app) as jobs:
        began = jobs.now
        await t.enqueue(3)
        assert (await asyncio.wait_for(jobs.run_until_idle(), 30)).completed == 1
        assert jobs.now - began < timedelta(seconds=10)
        await t.options(delay=60).enqueue(3)
        assert (await asyncio.wait_for(jobs.advance(hours=1), 30)).completed == 1
    assert program.done == ["closed"]


async def test_an_asynchronous_function_for_a_process_takes_no_real_time() -> None:
    async with Harness(far_app) as jobs:
        job = await far.enqueue(100)
        assert (await asyncio.wait_for(jobs.run_until_idle(), 20)).completed == 1
        assert await job.result() == 100


async def test_options_that_no_worker_takes_are_refused_at_the_beginning(program: Program) -> None:
    with pytest.raises(InvalidSetting, match="is a text"):
        async with Harness(program.app, queues="mail"):
            pass
    with pytest.raises(TypeError, match="concurency"):
        async with Harness(program.app, concurency=2):  # type: ignore[call-arg]  # the wrong use under test
            pass


async def test_a_harness_leaves_no_thread_behind(program: Program) -> None:
    await asyncio.to_thread(lambda: None)  # the loop's own threads stay
    before = set(threading.enumerate())
    async with Harness(program.app, inline=True):
        await program.app.tasks["plain"].enqueue("text")
    left = {one.name for one in set(threading.enumerate()) - before if not one.name.startswith("asyncio_")}
    assert {name for name in left if not name.startswith("leasemq-job")} == set()
