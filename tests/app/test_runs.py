"""Order, retries, errors and names, as a user meets them: run by a real worker, on each backend."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import App, Ctx, JobFailed, Retry, State
from leasemq.errors import InvalidQueueName, InvalidSetting, RetryAfter
from leasemq.protocol.model import Outcome
from leasemq.protocol.times import MAX_DURATION_MS
from leasemq.testing import Harness

pytestmark = pytest.mark.local


@pytest_asyncio.fixture
async def jobs(app: App, backend_name: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness around the app with one slot, on the backend of the test."""
    file = None if backend_name == "memory" else tmp_path / "h.db"
    async with Harness(app, sqlite=file, concurrency=1) as jobs:
        yield jobs


@pytest.mark.promise("P-32", "A-7", "B55")
async def test_three_priorities_of_a_hundred_jobs_each_run_in_exact_order(app: App, jobs: Harness) -> None:
    ran: list[tuple[int, int]] = []

    @app.task(name="t")
    async def t(priority: int, number: int) -> None:
        ran.append((priority, number))

    for number in range(100):
        calls = [t.options(priority=priority).call(priority, number) for priority in (0, 100, -100)]
        await t.enqueue_many(calls)
    await jobs.run_until_idle()

    assert ran == [(priority, number) for priority in (100, 0, -100) for number in range(100)]


@pytest.mark.promise("P-32", "B55")
async def test_a_priority_beyond_the_highest_is_refused_alone_and_among_many(app: App, jobs: Harness) -> None:
    ran: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        ran.append(number)

    for beyond in (101, -101):
        with pytest.raises(ValueError, match="priority"):
            await t.options(priority=beyond).enqueue(9)
        with pytest.raises(InvalidSetting, match="priority"):
            await t.enqueue_many([t.call(8), t.options(priority=beyond).call(9)])
    assert await app.queues() == ()

    await t.options(priority=100).enqueue_many([(number,) for number in range(5)])
    await jobs.run_until_idle()
    assert ran == [0, 1, 2, 3, 4]


@pytest.mark.promise("P-20", "P-21", "P-64", "A-9", "E-12")
async def test_a_job_that_always_fails_runs_once_more_than_its_retries_and_keeps_each_error(
    app: App, jobs: Harness
) -> None:
    @app.task(name="t", retry=Retry(3, backoff="constant", base=0, jitter="none"))
    async def t(ctx: Ctx) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    job = await t.enqueue()
    assert (await jobs.run_until_idle()).outcomes == {"retried": 3, "failed": 1}

    (dead,) = await jobs.dead()
    record = dead.record
    assert (record.ref.id, record.attempts, record.failures, record.stalls) == (job.id, 4, 4, 0)
    assert [one.outcome for one in record.history] == [Outcome.RETRIED] * 3 + [Outcome.FAILED]
    for ended, begun in zip(record.history, record.history[1:], strict=False):
        assert ended.ended_ms is not None
        assert begun.claimed_ms - ended.ended_ms < 100
    errors = await job.errors()
    assert [(one.attempt, one.error_message) for one in errors] == [(n, f"attempt {n}") for n in range(1, 5)]
    assert dead.error is not None
    assert (dead.error.type, dead.error.message) == ("ValueError", "attempt 4")
    assert 'raise ValueError(f"attempt {ctx.attempt}")' in dead.error.traceback


@pytest.mark.promise("P-20", "B54")
async def test_a_delay_past_all_bounds_is_the_longest_there_is_and_the_job_stays(
    app: App, jobs: Harness
) -> None:
    @app.task(name="t", retry=Retry(None, base=MAX_DURATION_MS / 1_000, factor=5, cap=None, jitter="none"))
    async def t() -> None:
        raise ValueError("again")

    job = await t.enqueue()
    await jobs.run_until_idle()
    await app.queue().promote(job.id)
    await jobs.run_until_idle()

    record = await job.record()
    assert (record.state, record.failures) == (State.SCHEDULED, 2)
    ended_ms = record.history[-1].ended_ms
    assert ended_ms is not None
    assert record.due_ms == ended_ms + MAX_DURATION_MS


