"""The same id or key more than once: at once, while it runs, after its end, after a lost answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import App, Ctx, Job, Retry, State, Unique
from leasemq.errors import IdConflict, UniqueConflict
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Acceptance
from leasemq.testing import Harness
from tests.app.holder import Holder

pytestmark = pytest.mark.local


@pytest_asyncio.fixture
async def jobs(app: App, backend_name: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness around the app, on the backend of the test."""
    async with Harness(app, sqlite=None if backend_name == "memory" else tmp_path / "h.db") as jobs:
        yield jobs


def _answers(enqueued: list[Job[Any]]) -> dict[str | None, int]:
    return Counter(job.acceptance for job in enqueued)


@pytest.mark.promise("P-40", "B45", "E-6", "A-5")
async def test_an_id_is_one_job_at_once_while_it_runs_and_after_its_end(app: App, jobs: Harness) -> None:
    nested: list[Job[str]] = []

    @app.task(name="t")
    async def task(text: str) -> str:
        nested.append(await task.options(id="X").enqueue("while it runs"))
        return text

    same = task.options(id="X")
    first = await asyncio.gather(*(same.enqueue("first") for _ in range(50)))
    assert _answers(first) == {Acceptance.CREATED: 1, Acceptance.EXISTING: 49}
    assert (await jobs.run_until_idle()).outcomes == {"completed": 1}
    assert _answers(nested) == {Acceptance.EXISTING: 1}

    again = await same.enqueue("after its end")
    assert (again.acceptance, again.generation) == (Acceptance.EXISTING, 1)
    assert await again.result(timeout=0) == "first"
    with pytest.raises(IdConflict):
        await task.options(id="X", strict=True).enqueue("other")

    anew = await task.options(id="X", reuse={"completed"}).enqueue("anew")
    assert (anew.acceptance, anew.generation) == (Acceptance.CREATED, 2)
    assert (await jobs.run_until_idle()).outcomes == {"completed": 1}
    assert await anew.result(timeout=0) == "anew"


@pytest.mark.promise("P-40", "B45", "E-6")
@pytest.mark.parametrize("state", State)
async def test_a_known_id_is_answered_in_every_state_and_keeps_its_arguments(
    app: App, jobs: Harness, state: State
) -> None:
    @app.task(name="t")
    async def task(text: str) -> str:
        if state is State.FAILED:
            raise RuntimeError(text)
        return text

    parent = await task.options(queue="elsewhere", delay=3_600).enqueue("a parent that has not ended")
    options: dict[State, Any] = {
        State.SCHEDULED: {"delay": 60},
        State.BLOCKED: {"after": [parent]},
        State.EXPIRED: {"ttl": 1, "delay": 60},
    }
    job = await task.options(id="X", **options.get(state, {})).enqueue("first")
    match state:
        case State.ACTIVE:
            await Holder(app).claim()
        case State.CANCELLED:
            await job.cancel()
        case State.EXPIRED:
            await jobs.advance(2)
        case State.COMPLETED | State.FAILED:
            await jobs.run_until_idle()
        case _:
            pass
    before = await job.record()
    assert before.state is state
    now = (await app.events_page()).cursor

    again = await task.options(id="X", priority=9).enqueue("other")

    assert (again.id, again.generation, again.acceptance) == ("X", 1, Acceptance.EXISTING)
    assert await job.record() == before
    assert (await app.events_page(now)).events == ()


@pytest.mark.promise("P-40", "B45")
async def test_an_id_whose_record_is_not_kept_is_free_at_once(app: App, jobs: Harness) -> None:
    @app.task(name="t", keep_dead=0)
    async def task() -> None:
        raise RuntimeError("for good")

    for _ in range(2):
        assert (await task.options(id="Y").enqueue()).created
        assert (await jobs.run_until_idle()).outcomes == {"failed": 1}


@pytest.mark.promise("P-40", "P-44", "P-50", "B45")
async def test_an_id_that_was_cancelled_before_it_ran_is_used_again_if_asked(app: App, jobs: Harness) -> None:
    ran: list[str] = []

    @app.task(name="t")
    async def task(text: str) -> None:
        ran.append(text)

    delayed = await task.options(id="Z", delay=60).enqueue("delayed")
    assert await delayed.cancel() is CancelAnswer.CANCELLED
    assert (await task.options(id="Z").enqueue("kept")).acceptance is Acceptance.EXISTING
    anew = await task.options(id="Z", reuse={"cancelled"}).enqueue("anew")
    assert (anew.acceptance, anew.generation) == (Acceptance.CREATED, 2)
    await jobs.advance(120)
    assert ran == ["anew"]


