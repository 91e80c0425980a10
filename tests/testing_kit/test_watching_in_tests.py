"""A job's story inside a harness: what the test lets happen is told, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from leasemq import App, Job, Retry
from leasemq.errors import Refused
from leasemq.feed import EARLIEST
from leasemq.testing import Harness

pytestmark = pytest.mark.promise("A-49", "P-62")


@pytest.fixture(params=["memory", "sqlite"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where a harness keeps its jobs."""
    if request.param == "memory":
        return None
    import_module("leasemq.backends.sqlite")  # reads its statements; a test's loop is watched for that
    return tmp_path / "jobs.db"


@pytest.fixture
def app() -> App:
    """An app whose task fails in its first run."""
    app = App("memory://")
    runs: list[int] = []

    @app.task(name="t", retry=Retry(1, delays=[60], jitter="none"))
    async def t() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("the first run fails")

    return app


async def story(job: Job[None]) -> list[str]:
    """What a watcher is told."""
    return [event.kind.value async for event in job.watch(timeout=10)]


async def test_a_watcher_is_told_what_the_test_lets_happen(app: App, file: Path | None) -> None:
    async with Harness(app, sqlite=file) as jobs:
        job = await app.tasks["t"].enqueue()
        watching = asyncio.ensure_future(story(job))
        await jobs.run_until_idle()
        await jobs.advance(minutes=1)
        told = await watching
        page = await app.events_page(EARLIEST)

    assert told == ["enqueued", "claimed", "retried", "promoted", "claimed", "completed"]
    assert [event.kind.value for event in page.events] == told


async def test_inline_a_story_has_been_told_and_one_that_would_have_no_end_is_refused(
    app: App, file: Path | None
) -> None:
    async with Harness(app, sqlite=file, inline=True) as jobs:
        job = await app.tasks["t"].enqueue()
        with pytest.raises(Refused, match="advance"):
            await story(job)
        await jobs.advance(minutes=1)
        assert (await story(job))[-1] == "completed"
