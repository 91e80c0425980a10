"""The app's feed: all that happens, live or page by page, from a cursor that is plain text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from leasemq import App
from leasemq.feed import JobEvent
from leasemq.protocol.insight import EventKind
from leasemq.task import Task
from tests.app.holder import Holder
from tests.app.waiting import until

RUN_ONCE = [EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.COMPLETED]


@pytest.fixture
def task(app: App) -> Task[[int], Any]:
    @app.task(name="t")
    async def t(n: int) -> Any: ...

    return t


async def first(events: AsyncGenerator[JobEvent, None], count: int) -> list[JobEvent]:
    """The next events of a feed, which is then closed."""
    read: list[JobEvent] = []
    async with asyncio.timeout(10), aclosing(events):
        while len(read) < count:
            read.append(await anext(events))
    return read


@pytest.mark.promise("P-62", "A-32")
async def test_a_feed_tells_what_happens_in_all_queues_also_in_those_that_appear_later(
    app: App, task: Task[[int], Any], holder: Holder
) -> None:
    async with app:
        await task.options(queue="mail", id="before").enqueue(0)
        reading = asyncio.ensure_future(first(app.events(), 6))
        feed = (await app._connections.here()).feed
        await until(lambda: feed.is_watching)
        for queue in ("mail", "new"):
            await task.options(queue=queue, id=f"in {queue}").enqueue(1)
        for lease in [*await holder.claim("mail", 2), *await holder.claim("new")]:
            await holder.returns(lease, task, 1)
        events = await reading

    told = [(event.queue, event.kind) for event in events if event.id == "in new"]
    assert "before" not in {event.id for event in events if event.kind is EventKind.ENQUEUED}
    assert told == [("new", kind) for kind in RUN_ONCE][: len(told)]
    assert {event.queue for event in events} == {"mail", "new"}
