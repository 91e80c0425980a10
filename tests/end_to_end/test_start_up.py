"""A worker that is told to stop, or cancelled, before it has begun."""

from __future__ import annotations

import asyncio

import pytest

from leasemq import App
from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import QUEUE, Place

pytestmark = pytest.mark.by_url

WITHIN_S = 1.0
JOBS = 5


@pytest.fixture
def app(place: Place) -> App:
    """An app on a store of its own."""
    return place.app


@pytest.mark.promise("P-81", "B12")
async def test_a_worker_stopped_before_its_first_turn_claims_nothing(app: App) -> None:
    async with app:
        await task_of(app, "quick").enqueue_many([()] * JOBS)
        worker = app.worker(lease=2)
        running = asyncio.create_task(worker.run())
        worker.stop()
        async with asyncio.timeout(WITHIN_S):
            code = await running
        counts = await app.queue(QUEUE).counts()

    assert code == 0
    assert (counts.waiting, counts.active) == (JOBS, 0)


@pytest.mark.promise("P-81", "B12")
@pytest.mark.parametrize("turns", range(6))
async def test_a_worker_cancelled_while_it_starts_is_gone_at_once(app: App, turns: int) -> None:
    async with app:
        worker = app.worker(lease=2)
        running = asyncio.create_task(worker.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(asyncio.CancelledError):
                await running
