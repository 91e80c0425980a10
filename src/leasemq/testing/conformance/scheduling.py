"""Schedules as data: a tick's jobs and the cursor's advance become true together, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from leasemq.backend import Backend
from leasemq.protocol.insight import Schedule
from leasemq.protocol.model import Keep, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import new_job
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

NIGHTLY = Schedule(name="nightly", queue="mail", spec=b'{"cron": "0 2 * * *"}', cursor_ms=1_000)


@pytest.mark.promise("P-74", "A-26")
async def test_a_schedule_reads_back_as_it_was_put(backend: Backend) -> None:
    paused = Schedule(name="hourly", queue="other", spec=bytes(range(256)), cursor_ms=5, paused=True)
    await backend.put_schedule(NIGHTLY)
    await backend.put_schedule(paused)

    assert list(await backend.schedules()) == [paused, NIGHTLY]


@pytest.mark.promise("P-74", "A-26")
async def test_putting_again_replaces_in_place_and_never_moves_the_cursor_back(backend: Backend) -> None:
    await backend.put_schedule(NIGHTLY)

    await backend.put_schedule(replace(NIGHTLY, spec=b"new", cursor_ms=1))
    (older,) = await backend.schedules()
    await backend.put_schedule(replace(NIGHTLY, cursor_ms=9_000))
    (newer,) = await backend.schedules()

    assert (older.spec, older.cursor_ms) == (b"new", 1_000)
    assert newer.cursor_ms == 9_000


@pytest.mark.promise("P-74")
async def test_deleting_says_whether_there_was_one(backend: Backend) -> None:
    await backend.put_schedule(NIGHTLY)

    assert await backend.delete_schedule("nightly")
    assert not await backend.delete_schedule("nightly")
    assert list(await backend.schedules()) == []


@pytest.mark.promise("P-70", "E-51")
async def test_a_tick_stores_its_jobs_and_moves_the_cursor(queue: QueueUnderTest) -> None:
    await queue.backend.put_schedule(NIGHTLY)

    answers = await queue.backend.advance_schedule(
        "nightly", 1_000, 3_000, [new_job("nightly@2000"), new_job("nightly@3000")]
    )

    assert answers is not None
    assert [(answer.ref.id, answer.created) for answer in answers] == [
        ("nightly@2000", True), ("nightly@3000", True),
    ]  # fmt: skip
    (schedule,) = await queue.backend.schedules()
    assert schedule.cursor_ms == 3_000
    assert await queue.claim_ids() == ["nightly@2000", "nightly@3000"]


@pytest.mark.promise("P-70", "B48", "E-50", "A-26")
@pytest.mark.parametrize("keep", [Keep(), Keep(record_ms=0)], ids=["kept", "keep 0"])
async def test_of_many_schedulers_one_enqueues_a_tick_whatever_the_retention(
    queue: QueueUnderTest, second: Backend, keep: Keep
) -> None:
    await queue.backend.put_schedule(NIGHTLY)
    views = [queue.backend, second]
    tick = new_job("nightly@2000", keep=keep)

    answers = await asyncio.gather(
        *(views[number % 2].advance_schedule("nightly", 1_000, 2_000, [tick]) for number in range(10))
    )
    assert sum(answer is not None for answer in answers) == 1

    await queue.settle(builders.complete(await queue.lease()))
    assert await second.advance_schedule("nightly", 1_000, 2_000, [tick]) is None
    assert (await queue.counts()).accepted == 1


@pytest.mark.promise("P-70", "P-74", "A-26")
async def test_a_tick_of_a_paused_deleted_or_unknown_schedule_enqueues_nothing(
    queue: QueueUnderTest,
) -> None:
    backend = queue.backend
    await backend.put_schedule(replace(NIGHTLY, paused=True))
    assert await backend.advance_schedule("nightly", 1_000, 2_000, [new_job()]) is None
    await backend.delete_schedule("nightly")
    assert await backend.advance_schedule("nightly", 1_000, 2_000, [new_job()]) is None

    assert (await queue.counts()).accepted == 0
    assert list(await backend.schedules()) == []


@pytest.mark.promise("P-70")
async def test_a_cursor_can_move_without_a_job(queue: QueueUnderTest) -> None:
    await queue.backend.put_schedule(NIGHTLY)

    answers = await queue.backend.advance_schedule("nightly", 1_000, 2_000, [])

    assert answers is not None
    assert len(answers) == 0
    (schedule,) = await queue.backend.schedules()
    assert schedule.cursor_ms == 2_000


@pytest.mark.promise("P-70")
async def test_a_tick_whose_id_is_known_still_moves_the_cursor(queue: QueueUnderTest) -> None:
    await queue.backend.put_schedule(NIGHTLY)
    await queue.enqueue("nightly@2000")

    answers = await queue.backend.advance_schedule("nightly", 1_000, 2_000, [new_job("nightly@2000")])

    assert answers is not None
    assert not answers[0].created
    (schedule,) = await queue.backend.schedules()
    assert schedule.cursor_ms == 2_000


@pytest.mark.promise("P-70")
async def test_a_ticks_jobs_go_to_the_schedules_queue(queue: QueueUnderTest) -> None:
    await queue.backend.put_schedule(replace(NIGHTLY, queue="reports"))

    await queue.backend.advance_schedule("nightly", 1_000, 2_000, [new_job("tick")])

    reports = QueueUnderTest(backend=queue.backend, clock=queue.clock, name="reports")
    assert await reports.state("tick") is State.WAITING
    assert await reports.settle(builders.complete(await reports.lease())) is Settled.APPLIED
