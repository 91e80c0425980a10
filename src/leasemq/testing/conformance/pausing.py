"""Pause: no claim takes a job of a paused queue, on any view, and all else goes on."""

from __future__ import annotations

import pytest

from leasemq.backend import Backend
from leasemq.protocol.model import NothingClaimed, Settled
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.conformance.store import Store


@pytest.mark.promise("P-52", "A-20", "B58")
async def test_a_paused_queue_gives_nothing_on_any_view_and_says_why(
    queue: QueueUnderTest, second: Backend
) -> None:
    await queue.enqueue("j")
    await queue.backend.pause(queue.name)

    here = await queue.claim()
    there = await second.claim(queue.name, 1, builders.LEASE_MS, builders.claimant("B"))

    assert here.leases == there.leases == ()
    assert here.reason is there.reason is NothingClaimed.PAUSED
    assert (await queue.counts()).paused


@pytest.mark.promise("P-52", "A-20")
async def test_a_paused_queue_is_listed_even_before_its_first_job(queue: QueueUnderTest) -> None:
    await queue.backend.pause(queue.name)
    assert list(await queue.backend.queues()) == [queue.name]

    await queue.backend.resume(queue.name)
    assert list(await queue.backend.queues()) == []


@pytest.mark.promise("P-52", "A-20")
async def test_a_resumed_queue_gives_its_jobs_in_order(queue: QueueUnderTest) -> None:
    await queue.backend.pause(queue.name)
    await queue.enqueue("a", "b")
    await queue.backend.resume(queue.name)

    assert await queue.claim_ids() == ["a", "b"]
    assert not (await queue.counts()).paused


@pytest.mark.promise("P-52", "B58")
async def test_running_jobs_go_on_while_the_queue_is_paused(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.backend.pause(queue.name)

    assert await queue.renew(lease) == "held"
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("P-52", "P-02")
async def test_a_sweep_recovers_leases_of_a_paused_queue(queue: QueueUnderTest) -> None:
    await queue.start()
    await queue.backend.pause(queue.name)
    queue.fall_silent()

    assert await queue.sweep() == [Settled.APPLIED]
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-52", "B58")
async def test_pausing_twice_is_pausing_and_resuming_twice_is_resuming(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    for _ in range(2):
        await queue.backend.pause(queue.name)
    assert await queue.claim_ids() == []
    for _ in range(2):
        await queue.backend.resume(queue.name)

    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-52")
async def test_pausing_one_queue_leaves_the_others_alone(queue: QueueUnderTest) -> None:
    await queue.backend.enqueue("other", [builders.new_job()])
    await queue.backend.pause(queue.name)

    claimed = await queue.backend.claim("other", 1, builders.LEASE_MS, builders.claimant())

    assert len(claimed.leases) == 1


@pytest.mark.promise("P-52", "A-20")
async def test_a_pause_is_still_there_for_a_view_opened_later(queue: QueueUnderTest, store: Store) -> None:
    await queue.enqueue("j")
    await queue.backend.pause(queue.name)

    later = QueueUnderTest(backend=await store.open(), clock=queue.clock)

    assert await later.claim_ids() == []
    assert (await later.counts()).paused


@pytest.mark.promise("P-52")
async def test_a_queue_can_be_paused_before_its_first_job(queue: QueueUnderTest) -> None:
    await queue.backend.pause(queue.name)
    await queue.enqueue("j")

    assert await queue.claim_ids() == []


@pytest.mark.promise("P-52", "A-20", "P-53")
async def test_a_paused_queue_can_be_drained(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")
    await queue.backend.pause(queue.name)

    assert await queue.backend.drain(queue.name, 10) == 2
    assert (await queue.counts()).paused
