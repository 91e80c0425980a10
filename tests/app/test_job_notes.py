"""What a running job told of itself, as its handle reads it: progress, log lines, history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Ctx, State, Task
from leasemq.errors import InvalidSetting, JobNotFound, PayloadRejected
from leasemq.notes import HistoryPage, Progress, encode_log_line, encode_progress
from leasemq.policy import CallOptions
from leasemq.protocol.model import Lease, Note, NoteKind
from leasemq.testing import Harness
from tests.app.holder import Holder


async def tell(app: App, lease: Lease, *notes: tuple[NoteKind, bytes]) -> None:
    """Write notes as the job's worker would."""
    backend = (await app._connections.here()).backend
    made = [Note(job_id=lease.ref.id, fence=lease.fence, kind=kind, value=value) for kind, value in notes]
    await backend.note(lease.ref.queue, made)


def progress(current: float, message: str | None = None) -> tuple[NoteKind, bytes]:
    """Progress of ten, as `ctx.progress` stores it."""
    return NoteKind.PROGRESS, encode_progress(current, 10, message, None, 1)


def line(text: str) -> tuple[NoteKind, bytes]:
    """A log line, as `ctx.log` stores it."""
    return NoteKind.LOG, encode_log_line(text)


@pytest.mark.promise("P-63", "A-31")
async def test_progress_and_log_are_read_while_the_job_runs(app: App, holder: Holder) -> None:
    async with app:
        sums: Task[[], None] = app.task(name="sums")(lambda: None)
        job = await sums.enqueue()
        assert (await job.progress(), await job.log()) == (None, ())
        (lease,) = await holder.claim()
        await tell(app, lease, progress(3), line("one"), progress(4, "going on"), line("two"))

        assert await job.state() is State.ACTIVE
        assert await job.progress() == Progress(current=4, total=10, message="going on", attempt=1)
        assert await job.log() == ("one", "two")


@pytest.mark.promise("E-37", "E-38", "P-63")
async def test_a_history_is_kept_where_the_task_or_the_enqueue_asks_for_it(app: App, holder: Holder) -> None:
    async with app:
        plain: Task[[], None] = app.task(name="plain")(lambda: None)
        kept: Task[[], None] = app.task(name="kept", history=50)(lambda: None)
        jobs = [
            await plain.enqueue(),
            await plain.options(history=2).enqueue(),
            await kept.enqueue(),
            await kept.options(history=0).enqueue(),
        ]
        for lease in await holder.claim(limit=4):
            await tell(app, lease, progress(1), line("one"))

        kinds = [[entry.kind for entry in (await job.history()).entries] for job in jobs]
        assert kinds == [[], ["progress", "log"], ["enqueued", "claimed", "progress", "log"], []]


@pytest.mark.promise("E-38", "P-63")
async def test_a_history_is_paged_and_told_in_full(app: App, holder: Holder) -> None:
    async with app:
        sums: Task[[], None] = app.task(name="sums", history=200)(lambda: None)
        job = await sums.enqueue()
        (lease,) = await holder.claim()
        await tell(app, lease, *(progress(number) for number in range(110)))
        await tell(app, lease, line("done"))
        await holder.returns(lease, sums, None)

        entries, page = [], await job.history(limit=2)
        while page.entries:
            entries += page.entries
            page = await job.history(page.cursor, limit=2)

        assert [entry.number for entry in entries] == list(range(1, 115))
        assert [entry.progress.current for entry in entries if entry.progress] == list(range(110))
        assert [entry.message for entry in entries if entry.message] == ["done"]
        assert (entries[0].kind, entries[0].state, entries[0].attempt) == ("enqueued", State.WAITING, 0)
        assert (entries[-1].kind, entries[-1].state, entries[-1].attempt) == ("completed", State.COMPLETED, 1)
        assert entries[0].at.tzinfo is not None
        assert not page.truncated
        other = await sums.enqueue()
        with pytest.raises(InvalidSetting, match="cursor"):
            await other.history(page.cursor)


