"""Order: by priority, then by when a job became waiting, however it did."""

from __future__ import annotations

import pytest

from leasemq.errors import Refused
from leasemq.protocol.model import Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-32", "B55", "A-7")
async def test_higher_priority_goes_first_and_within_one_the_longest_waiting(queue: QueueUnderTest) -> None:
    for number in range(100):
        for priority in (0, 100, -100):
            await queue.enqueue(f"{priority}/{number:02}", priority=priority)

    taken = await queue.claim_ids()

    assert taken == [f"{priority}/{number:02}" for priority in (100, 0, -100) for number in range(100)]


@pytest.mark.promise("P-32")
async def test_a_job_of_higher_priority_overtakes_at_the_next_claim(queue: QueueUnderTest) -> None:
    await queue.enqueue("low1", "low2")
    await queue.lease()

    await queue.enqueue("high", priority=1)

    assert await queue.claim_ids() == ["high", "low2"]


@pytest.mark.promise("P-32", "P-31")
async def test_a_promoted_job_waits_behind_those_that_waited_before(queue: QueueUnderTest) -> None:
    await queue.enqueue("delayed", delay_ms=SECOND_MS)
    await queue.enqueue("before")
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    await queue.enqueue("after")

    assert await queue.claim_ids() == ["before", "delayed", "after"]


@pytest.mark.promise("P-32", "P-31")
async def test_due_jobs_become_waiting_in_the_order_in_which_they_were_due(queue: QueueUnderTest) -> None:
    await queue.enqueue("third", delay_ms=3 * SECOND_MS)
    await queue.enqueue("first", delay_ms=1 * SECOND_MS)
    await queue.enqueue("second", delay_ms=2 * SECOND_MS)
    queue.clock.advance(5 * SECOND_MS)

    await queue.backend.advance(queue.name, ALL)

    assert await queue.claim_ids() == ["first", "second", "third"]


@pytest.mark.promise("P-32", "P-31")
async def test_jobs_due_at_the_same_instant_keep_the_order_of_acceptance(queue: QueueUnderTest) -> None:
    ids = [f"j{number:02}" for number in range(30)]
    await queue.enqueue(*ids, delay_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)

    for _ in range(10):
        await queue.backend.advance(queue.name, 3)

    assert await queue.claim_ids() == ids


@pytest.mark.promise("P-32", "P-20")
async def test_a_retried_job_goes_to_the_end_of_its_priority(queue: QueueUnderTest) -> None:
    await queue.enqueue("again", "other")
    await queue.settle(builders.retry(await queue.lease()))

    assert await queue.claim_ids() == ["other", "again"]


@pytest.mark.promise("P-32", "P-20", "B55")
async def test_a_retried_job_of_high_priority_still_goes_before_lower_ones(queue: QueueUnderTest) -> None:
    await queue.enqueue("high", priority=5)
    await queue.enqueue("low1", "low2")
    await queue.settle(builders.retry(await queue.lease()))

    assert await queue.claim_ids() == ["high", "low1", "low2"]


@pytest.mark.promise("P-32", "P-81")
async def test_a_released_job_goes_to_the_end_of_its_priority(queue: QueueUnderTest) -> None:
    await queue.enqueue("released", "other")
    await queue.settle(builders.release(await queue.lease()))

    assert await queue.claim_ids() == ["other", "released"]


@pytest.mark.promise("P-32", "P-23", "B55")
async def test_a_stalled_job_keeps_its_priority_and_goes_to_the_end_of_it(queue: QueueUnderTest) -> None:
    await queue.enqueue("high", "high2", priority=5)
    await queue.enqueue("low")
    await queue.stall_once()

    assert await queue.claim_ids() == ["high2", "high", "low"]


@pytest.mark.promise("P-32", "P-53")
async def test_a_new_priority_puts_a_job_at_its_age_among_its_new_peers(queue: QueueUnderTest) -> None:
    await queue.enqueue("oldest")
    await queue.enqueue("high1", priority=5)
    await queue.enqueue("middle")
    await queue.enqueue("high2", priority=5)

    await queue.backend.reprioritise(queue.name, ["middle"], 5)

    assert await queue.claim_ids() == ["high1", "middle", "high2", "oldest"]


@pytest.mark.promise("P-32", "P-53")
async def test_lowering_a_priority_takes_effect_at_the_next_claim(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", priority=5)
    await queue.enqueue("c")

    await queue.backend.reprioritise(queue.name, ["a"], -5)

    assert await queue.claim_ids() == ["b", "c", "a"]


@pytest.mark.promise("P-32", "P-53", "P-10")
async def test_a_priority_changed_there_and_back_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")
    for priority in (0, 5, 0, 0):
        await queue.backend.reprioritise(queue.name, ["a"], priority)

    assert await queue.claim_ids() == ["a", "b"]


@pytest.mark.promise("P-32")
async def test_order_is_kept_across_single_claims_and_batches(queue: QueueUnderTest) -> None:
    ids = [f"j{number:02}" for number in range(20)]
    await queue.enqueue(*ids)

    taken = []
    for limit in (1, 3, 1, 7, 8):
        taken += await queue.claim_ids(limit)

    assert taken == ids


@pytest.mark.promise("P-33")
async def test_jobs_may_end_in_another_order_than_they_started(queue: QueueUnderTest) -> None:
    await queue.enqueue("first", "second")
    first, second = (await queue.claim(2)).leases

    assert await queue.settle(builders.complete(second)) is Settled.APPLIED
    assert await queue.settle(builders.complete(first)) is Settled.APPLIED
    assert [event.ref.id for event in (await queue.events())[-2:]] == ["second", "first"]


@pytest.mark.promise("P-32", "P-53")
@pytest.mark.parametrize("priority", [-101, 101])
async def test_a_new_priority_out_of_range_is_refused(queue: QueueUnderTest, priority: int) -> None:
    await queue.enqueue("j")

    with pytest.raises(Refused):
        await queue.backend.reprioritise(queue.name, ["j"], priority)

    assert (await queue.record()).priority == 0


@pytest.mark.promise("P-32")
async def test_the_priority_of_a_job_that_runs_cannot_be_changed(queue: QueueUnderTest) -> None:
    await queue.start()

    (changed,) = await queue.backend.reprioritise(queue.name, ["j"], 9)

    assert (changed.change, changed.state) == ("illegal", State.ACTIVE)
    assert (await queue.record()).priority == 0