@pytest.mark.promise("P-41", "B45")
@pytest.mark.parametrize("until", ["start", "end"])
async def test_a_unique_job_that_fails_and_is_retried_is_not_in_conflict_with_itself(
    app: App, jobs: Harness, until: Any
) -> None:
    @app.task(name="t", unique=Unique(until=until), retry=Retry(1))
    async def task(ctx: Ctx, text: str) -> str:
        if ctx.attempt == 1:
            raise RuntimeError(text)
        return text

    job = await task.enqueue("once")
    assert (await jobs.advance(minutes=5)).outcomes == {"retried": 1, "completed": 1}
    assert (await job.record()).attempts == 2
    assert (await task.enqueue("once")).created


@pytest.mark.promise("P-41", "P-54", "A-22")
async def test_a_replay_takes_the_key_again_or_is_refused_naming_the_holder(app: App, jobs: Harness) -> None:
    broken = [True]

    @app.task(name="t", unique="k")
    async def task() -> None:
        if broken:
            raise RuntimeError("broken")

    dead = await task.enqueue()
    await jobs.run_until_idle()
    holder = await task.enqueue()
    before = await dead.record()
    with pytest.raises(UniqueConflict, match=holder.id):
        await app.queue().replay(dead.id)
    assert await dead.record() == before

    await app.queue().remove(holder.id)
    await app.queue().replay(dead.id)
    assert (await task.enqueue()).id == dead.id
    broken.clear()
    assert (await jobs.run_until_idle()).outcomes == {"completed": 1}
    assert (await task.enqueue()).created


@pytest.mark.promise("P-03", "P-40", "P-41", "B06")
@pytest.mark.parametrize("options", [{}, {"id": "inv-42"}, {"unique": "k"}, {"id": "inv-42", "unique": "k"}])
async def test_an_enqueue_whose_answer_was_lost_leaves_one_job(
    app: App, jobs: Harness, options: dict[str, Any]
) -> None:
    @app.task(name="t")
    async def task() -> None: ...

    jobs.lose_reply("enqueue")
    job = await task.options(**options).enqueue()
    assert job.created == ("id" not in options)  # an id of the caller's: somebody else may have stored it
    if options:
        assert not (await task.options(**options).enqueue()).created
    assert (await jobs.run_until_idle()).outcomes == {"completed": 1}


@pytest.mark.promise("P-03", "P-40", "B06", "A-4")
async def test_a_hundred_calls_repeated_after_a_lost_answer_leave_a_hundred_jobs(
    app: App, jobs: Harness
) -> None:
    @app.task(name="t")
    async def task(number: int) -> None: ...

    calls = [task.call(number) for number in range(100)]
    jobs.lose_reply("enqueue")
    first = await task.enqueue_many(calls)
    again = await task.enqueue_many(calls)
    assert [job.id for job in again] == [job.id for job in first] == [call.job.id for call in calls]
    assert _answers(again) == {Acceptance.EXISTING: 100}
    assert (await jobs.run_until_idle()).outcomes == {"completed": 100}


@pytest.mark.promise("P-41", "P-44")
async def test_reuse_gives_way_only_to_a_free_key(app: App, jobs: Harness) -> None:
    @app.task(name="t", unique="k")
    async def task(text: str) -> None: ...

    ended = await task.options(id="X").enqueue("first")
    await jobs.run_until_idle()
    holder = await task.options(id="Y").enqueue("second")
    again = task.options(id="X", reuse={"completed"})
    skipped = await again.enqueue("third")
    assert (skipped.id, skipped.acceptance) == (holder.id, Acceptance.SKIPPED)
    assert await ended.state() is State.COMPLETED

    await app.queue().remove(holder.id)
    anew = await again.enqueue("fourth")
    assert (anew.id, anew.generation, anew.acceptance) == ("X", 2, Acceptance.CREATED)


@pytest.mark.promise("P-41", "P-62")
async def test_a_throttled_key_stays_when_its_holder_s_record_is_gone(app: App, jobs: Harness) -> None:
    @app.task(name="t", unique=Unique(mode="throttle", window=60), keep_record=0, keep_result=0)
    async def task() -> None: ...

    holder = await task.enqueue()
    await jobs.run_until_idle()
    assert await jobs.enqueued() == []
    again = await task.enqueue()
    assert (again.id, again.acceptance) == (holder.id, Acceptance.SKIPPED)
    await jobs.advance(60)
    assert (await task.enqueue()).created
