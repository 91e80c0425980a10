"""Recovery: leases past their deadline, stalls, and sweeps that race."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.backend import Backend
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import Renewal, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-02", "P-23", "A-13")
async def test_a_silent_holders_job_is_eligible_at_once_after_a_sweep(queue: QueueUnderTest) -> None:
    await queue.start()
    queue.fall_silent()

    assert await queue.sweep() == [Settled.APPLIED]

    again = await queue.lease(worker="B")
    assert (again.attempts, again.failures, again.stalls) == (2, 0, 1)


@pytest.mark.promise("P-02", "P-12")
async def test_a_lease_is_not_expired_before_its_deadline(queue: QueueUnderTest) -> None:
    await queue.start()

    queue.clock.advance(LEASE_MS - 1)

    assert list(await queue.backend.expired(queue.name, ALL)) == []


@pytest.mark.promise("P-02", "P-34")
async def test_expired_leases_are_answered_oldest_first_and_no_more_than_asked(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c", "d")
    for _ in range(4):
        await queue.lease()
        queue.clock.advance(SECOND_MS)
    queue.fall_silent()

    some = await queue.backend.expired(queue.name, 3)

    assert [lease.ref.id for lease in some] == ["a", "b", "c"]
    assert list(await queue.backend.expired(queue.name, 0)) == []


@pytest.mark.promise("P-34")
async def test_looking_for_expired_leases_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.start()
    queue.fall_silent()
    before, told = await queue.record(), await queue.events()

    await queue.backend.expired(queue.name, ALL)

    assert await queue.record() == before
    assert await queue.events() == told


@pytest.mark.promise("P-02", "P-24")
async def test_an_expired_lease_is_answered_as_it_was_claimed(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()

    (found,) = await queue.backend.expired(queue.name, ALL)

    assert found == lease


@pytest.mark.promise("P-11")
async def test_a_renewal_moves_the_deadline_from_now(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.clock.advance(LEASE_MS // 2)

    assert await queue.renew(lease, lease_ms=LEASE_MS) is Renewal.HELD

    record = await queue.record()
    assert record.lease_until_ms == queue.clock() + LEASE_MS
    assert record.history[-1].renewed_ms == queue.clock()


@pytest.mark.promise("P-12", "P-11")
async def test_an_expired_lease_that_nobody_took_can_be_renewed(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()

    assert await queue.renew(lease) is Renewal.HELD
    assert list(await queue.backend.expired(queue.name, ALL)) == []
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("P-11", "P-34")
async def test_a_sweep_that_read_before_a_renewal_takes_nothing(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()
    (read,) = await queue.backend.expired(queue.name, ALL)
    await queue.renew(lease)

    assert await queue.settle(builders.stall(read)) is Settled.HELD
    assert (await queue.record()).stalls == 0


@pytest.mark.promise("P-11", "P-64")
async def test_a_renewal_leaves_counters_attempts_and_events_alone(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    told = await queue.events()

    await queue.renew(lease)

    record = await queue.record()
    assert (record.attempts, record.fence) == (1, lease.fence.number)
    assert await queue.events() == told


@pytest.mark.promise("P-23", "P-34")
async def test_of_two_sweeps_that_race_one_counts_a_stall(queue: QueueUnderTest, second: Backend) -> None:
    await queue.start()
    queue.fall_silent()
    (one,) = await queue.backend.expired(queue.name, ALL)
    (other,) = await second.expired(queue.name, ALL)

    answers = await asyncio.gather(
        queue.backend.settle(queue.name, [builders.stall(one)]),
        second.settle(queue.name, [builders.stall(other)]),
    )

    assert sorted(answer for (answer,) in answers) == [Settled.APPLIED, Settled.LOST]
    record = await queue.record()
    assert (record.stalls, record.state) == (1, State.WAITING)


@pytest.mark.promise("P-23", "B07", "A-14", "E-15")
async def test_one_stall_too_many_ends_the_job_as_stalled(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=2)
    for _ in range(3):
        await queue.stall_once(takes_suspect=True)

    record = await queue.record()

    assert (record.state, record.reason) == (State.FAILED, "stalled")
    assert (record.attempts, record.stalls, record.failures) == (3, 3, 0)
    assert (await queue.story())[-1] is EventKind.FAILED


@pytest.mark.promise("P-23", "E-15")
async def test_with_no_stalls_allowed_the_first_one_ends_the_job(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=0)

    await queue.stall_once()

    assert await queue.state() is State.FAILED


@pytest.mark.promise("P-23", "P-62")
async def test_each_stall_is_an_event_and_ends_its_attempt(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    await queue.stall_once()

    record = await queue.record()
    event = (await queue.events())[-1]

    assert (event.kind, event.state, event.attempt) == (EventKind.STALLED, State.WAITING, 1)
    assert (record.history[-1].outcome, record.history[-1].ended_ms) == ("stalled", queue.clock())


@pytest.mark.promise("P-34", "E-27", "E-28")
async def test_a_flood_of_due_and_overdue_jobs_does_not_hide_expired_leases(queue: QueueUnderTest) -> None:
    await queue.start("running")
    await queue.enqueue(*(f"due{number}" for number in range(100)), delay_ms=1)
    await queue.enqueue(*(f"old{number}" for number in range(100)), ttl_ms=1)
    queue.fall_silent()

    assert await queue.sweep() == [Settled.APPLIED]

    moved = await queue.backend.advance(queue.name, 10)
    assert (moved.promoted, moved.expired) == (10, 10)


@pytest.mark.promise("P-34", "E-27")
async def test_many_expired_leases_are_recovered_in_bounded_steps(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(250)))
    await queue.claim(250)
    queue.fall_silent()

    steps = 0
    while leases := await queue.backend.expired(queue.name, 100):
        assert len(leases) <= 100
        await queue.backend.settle(queue.name, [builders.stall(lease) for lease in leases])
        steps += 1

    assert steps == 3
    assert (await queue.counts()).waiting == 250


@pytest.mark.promise("P-63", "P-02")
async def test_a_checkpoint_is_handed_to_the_next_attempt(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.note(builders.checkpoint(lease, b"page 7"))
    queue.fall_silent()
    await queue.sweep()

    assert (await queue.lease(worker="B")).checkpoint == b"page 7"


@pytest.mark.promise("P-01", "P-05")
async def test_a_holder_that_returns_in_time_is_not_swept(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.settle(builders.complete(lease))
    queue.fall_silent()

    assert await queue.sweep() == []
    assert await queue.state() is State.COMPLETED


@pytest.mark.promise("P-02", "A-13")
async def test_a_claim_that_came_back_short_says_when_the_first_lease_can_end(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")
    await queue.lease()
    queue.clock.advance(SECOND_MS)

    full = await queue.claim(1)
    short = await queue.claim(1, request="short")
    queue.fall_silent()
    late = await queue.claim(1, request="late")

    assert full.next_lapse_in_ms is None
    assert (short.next_lapse_in_ms, late.next_lapse_in_ms) == (LEASE_MS - SECOND_MS, 0)


@pytest.mark.promise("P-02", "P-52")
async def test_a_paused_queue_still_says_when_the_first_lease_can_end(queue: QueueUnderTest) -> None:
    await queue.start()
    await queue.backend.pause(queue.name)

    assert (await queue.claim(1)).next_lapse_in_ms == LEASE_MS