class Two(Exception):
    """Cannot be made anew from its arguments alone."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _holds_a_lock() -> Exception:
    error = ValueError("it holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]  # what pickle would stumble over
    return error


def _of_a_function() -> Exception:
    class Inner(Exception):
        """Known to nobody else."""

    return Inner("from inside")


def _a_reason_to_retry() -> Exception:
    verdict = RetryAfter(0, "not now")
    verdict.__cause__ = Two(3, 4)
    return verdict


UNPICKLABLE: dict[str, tuple[Callable[[], Exception], str, str]] = {
    "two arguments": (lambda: Two(1, 2), f"{__name__}.Two", "1 and 2"),
    "a lock": (_holds_a_lock, "ValueError", "it holds a lock"),
    "of a function": (_of_a_function, f"{__name__}._of_a_function.<locals>.Inner", "from inside"),
    "a reason to retry": (_a_reason_to_retry, "leasemq.errors.RetryAfter", "not now"),
}


@pytest.mark.promise("P-25", "P-60", "B38")
async def test_an_exception_that_cannot_be_pickled_reaches_the_waiter_by_name_and_message(
    app: App, jobs: Harness
) -> None:
    @app.task(name="bad", retry=Retry(2, base=0))
    async def bad(which: str) -> None:
        raise UNPICKLABLE[which][0]()

    @app.task(name="good")
    async def good() -> str:
        return "done"

    failing = {which: await bad.enqueue(which) for which in UNPICKLABLE}
    fine = await good.enqueue()
    await jobs.run_until_idle()

    for which, job in failing.items():
        _, type_name, message = UNPICKLABLE[which]
        with pytest.raises(JobFailed, match=message) as failed:
            await job.result(timeout=0)
        assert (failed.value.error_type, failed.value.error_message) == (type_name, message)
        record = await job.record()
        assert (record.state, record.attempts, record.failures) == (State.FAILED, 3, 3)
    assert len(await jobs.dead()) == 4
    assert await fine.result(timeout=0) == "done"


ODD_QUEUES = (
    "a", "a:delayed", "a:", "{a}", "a{b}", "mail out", "日本", "q/../x", "q%2Fx", "*", "amq.gen-x",
    "x" * 255, "x" * 256,
)  # fmt: skip


@pytest.mark.promise("P-42", "P-53", "B47", "A-50")
async def test_each_queue_s_jobs_run_once_by_its_own_worker_whatever_it_is_called(app: App) -> None:
    ran: list[tuple[str, str]] = []

    @app.task(name="t")
    async def t(ctx: Ctx, queue: str) -> None:
        ran.append((queue, ctx.queue))

    async with app:
        handles: list[Any] = []
        for name in ODD_QUEUES:
            handles += await t.options(queue=name).enqueue_many([(name,)] * 3)
        workers = [app.worker(queues=[name], name=f"w{n}") for n, name in enumerate(ODD_QUEUES)]
        running = [asyncio.ensure_future(worker.run()) for worker in workers]
        await asyncio.gather(*(job.result(timeout=30) for job in handles))
        for worker in workers:
            worker.stop()
        assert await asyncio.gather(*running) == [0] * len(ODD_QUEUES)

        assert sorted(ran) == sorted([(name, name) for name in ODD_QUEUES] * 3)
        by = [(await job.record()).history[0].worker for job in handles]
        assert by == [f"w{n}" for n in range(len(ODD_QUEUES)) for _ in range(3)]
        for name in ODD_QUEUES:
            counts = await app.queue(name).counts()
            assert (counts.accepted, counts.completed) == (3, 3)


@pytest.mark.promise("P-42", "B47")
@pytest.mark.parametrize("name", ["", "x" * 257, "é" * 129, "a\x00", "a\n"])
async def test_a_refused_queue_name_is_refused_at_enqueue_and_at_a_worker_s_start(
    app: App, name: str
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    async with app:
        with pytest.raises(InvalidQueueName):
            await t.options(queue=name).enqueue()
        with pytest.raises(InvalidQueueName):
            app.worker(queues=[name])
        with pytest.raises(InvalidQueueName):
            app.task(name="other", queue=name)(t.function)
        assert await app.queues() == ()
