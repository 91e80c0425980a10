"""Many jobs in one call: each with the options that its own call carries, and an answer for each."""

from __future__ import annotations

from typing import Any

import pytest

from leasemq import App, State
from leasemq.errors import IdConflict
from leasemq.task import Task
from tests.app.holder import Holder


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


@pytest.mark.promise("P-110", "A-4")
async def test_a_dependant_among_many_hears_at_once_that_its_parent_has_ended(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        parent = await task.enqueue(1)
        await holder.returns_next(task, 1)
        calls = [task.call(2), task.options(queue="other", after=[parent]).call(3)]
        jobs = await task.enqueue_many(calls)
        assert [await job.state() for job in jobs] == [State.WAITING, State.WAITING]


@pytest.mark.promise("P-40", "A-4")
async def test_a_strict_call_among_many_hands_out_the_handles_of_what_is_stored(
    app: App, task: Task[[int], Any]
) -> None:
    async with app:
        await task.options(id="known").enqueue(1)
        calls = [task.call(1), task.options(id="known", strict=True).call(2), task.options(queue="b").call(3)]
        with pytest.raises(
            IdConflict, match=r"job known .* the other jobs of the call are stored"
        ) as refused:
            await task.enqueue_many(calls)
        first, clash, last = refused.value.jobs
        assert clash is None
        assert first is not None
        assert last is not None
        assert [first.id, last.id] == [calls[0].job.id, calls[2].job.id]
        assert await first.state() is await last.state() is State.WAITING
        with pytest.raises(IdConflict) as alone:
            await task.options(id="known", strict=True).enqueue(2)
        assert alone.value.jobs == ()
