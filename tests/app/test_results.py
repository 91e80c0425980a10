"""Waiting for a job's end through its handle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import pytest

from leasemq import App, Secret, State
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.memory.listening import MemoryListener
from leasemq.client.ends import Ends
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import (
    BackendUnavailable,
    CorruptRecord,
    InvalidDelay,
    InvalidJobId,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotFound,
    Refused,
    ResultExpired,
    WaitTimeout,
    WouldDeadlock,
)
from leasemq.protocol.decide import Reason, Silent
from leasemq.protocol.insight import CancelAnswer, JobRecord
from leasemq.protocol.model import Ref, Settled
from leasemq.task import Task
from leasemq.testing.manual_clock import ManualClock
from tests.app.holder import Holder
from tests.app.waiting import until


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


@pytest.mark.promise("P-60", "A-1", "B57")
async def test_a_result_is_answered_whether_the_wait_began_before_or_after_the_end(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        early, late = await task.enqueue_many([(1,), (2,)])
        waiting = asyncio.ensure_future(early.result())
        await holder.returns_next(task, {"value": [1, 2.5, None]})
        assert await waiting == {"value": [1, 2.5, None]}
        await holder.returns_next(task, None)
        assert await late.result(timeout=5) is None
        assert await late.result(timeout=0) is None


@pytest.mark.promise("P-60", "B57", "E-32")
async def test_no_wake_up_is_lost_however_the_end_and_the_wait_interleave(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        for turns in range(60):
            job = await task.enqueue(turns)
            waiting = asyncio.ensure_future(job.result(timeout=10))
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            await holder.returns_next(task, turns)
            assert await waiting == turns


@pytest.mark.promise("P-60", "E-33", "B57")
async def test_each_end_is_told_apart(app: App, task: Task[[int], Any], holder: Holder) -> None:
    async with app:
        failed, stalled, cancelled = await task.enqueue_many([(1,), (2,), (3,)])
        (lease,) = await holder.claim()
        await holder.gives_up(lease, ValueError("no such account"), Reason.DEAD)
        with pytest.raises(JobFailed, match="after 1 attempt: ValueError: no such account") as failure:
            await failed.result()
        assert (failure.value.error_type, failure.value.error_message) == ("ValueError", "no such account")
        assert "ValueError: no such account" in failure.value.traceback
        await cancelled.cancel()
        with pytest.raises(JobCancelled, match=cancelled.id):
            await cancelled.result()
        with pytest.raises(WaitTimeout, match=r"has not ended$"):
            await stalled.result(timeout=0)
        with pytest.raises(WaitTimeout, match=r"has not ended within 0\.01 s; it goes on$"):
            await stalled.result(timeout=timedelta(milliseconds=10))
        with pytest.raises(JobNotFound, match="unknown"):
            await task.job("unknown").result()
        assert issubclass(WaitTimeout, TimeoutError)


@pytest.mark.promise("P-60", "B38")
async def test_a_job_that_stalled_too_often_is_a_failure_without_an_error(task_on_clock: Any) -> None:
    app, task, clock = task_on_clock
    holder = Holder(app)
    async with app:
        job = await task.options(max_stalls=0).enqueue(1)
        (lease,) = await holder.claim()
        clock.advance(3_600_000)
        await holder.ends(lease, Silent())
        with pytest.raises(JobFailed, match="stalled") as failure:
            await job.result()
        assert failure.value.error_type == "stalled"


@pytest.mark.promise("P-30", "P-60")
async def test_a_job_that_was_not_started_in_time_is_expired(task_on_clock: Any) -> None:
    app, task, clock = task_on_clock
    async with app:
        job = await task.options(ttl=5).enqueue(1)
        clock.advance(5_001)
        await Holder(app).claim()
        with pytest.raises(JobExpired):
            await job.result()
        assert await job.state() is State.EXPIRED


@pytest.mark.promise("P-60", "B57")
async def test_a_look_at_a_job_that_still_runs_does_not_end_the_wait_for_it(
    app: App, task: Task[[int], Any], holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app:
        backend = (await app._connections.here()).backend
        job = await task.enqueue(1)
        (lease,) = await holder.claim()
        looked: list[State] = []

        async def get(queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
            records = await type(backend).get(backend, queue, ids)
            looked.extend(record.state for record in records if record is not None)
            return records

        monkeypatch.setattr(backend, "get", get)
        waiting = asyncio.ensure_future(job.result(timeout=10))
        await until(lambda: State.ACTIVE in looked)
        assert await holder.returns(lease, task, "done") is Settled.APPLIED
        assert await waiting == "done"
        assert looked.count(State.COMPLETED) > 0


@pytest.mark.promise("P-60", "B57")
async def test_a_result_past_its_retention_is_expired_and_a_record_past_its_own_too(
    task_on_clock: Any,
) -> None:
    app, task, clock = task_on_clock
    holder = Holder(app)
    async with app:
        job = await task.options(keep_result=1, keep_record=10).enqueue(1)
        begun = asyncio.ensure_future(job.result())
        await holder.returns_next(task, "value")
        assert await begun == "value"
        backend = (await app._connections.here()).backend
        clock.advance(2_000)
        await backend.prune("default", 10)
        with pytest.raises(ResultExpired, match="no longer kept"):
            await job.result()
        assert await job.state() is State.COMPLETED
        clock.advance(10_000)
        await backend.prune("default", 10)
        with pytest.raises(ResultExpired):
            await job.result()
        with pytest.raises(JobNotFound):
            await job.record()


@pytest.mark.promise("P-60", "B57")
async def test_a_time_out_is_the_waiter_s_own_and_does_not_touch_the_job(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        job = await task.enqueue(1)
        with pytest.raises(WaitTimeout):
            await job.result(timeout=timedelta(milliseconds=20))
        assert await job.state() is State.WAITING
        await holder.returns_next(task, 5)
        assert await job.result() == 5
        with pytest.raises(InvalidDelay, match="timeout"):
            await job.result(timeout=-1)


@pytest.mark.promise("P-60", "P-61", "B57")
async def test_half_of_many_waiters_may_leave_and_no_subscription_is_left(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        jobs = await task.enqueue_many([(i,) for i in range(50)])
        waiting = [asyncio.ensure_future(job.result()) for job in jobs]
        ends = (await app._connections.here()).ends
        await until(lambda: ends.is_watching)
        for waiter in waiting[::2]:
            waiter.cancel()
        for lease in await holder.claim(limit=50):
            await holder.returns(lease, task, lease.ref.id)
        assert await asyncio.gather(*waiting[1::2]) == [job.id for job in jobs[1::2]]
        assert all(waiter.cancelled() for waiter in waiting[::2])
        await until(lambda: not ends.is_watching)


@pytest.mark.promise("P-61")
async def test_thousands_of_waiters_cost_one_listener_and_few_reads() -> None:
    class CountingBackend(MemoryBackend):
        listeners = 0
        reads = 0

        def listen(self, queues: Any) -> Any:
            self.listeners += 1
            return super().listen(queues)

        async def get(self, queue: str, ids: Any) -> Any:
            self.reads += 1
            return await super().get(queue, ids)

    backend = CountingBackend()
    app = App(backend)

    @app.task(name="t")
    async def t(n: int) -> Any: ...

    async with app:
        jobs = await t.enqueue_many([(i,) for i in range(5_000)])
        waiting = [asyncio.ensure_future(job.result()) for job in jobs]
        await until(lambda: backend.reads >= 10)
        holder = Holder(app)
        for lease in await holder.claim(limit=5_000):
            await holder.returns(lease, t, 1)
        assert await asyncio.gather(*waiting) == [1] * 5_000
    assert backend.listeners == 1
    assert backend.reads < 500


@pytest.mark.promise("P-60", "B57")
async def test_a_push_that_is_lost_or_a_listener_that_breaks_costs_at_most_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App(MemoryBackend())

    @app.task(name="t")
    async def t(n: int) -> Any: ...

    async def deaf(listener: MemoryListener, timeout_ms: int) -> Any:
        raise BackendUnavailable("the subscription broke")

    monkeypatch.setattr(MemoryListener, "wait", deaf)
    async with app:
        job = await t.enqueue(1)
        waiting = asyncio.ensure_future(job.result(timeout=5))
        ends = (await app._connections.here()).ends
        await until(lambda: ends.is_watching)
        await Holder(app).returns_next(t, 7)
        assert await waiting == 7


@pytest.mark.promise("P-99")
async def test_a_record_that_cannot_be_read_is_an_error_for_those_who_wait_for_it_and_nobody_else() -> None:
    class CorruptBackend(MemoryBackend):
        async def get(self, queue: str, ids: Any) -> Any:
            if "bad" in ids:
                raise CorruptRecord("job bad cannot be read")
            return await super().get(queue, ids)

    app = App(CorruptBackend())

    @app.task(name="t")
    async def t(n: int) -> Any: ...

    async with app:
        good, bad = await t.options(id="good").enqueue(1), await t.options(id="bad").enqueue(2)
        waiting = [asyncio.ensure_future(job.result(timeout=10)) for job in (good, bad)]
        holder = Holder(app)
        for lease in await holder.claim(limit=2):
            await holder.returns(lease, t, 3)
        assert await waiting[0] == 3
        with pytest.raises(CorruptRecord, match="bad"):
            await waiting[1]


async def test_closing_the_app_ends_whoever_still_waits(app: App, task: Task[[int], Any]) -> None:
    async with app:
        job = await task.enqueue(1)
        waiting = asyncio.ensure_future(job.result())
        ends: Ends = (await app._connections.here()).ends
        await until(lambda: ends.is_watching)
    with pytest.raises(BackendUnavailable, match="closed"):
        await waiting


@pytest.mark.promise("P-60")
async def test_who_comes_to_wait_after_the_close_is_refused_at_once(app: App, task: Task[[int], Any]) -> None:
    async with app:
        job = await task.enqueue(1)
        ends: Ends = (await app._connections.here()).ends
    async with asyncio.timeout(5):
        with pytest.raises(BackendUnavailable, match="closed"):
            await ends.ended(Ref(queue=job.queue, id=job.id, generation=1))
    assert not ends.is_watching


async def test_a_defect_of_a_backend_reaches_who_waits() -> None:
    class DefectiveBackend(MemoryBackend):
        async def get(self, queue: str, ids: Any) -> Any:
            raise RuntimeError("a defect")

    ends = Ends(DefectiveBackend())
    with pytest.raises(RuntimeError, match="a defect"):
        await ends.ended(Ref(queue="q", id="a", generation=1))
    await ends.close()


# ---- the handle


@pytest.mark.promise("P-44", "E-8")
async def test_a_handle_survives_as_plain_data(app: App, task: Task[[int], Any], holder: Holder) -> None:
    async with app:
        job = await task.options(queue="mail", id="x").enqueue(1)
        stored = json.dumps(job.to_plain())
        again = task.handle(json.loads(stored))
        assert again == job
        await holder.returns_next(task, 4, "mail")
        assert await again.result() == 4


@pytest.mark.parametrize(
    "plain", [{}, {"queue": "q"}, {"queue": "q", "id": 3}, {"queue": "q", "id": "a", "generation": 0}]
)
def test_what_is_no_handle_is_refused(plain: dict[str, object], app: App, task: Task[[int], Any]) -> None:
    with pytest.raises(Refused, match="no handle"):
        task.handle(plain)
    with pytest.raises(InvalidJobId):
        task.handle({"queue": "q", "id": ""})


@pytest.mark.promise("P-44", "E-8")
async def test_a_handle_of_an_old_generation_answers_for_its_own_life_only(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        old = await task.options(id="x").enqueue(1)
        await holder.returns_next(task, "first")
        assert await old.result() == "first"
        new = await task.options(id="x", reuse=[State.COMPLETED]).enqueue(2)
        assert await old.result(timeout=5) == "first"
        assert await old.result(timeout=0) == "first"
        with pytest.raises(JobNotFound, match="generation 2"):
            await old.state()
        assert await old.cancel() is CancelAnswer.FINISHED
        assert await new.state() is State.WAITING
        newest = task.job("x")
        assert await newest.state() is State.WAITING
        waiting = asyncio.ensure_future(newest.result(timeout=10))
        await holder.returns_next(task, "second")
        assert await waiting == "second"
        assert await old.result() == "first"


@pytest.mark.promise("P-44", "P-60")
@pytest.mark.parametrize("timeout", [0, 5])
async def test_a_life_whose_result_is_not_kept_does_not_answer_with_the_next_one_s(
    app: App, task: Task[[int], Any], holder: Holder, timeout: int
) -> None:
    async with app:
        old = await task.options(id="x", keep_result=0).enqueue(1)
        await holder.returns_next(task, "first")
        await task.options(id="x", reuse=[State.COMPLETED]).enqueue(2)
        await holder.returns_next(task, "second")
        with pytest.raises(ResultExpired, match="generation 2"):
            await old.result(timeout=timeout)


@pytest.mark.promise("P-50", "A-21")
async def test_cancelling_says_which_of_the_three_it_was(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        waiting, running, ended = await task.enqueue_many([(1,), (2,), (3,)])
        assert await waiting.cancel() is CancelAnswer.CANCELLED
        first, second = await holder.claim(limit=2)
        await holder.returns(second, task, 1)
        assert (first.ref.id, second.ref.id) == (running.id, ended.id)
        assert await running.cancel() is CancelAnswer.CANCELLING
        assert await ended.cancel() is CancelAnswer.FINISHED
        assert (await ended.state(), await ended.result()) == (State.COMPLETED, 1)
        with pytest.raises(JobNotFound):
            await task.job("unknown").cancel()
        assert (await app.queue().counts()).accepted == 3
        assert [one.ref.id for one in (await app.queue().find(states="cancelled")).jobs] == [waiting.id]


@pytest.mark.promise("P-60")
async def test_waiting_inside_a_running_job_is_refused_unless_it_is_asked_for(app: App) -> None:
    @app.task(name="inner")
    async def inner() -> int:
        return 1

    @app.task(name="outer")
    async def outer(allow: bool) -> int:
        job = await inner.enqueue()
        return await job.result(timeout=10, allow_wait=allow)

    async with app:
        worker = app.worker(concurrency=2)
        running = asyncio.ensure_future(worker.run())
        refused = await outer.enqueue(False)
        with pytest.raises(JobFailed, match="WouldDeadlock"):
            await refused.result(timeout=10)
        allowed = await outer.enqueue(True)
        assert await allowed.result(timeout=10) == 1
        worker.stop()
        assert await running == 0
    assert WouldDeadlock.__mro__


@pytest.mark.promise("E-47")
async def test_a_job_enqueued_by_a_running_one_names_its_creator(app: App) -> None:
    @app.task(name="inner")
    async def inner() -> int:
        return 1

    ways = inner.options(queue="elsewhere")

    @app.task(name="outer")
    async def outer() -> str:
        return (await ways.enqueue()).id

    @app.task(name="outer in a thread")
    def outer_in_a_thread() -> str:
        return ways.enqueue_sync().id

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        for parent in (await outer.enqueue(), await outer_in_a_thread.enqueue()):
            child = await inner.job(await parent.result(timeout=10), queue="elsewhere").record()
            assert child.creator == Ref(queue="default", id=parent.id, generation=1)
        worker.stop()
        await running
    await asyncio.to_thread(loop_thread().close)


@pytest.mark.promise("P-102")
async def test_a_result_of_an_unknown_task_is_plain_data_with_secrets_masked(
    app: App, url: str, holder: Holder
) -> None:
    @app.task(name="token")
    async def token() -> Annotated[str, Secret]:
        return "hunter2"

    @app.task(name="pair")
    async def pair() -> tuple[int, str]:
        return 1, "a"

    async with app:
        secret, plain = await token.enqueue(), await pair.enqueue()
        for lease, value in zip(await holder.claim(limit=2), ("hunter2", (1, "a")), strict=True):
            await holder.returns(lease, app.tasks[lease.task], value)
        assert await secret.result() == "hunter2"
        assert await app.job("default", plain.id).result() == (1, "a")
        stranger = App(url) if url != "memory://" else App((await app._connections.here()).backend)
        async with stranger:
            assert await stranger.job("default", secret.id).result() == "***"
            assert await stranger.job("default", plain.id).result() == [1, "a"]


@pytest.fixture
def task_on_clock() -> tuple[App, Task[[int], Any], ManualClock]:
    """A task of an app whose backend has a clock that the test moves."""
    clock = ManualClock()
    app = App(MemoryBackend(clock=clock))

    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return app, t, clock