@pytest.mark.promise("E-40", "P-63")
async def test_a_job_that_is_gone_has_nothing_to_tell(app: App, holder: Holder) -> None:
    async with app:
        sums: Task[[], None] = app.task(name="sums", history=9)(lambda: None)
        job = await sums.options(id="s").enqueue()
        (lease,) = await holder.claim()
        await holder.returns(lease, sums, None)
        again = await sums.options(id="s", reuse=["completed"]).enqueue()

        for read in (job.progress, job.log, job.history):
            with pytest.raises(JobNotFound, match="generation 2"):
                await read()
        assert [entry.kind for entry in (await again.history()).entries] == ["enqueued"]
        with pytest.raises(JobNotFound):
            await sums.job("nobody").history()


@pytest.mark.promise("E-38", "P-101")
@pytest.mark.parametrize("wrong", [-1, 10_001, True, 1.0, "9", None])
async def test_a_history_has_a_bound(app: App, wrong: Any) -> None:
    with pytest.raises(InvalidSetting, match="history="):
        app.task(name="t", history=wrong)(lambda: None)
    task: Task[[], None] = app.task(name="u")(lambda: None)
    options: CallOptions = {"history": wrong}
    with pytest.raises(InvalidSetting, match="history="):
        task.options(**options)
    with pytest.raises(InvalidSetting, match="limit="):
        await task.job("x").history(limit=0)


@pytest.mark.promise("P-63", "P-100")
@pytest.mark.parametrize(
    "arguments", [("x",), (True,), (1, "2"), (1, False), (1, 2, 3), (1, 2, "m", object()), (float("nan"),)]
)
def test_progress_that_is_no_progress_is_refused(arguments: tuple[Any, ...]) -> None:
    current, total, message, data = (*arguments, None, None, None)[:4]
    with pytest.raises(PayloadRejected, match="progress"):
        encode_progress(current, total, message, data, 1)


@pytest.mark.promise("P-63")
@pytest.mark.parametrize(
    ("current", "total", "fraction"),
    [(1, 4, 0.25), (5, 4, 1), (-1, 4, 0), (1, None, None), (1, 0, None), (1, -2, None)],
)
def test_a_fraction_is_from_none_to_all(current: float, total: float | None, fraction: float | None) -> None:
    assert Progress(current=current, total=total).fraction == fraction


@pytest.mark.local
@pytest.mark.promise("A-31", "P-63", "A-48", "P-110")
def test_a_plain_program_follows_a_job_that_reports_and_enqueues(backend_name: str, tmp_path: Path) -> None:
    app = App("memory://")

    @app.task(name="child")
    def child(name: str) -> str:
        return name.upper()

    @app.task(name="parent", history=100)
    def parent(ctx: Ctx) -> str:
        ctx.progress_sync(1, 2, "half", data={"rows": 7})
        ctx.log_sync("a line")
        return ctx.enqueue_sync(child.options(id="c").call("ada")).id

    with Harness(app, sqlite=None if backend_name == "memory" else tmp_path / "t.db") as jobs:
        job = parent.enqueue_sync()
        jobs.run_until_idle_sync()
        page: HistoryPage = job.history_sync(limit=3)
        rest = job.history_sync(page.cursor)
        told = job.progress_sync()

        assert told == Progress(current=1, total=2, message="half", data={"rows": 7}, attempt=1)
        assert job.log_sync() == ("a line",)
        assert [entry.kind for entry in (*page.entries, *rest.entries)] == [
            "enqueued", "claimed", "progress", "log", "completed",
        ]  # fmt: skip
        assert job.result_sync() == "c"
        made = child.job("c")
        assert made.result_sync(timeout=0) == "ADA"
        creator = made.record_sync().creator
        assert creator is not None
        assert (creator.id, creator.generation) == (job.id, job.generation)
