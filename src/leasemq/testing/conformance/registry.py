"""The workers that show themselves, and the clock that is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasemq.backend import Backend
from leasemq.protocol.insight import WorkerInfo
from leasemq.protocol.model import Ref
from leasemq.testing.conformance.builders import SECOND_MS
from leasemq.testing.manual_clock import ManualClock

WORKER = WorkerInfo(
    worker="w",
    incarnation="w-1",
    host="box",
    pid=42,
    version="1.0",
    queues=("mail", "日本"),
    slots=8,
    running=3,
    jobs=(Ref(queue="mail", id="j/1", generation=1), Ref(queue="日本", id="j", generation=4)),
)


@pytest.mark.promise("P-84", "A-33")
async def test_a_worker_shows_as_it_announced_itself(backend: Backend, clock: ManualClock) -> None:
    await backend.announce(WORKER, 30 * SECOND_MS)

    assert list(await backend.workers()) == [replace(WORKER, seen_ms=clock())]


@pytest.mark.promise("P-84", "A-33")
async def test_announcing_again_replaces_what_was_shown(backend: Backend, clock: ManualClock) -> None:
    await backend.announce(WORKER, 30 * SECOND_MS)
    clock.advance(10 * SECOND_MS)
    await backend.announce(replace(WORKER, running=0), 30 * SECOND_MS)

    (shown,) = await backend.workers()

    assert (shown.running, shown.seen_ms) == (0, clock())


@pytest.mark.promise("P-84", "A-33")
async def test_a_silent_worker_is_gone_when_its_announcement_lapses(
    backend: Backend, clock: ManualClock
) -> None:
    await backend.announce(WORKER, 30 * SECOND_MS)
    clock.advance(30 * SECOND_MS - 1)
    assert len(await backend.workers()) == 1
    clock.advance(2)

    assert list(await backend.workers()) == []


@pytest.mark.promise("P-84", "A-33")
async def test_a_retired_life_is_gone_at_once_and_others_stay(backend: Backend) -> None:
    for incarnation in ("w-2", "w-1"):
        await backend.announce(replace(WORKER, incarnation=incarnation), 30 * SECOND_MS)
    await backend.retire("w-1")
    await backend.retire("w-1")

    assert [shown.incarnation for shown in await backend.workers()] == ["w-2"]


@pytest.mark.promise("P-84", "A-33")
async def test_a_thousand_lives_of_one_worker_leave_nothing_behind(
    backend: Backend, clock: ManualClock
) -> None:
    for life in range(1_000):
        await backend.announce(replace(WORKER, incarnation=f"w-{life:04}"), 30 * SECOND_MS)
        clock.advance(SECOND_MS)
        if life % 2:
            await backend.retire(f"w-{life:04}")
    alive = [shown.incarnation for shown in await backend.workers()]
    clock.advance(30 * SECOND_MS)

    assert alive == [f"w-{life:04}" for life in range(972, 1_000, 2)]
    assert list(await backend.workers()) == []


@pytest.mark.promise("P-84")
async def test_workers_are_shown_by_name_then_incarnation(backend: Backend) -> None:
    for worker, incarnation in (("b", "1"), ("a", "2"), ("a", "1")):
        await backend.announce(replace(WORKER, worker=worker, incarnation=f"{worker}-{incarnation}"), 1_000)

    assert [shown.incarnation for shown in await backend.workers()] == ["a-1", "a-2", "b-1"]


@pytest.mark.promise("P-84")
async def test_a_worker_announced_on_one_view_shows_on_another(backend: Backend, second: Backend) -> None:
    await backend.announce(WORKER, 30 * SECOND_MS)

    assert [shown.worker for shown in await second.workers()] == ["w"]


@pytest.mark.promise("P-12")
async def test_the_clock_that_is_shown_is_the_stores(backend: Backend, clock: ManualClock) -> None:
    clock.advance(12_345)

    assert await backend.now_ms() == clock()
