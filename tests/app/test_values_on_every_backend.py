"""Plain data through a real worker in real time, on each backend: the routes that need no virtual hours.

`test_values_travel` has the others, and declared types: they are encoded before a backend sees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leasemq import App, Ctx, Job, JobFailed, Retry
from tests.app.test_values_travel import PLAIN
from tests.app.waiting import until
from tests.protocol.values import same

PATIENCE_S = 30.0
Drive = Callable[[App, Job[Any]], Awaitable[object]]


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    """Run a worker meanwhile."""
    worker = app.worker(concurrency=2)
    running = asyncio.ensure_future(worker.run())
    yield
    worker.stop()
    assert await running == 0


async def _nothing(app: App, job: Job[Any]) -> None: ...


async def _promoted(app: App, job: Job[Any]) -> None:
    await app.queue().promote(job.id)


async def _replayed(app: App, job: Job[Any]) -> None:
    with pytest.raises(JobFailed):
        await job.result(timeout=PATIENCE_S)
    await app.queue().replay(job.id)


ROUTES: dict[str, tuple[Drive, dict[str, Any], bool]] = {
    "straight": (_nothing, {}, False),
    "after a retry": (_nothing, {"retry": Retry(1, delays=[0])}, True),
    "when it was due": (_nothing, {"delay": 0.1}, False),
    "promoted": (_promoted, {"delay": 3_600}, False),
    "replayed": (_replayed, {}, True),
}


@pytest.mark.promise("P-100", "A-2", "B31", "B33", "E-56")
@pytest.mark.parametrize("route", ROUTES)
async def test_plain_data_is_the_same_in_every_place_in_real_time(app: App, route: str) -> None:
    drive, options, first_fails = ROUTES[route]
    seen: list[Any] = []
    left: list[Any] = []
    followed: list[Any] = []

    @app.task(name="follow")
    async def follow(value: Any) -> None:
        followed.append(value)

    @app.task(name="t", history=10)
    async def t(ctx: Ctx, value: Any, rest: Any = None) -> Any:
        seen.append([value, rest])
        left.append(ctx.last_checkpoint)
        await ctx.checkpoint(value)
        await ctx.progress(1, data=value)
        await ctx.enqueue(follow.call(value))
        if first_fails and len(seen) == 1:
            raise RuntimeError("the first attempt fails")
        return value

    async with app, working(app):
        job = await t.options(**options).enqueue(PLAIN, rest=PLAIN[0])
        await drive(app, job)
        result = await job.result(timeout=PATIENCE_S)
        progress = await job.progress()
        told = [entry.progress.data for entry in (await job.history()).entries if entry.progress is not None]
        await until(lambda: len(followed) == len(seen))

    assert same(result, PLAIN)
    assert same(seen, [[PLAIN, PLAIN[0]]] * (1 + first_fails))
    assert same(left, [None, PLAIN] if first_fails else [None])
    assert progress is not None
    assert same(progress.data, PLAIN)
    assert told
    assert same(told, [PLAIN] * len(told))
    assert same(followed, [PLAIN] * len(seen))
