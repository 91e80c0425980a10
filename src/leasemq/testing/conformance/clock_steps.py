"""The server's own clock is set forwards or back: leases get shorter or longer, nothing stale is accepted."""

from __future__ import annotations

import pytest

from leasemq.protocol.model import Renewal, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, LEASE_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

STEPS = pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS], ids=["an hour on", "an hour back"])


@STEPS
@pytest.mark.promise("P-12", "P-10", "E-18")
async def test_fences_grow_whatever_the_clock_does(queue: QueueUnderTest, step_ms: int) -> None:
    await queue.enqueue("j")
    numbers = []
    for _ in range(4):
        lease = await queue.lease()
        numbers.append(lease.fence.number)
        queue.clock.step(step_ms)
        await queue.settle(builders.release(lease))

    assert numbers == sorted(set(numbers))


@STEPS
@pytest.mark.promise("P-12", "P-11", "A-12")
async def test_a_stale_holder_is_refused_after_a_step_of_the_clock(
    queue: QueueUnderTest, step_ms: int
) -> None:
    await queue.enqueue("j")
    stale = await queue.stall_once()
    queue.clock.step(step_ms)
    newer = await queue.lease(worker="B")
    queue.clock.step(-step_ms)

    assert await queue.renew(stale) is Renewal.LOST
    assert await queue.settle(builders.complete(stale)) is Settled.LOST
    assert await queue.settle(builders.complete(newer)) is Settled.APPLIED


@STEPS
@pytest.mark.promise("P-12", "P-01")
async def test_the_holder_can_finish_whatever_the_clock_did(queue: QueueUnderTest, step_ms: int) -> None:
    lease = await queue.start()
    queue.clock.step(step_ms)

    assert await queue.renew(lease) is Renewal.HELD
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("P-12")
async def test_a_step_back_lengthens_a_lease_and_nobody_takes_it_meanwhile(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.clock.step(-HOUR_MS)
    queue.clock.advance(LEASE_MS + 1)

    assert await queue.sweep() == []
    assert await queue.settle(builders.stall(lease)) is Settled.HELD

    queue.clock.advance(HOUR_MS)
    assert await queue.sweep() == [Settled.APPLIED]


@pytest.mark.promise("P-12")
async def test_a_step_forwards_ends_a_lease_and_the_next_holder_stands(queue: QueueUnderTest) -> None:
    first = await queue.start()
    queue.clock.step(HOUR_MS)
    assert await queue.sweep() == [Settled.APPLIED]
    second = await queue.lease(worker="B")
    queue.clock.step(-HOUR_MS)

    assert await queue.settle(builders.complete(first)) is Settled.LOST
    assert await queue.settle(builders.complete(second)) is Settled.APPLIED


@pytest.mark.promise("P-12")
async def test_a_sweep_that_read_before_a_step_back_takes_no_live_lease(queue: QueueUnderTest) -> None:
    await queue.start()
    queue.fall_silent()
    (read,) = await queue.backend.expired(queue.name, ALL)
    queue.clock.step(-HOUR_MS)

    assert await queue.settle(builders.stall(read)) is Settled.HELD


@STEPS
@pytest.mark.promise("P-12", "P-03")
async def test_a_repeated_settlement_is_recognised_after_a_step(queue: QueueUnderTest, step_ms: int) -> None:
    settlement = builders.retry(await queue.start())
    await queue.settle(settlement)
    queue.clock.step(step_ms)
    await queue.lease(worker="B")

    assert await queue.settle(settlement) is Settled.REPLAYED


@STEPS
@pytest.mark.promise("P-12", "P-05")
async def test_an_end_stands_whatever_the_clock_did(queue: QueueUnderTest, step_ms: int) -> None:
    lease = await queue.finish()
    before = await queue.record()
    queue.clock.step(step_ms)

    await queue.settle(builders.fail(lease))
    await queue.sweep()
    await queue.backend.advance(queue.name, ALL)

    record = await queue.record()
    assert (record.state, record.ended_ms) == (State.COMPLETED, before.ended_ms)


@pytest.mark.promise("P-12", "P-10")
async def test_after_a_removal_and_a_step_back_the_nonce_tells_the_attempts_apart(
    queue: QueueUnderTest,
) -> None:
    first = await queue.start()
    await queue.remove(force=True)
    queue.clock.step(-HOUR_MS)
    second = await queue.start()
    assert second.fence.number < first.fence.number

    assert await queue.settle(builders.complete(first)) is Settled.LOST
    assert await queue.settle(builders.complete(second)) is Settled.APPLIED


@STEPS
@pytest.mark.promise("P-12", "P-32")
async def test_order_among_waiting_jobs_is_not_the_clocks(queue: QueueUnderTest, step_ms: int) -> None:
    await queue.enqueue("a")
    queue.clock.step(step_ms)
    await queue.enqueue("b")
    queue.clock.step(-2 * step_ms)
    await queue.enqueue("c")

    assert await queue.claim_ids() == ["a", "b", "c"]
