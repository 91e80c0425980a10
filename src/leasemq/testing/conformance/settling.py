"""Settling: the order of the comparisons, and all that becomes true in the one step."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import DAY_MS, HISTORY_LIMIT, Keep, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import SECOND_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest


@pytest.mark.promise("P-01", "P-05")
async def test_a_completion_stores_result_end_and_retention_in_one_step(queue: QueueUnderTest) -> None:
    lease = await queue.start(keep=Keep(result_ms=1_000, record_ms=2_000))
    queue.clock.advance(5)

    assert await queue.settle(builders.complete(lease, b"42")) is Settled.APPLIED

    record = await queue.record()
    assert (record.state, record.result, record.error) == (State.COMPLETED, b"42", None)
    assert record.ended_ms == queue.clock()
    assert record.keep_until_ms == queue.clock() + 2_000
    assert record.result_until_ms == queue.clock() + 1_000
    assert (record.lease_until_ms, record.failures, record.stalls) == (None, 0, 0)
    assert (await queue.story())[-1] is EventKind.COMPLETED


@pytest.mark.promise("P-21", "P-20")
async def test_a_failure_is_kept_as_a_dead_letter_with_payload_error_and_attempts(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start()

    assert await queue.settle(builders.fail(lease)) is Settled.APPLIED

    record = await queue.record()
    assert (record.state, record.error, record.reason) == (State.FAILED, b"boom", "dead")
    assert (record.failures, record.stalls, record.attempts) == (1, 0, 1)
    assert (record.payload, record.result) == (builders.PAYLOAD, None)
    assert record.keep_until_ms == queue.clock() + 30 * DAY_MS
    assert (record.history[-1].outcome, record.history[-1].error) == ("failed", b"boom")


@pytest.mark.promise("P-20", "P-22", "A-9")
async def test_a_retry_counts_a_failure_and_comes_due_after_its_delay(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    await queue.settle(builders.retry(lease, delay_ms=4 * SECOND_MS))

    record = await queue.record()
    assert (record.state, record.failures, record.stalls) == (State.SCHEDULED, 1, 0)
    assert record.due_ms == queue.clock() + 4 * SECOND_MS
    assert (record.ended_ms, record.lease_until_ms, record.error) == (None, None, b"boom")
    assert (await queue.story())[-1] is EventKind.RETRIED


@pytest.mark.promise("P-20", "A-9")
async def test_a_retry_without_delay_waits_at_once(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.start()))

    again = await queue.lease(worker="B")

    assert (again.attempts, again.failures, again.stalls) == (2, 1, 0)


@pytest.mark.promise("P-81", "E-22")
async def test_a_release_waits_at_once_and_spends_no_budget(queue: QueueUnderTest) -> None:
    await queue.settle(builders.release(await queue.start()))

    again = await queue.lease(worker="B")

    assert (again.attempts, again.failures, again.stalls) == (2, 0, 0)
    assert EventKind.RELEASED in await queue.story()


@pytest.mark.promise("P-20")
async def test_a_snooze_comes_due_later_and_spends_no_budget(queue: QueueUnderTest) -> None:
    await queue.settle(builders.snooze(await queue.start(), delay_ms=SECOND_MS))

    record = await queue.record()

    assert (record.state, record.due_ms) == (State.SCHEDULED, queue.clock() + SECOND_MS)
    assert (record.attempts, record.failures, record.stalls) == (1, 0, 0)
    assert (await queue.story())[-1] is EventKind.SNOOZED


@pytest.mark.promise("P-23", "P-20", "E-14")
async def test_three_counters_are_never_mixed(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=9)
    await queue.settle(builders.retry(await queue.lease()))
    await queue.settle(builders.release(await queue.lease()))
    await queue.stall_once()
    await queue.settle(builders.snooze(await queue.lease(), delay_ms=0))
    await queue.settle(builders.retry(await queue.lease()))
    await queue.stall_once()

    record = await queue.record()

    assert (record.attempts, record.failures, record.stalls) == (6, 2, 2)


@pytest.mark.promise("P-03")
async def test_a_settlement_without_a_record_is_gone(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.remove(force=True)

    assert await queue.settle(builders.complete(lease)) is Settled.GONE


@pytest.mark.promise("P-03", "P-11")
async def test_a_repeat_is_recognised_before_the_fence_is_looked_at(queue: QueueUnderTest) -> None:
    settlement = builders.retry(await queue.start())
    await queue.settle(settlement)
    await queue.lease(worker="B")

    assert await queue.settle(settlement) is Settled.REPLAYED
    assert (await queue.record()).refused_count == 0


@pytest.mark.promise("P-11", "P-34")
async def test_a_sweep_that_comes_late_has_lost_even_while_a_newer_lease_runs(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()
    late = builders.stall(lease)
    await queue.sweep()
    await queue.lease(worker="B")

    assert await queue.settle(late) is Settled.LOST
    assert await queue.state() is State.ACTIVE


@pytest.mark.promise("P-23", "P-34")
async def test_a_sweep_that_lost_a_race_is_not_noted_as_a_refused_write(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    queue.fall_silent()
    late = builders.stall(lease)
    await queue.sweep()

    assert await queue.settle(late) is Settled.LOST
    assert (await queue.record()).refused_count == 0


@pytest.mark.promise("P-02", "P-23")
async def test_a_sweep_does_not_take_a_lease_that_still_runs(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    before = await queue.record()

    assert await queue.settle(builders.stall(lease)) is Settled.HELD
    assert await queue.record() == before


@pytest.mark.promise("P-23", "P-50")
async def test_a_running_lease_is_held_before_its_cancellation_is_looked_at(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.cancel()

    assert await queue.settle(builders.stall(lease)) is Settled.HELD
    assert await queue.settle(builders.stall(lease, cancel_requested=True)) is Settled.HELD


@pytest.mark.promise("P-50", "P-11")
@pytest.mark.parametrize("write", builders.SETTLEMENTS)
async def test_a_settlement_that_has_not_seen_the_cancellation_writes_nothing(
    queue: QueueUnderTest, write: str
) -> None:
    lease = await queue.start()
    await queue.cancel()
    before = await queue.record()
    blind = builders.SETTLEMENTS[write](lease)

    answer = await queue.settle(blind)

    if write == "acknowledge_cancel":
        assert answer is Settled.APPLIED
        assert await queue.state() is State.CANCELLED
    else:
        assert answer is Settled.CANCEL_REQUESTED
        assert await queue.record() == before


@pytest.mark.promise("P-50", "P-03")
async def test_a_refused_settlement_may_be_followed_by_one_that_has_seen_the_cancellation(
    queue: QueueUnderTest,
) -> None:
    lease = await queue.start()
    await queue.cancel()
    await queue.settle(builders.complete(lease))

    seen = builders.complete(lease, cancel_requested=True)

    assert await queue.settle(seen) is Settled.APPLIED
    record = await queue.record()
    assert (record.state, record.result) == (State.CANCELLED, None)


@pytest.mark.promise("P-05")
@pytest.mark.parametrize("end", ["complete", "fail", "acknowledge_cancel"])
@pytest.mark.parametrize("write", builders.SETTLEMENTS)
async def test_an_end_never_changes_again(queue: QueueUnderTest, end: str, write: str) -> None:
    lease = await queue.start()
    await queue.settle(builders.SETTLEMENTS[end](lease))
    before = await queue.record()

    answer = await queue.settle(builders.SETTLEMENTS[write](lease))

    after = await queue.record()
    assert answer is Settled.LOST
    assert (after.state, after.result, after.history) == (before.state, before.result, before.history)
    assert (after.ended_ms, after.failures) == (before.ended_ms, before.failures)


@pytest.mark.promise("P-21", "P-64", "E-12")
async def test_the_history_keeps_the_newest_attempts_and_the_counters_go_on(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    for _ in range(HISTORY_LIMIT + 20):
        await queue.settle(builders.retry(await queue.lease()))

    record = await queue.record()

    assert (record.attempts, record.failures) == (HISTORY_LIMIT + 20, HISTORY_LIMIT + 20)
    assert [attempt.number for attempt in record.history] == list(range(21, HISTORY_LIMIT + 21))


@pytest.mark.promise("P-22", "P-20")
async def test_the_last_error_stays_until_the_job_completes_well(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.start()))
    await queue.settle(builders.release(await queue.lease()))

    assert (await queue.record()).error == b"boom"


@pytest.mark.promise("P-80", "P-03")
async def test_an_exchange_settles_first_and_then_claims(queue: QueueUnderTest) -> None:
    await queue.needs("exchange")
    lease = await queue.start("a")
    await queue.enqueue("b")
    settlements = [builders.retry(lease)]

    settled, claimed = await queue.backend.exchange(
        queue.name, settlements, 5, builders.LEASE_MS, builders.claimant()
    )

    assert list(settled) == [Settled.APPLIED]
    assert [lease.ref.id for lease in claimed.leases] == ["b", "a"]
    assert claimed.leases[1].failures == 1


@pytest.mark.promise("P-03")
async def test_an_exchange_repeated_after_a_lost_reply_has_no_second_effect(queue: QueueUnderTest) -> None:
    await queue.needs("exchange")
    settlements = [builders.complete(await queue.start("a"))]
    await queue.enqueue("b", "c")
    who = builders.claimant()

    _, first = await queue.backend.exchange(queue.name, settlements, 1, builders.LEASE_MS, who)
    settled, again = await queue.backend.exchange(queue.name, settlements, 1, builders.LEASE_MS, who)

    assert list(settled) == [Settled.REPLAYED]
    assert again.leases == first.leases
    assert (await queue.counts()).active == 1
