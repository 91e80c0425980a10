"""Cancelling: three answers, and one outcome for a job that was cancelled while it ran."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import CancelAnswer, EventKind
from leasemq.protocol.model import Keep, Noted, Renewal, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-50", "A-21")
@pytest.mark.parametrize("state", [State.SCHEDULED, State.WAITING, State.BLOCKED])
async def test_a_job_that_has_not_started_is_cancelled_at_once_and_never_starts(
    queue: QueueUnderTest, state: State
) -> None:
    parents = builders.with_parent("j", "p").parents if state is State.BLOCKED else ()
    delay_ms = 1 if state is State.SCHEDULED else 0
    await queue.enqueue("j", parents=parents, delay_ms=delay_ms, keep=Keep(record_ms=HOUR_MS))

    assert await queue.cancel() is CancelAnswer.CANCELLED

    queue.clock.advance(1)
    await queue.backend.advance(queue.name, ALL)
    record = await queue.record()
    assert await queue.claim_ids() == []
    assert (record.state, record.attempts) == (State.CANCELLED, 0)
    assert record.keep_until_ms == queue.clock() - 1 + HOUR_MS
    assert (await queue.story())[-1] is EventKind.CANCELLED


@pytest.mark.promise("P-50", "P-62")
async def test_cancelling_a_running_job_is_recorded_and_it_goes_on(queue: QueueUnderTest) -> None:
    await queue.start()

    assert await queue.cancel() is CancelAnswer.CANCELLING

    record = await queue.record()
    assert (record.state, record.cancel_requested) == (State.ACTIVE, True)
    assert (await queue.story())[-1] is EventKind.CANCEL_REQUESTED


@pytest.mark.promise("P-50", "A-21")
@pytest.mark.parametrize("end", ["complete", "fail", "acknowledge_cancel"])
async def test_an_ended_job_is_already_finished_and_stays_as_it_is(queue: QueueUnderTest, end: str) -> None:
    await queue.settle(builders.SETTLEMENTS[end](await queue.start()))
    before = await queue.record()

    assert await queue.cancel() is CancelAnswer.FINISHED
    assert await queue.record() == before


@pytest.mark.promise("P-50", "A-21")
async def test_an_unknown_job_is_not_found_and_leaves_no_mark(queue: QueueUnderTest) -> None:
    assert await queue.cancel("nobody") is CancelAnswer.NOT_FOUND

    (answer,) = await queue.enqueue("nobody")

    assert answer.created
    assert await queue.claim_ids() == ["nobody"]


@pytest.mark.promise("P-51")
async def test_the_holder_learns_of_a_cancellation_at_its_next_renewal(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.cancel()
    queue.clock.advance(1_000)

    assert await queue.renew(lease) is Renewal.CANCEL_REQUESTED
    assert (await queue.record()).lease_until_ms == lease.lease_until_ms + 1_000


@pytest.mark.promise("P-51", "P-03")
async def test_a_repeated_claim_shows_a_cancellation_that_came_in_between(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    request = builders.request_id()
    await queue.claim(request=request)
    await queue.cancel()

    (lease,) = (await queue.claim(request=request)).leases

    assert lease.cancel_requested


@pytest.mark.promise("P-50")
async def test_a_cancelled_job_may_still_report_until_its_holder_stops(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.cancel()

    assert await queue.note(builders.progress(lease)) is Noted.HELD
    assert await queue.settle(builders.acknowledge_cancel(lease)) is Settled.APPLIED


@pytest.mark.promise("P-50", "P-51")
async def test_a_silent_holders_cancelled_job_ends_cancelled_by_the_sweep(queue: QueueUnderTest) -> None:
    await queue.start()
    await queue.cancel()
    queue.fall_silent()

    assert await queue.sweep() == [Settled.APPLIED]

    record = await queue.record()
    assert (record.state, record.stalls, record.failures) == (State.CANCELLED, 0, 0)
    assert record.history[-1].outcome == "cancelled"


@pytest.mark.promise("P-50")
async def test_the_sweep_sees_a_cancellation_recorded_before_it_read(queue: QueueUnderTest) -> None:
    await queue.start()
    await queue.cancel()
    queue.fall_silent()

    (lease,) = await queue.backend.expired(queue.name, ALL)

    assert lease.cancel_requested


@pytest.mark.promise("P-50", "P-23")
async def test_a_sweep_that_has_not_seen_the_cancellation_settles_nothing(queue: QueueUnderTest) -> None:
    await queue.start()
    queue.fall_silent()
    (lease,) = await queue.backend.expired(queue.name, ALL)
    await queue.cancel()

    assert await queue.settle(builders.stall(lease)) is Settled.CANCEL_REQUESTED
    assert await queue.settle(builders.stall(lease, cancel_requested=True)) is Settled.APPLIED
    assert await queue.state() is State.CANCELLED


@pytest.mark.promise("P-50")
async def test_a_batch_of_cancellations_is_answered_in_order(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.start("running")
    await queue.enqueue("waiting")

    answers = await queue.backend.cancel(queue.name, ["running", "nobody", "waiting", "ended"])

    assert list(answers) == [
        CancelAnswer.CANCELLING, CancelAnswer.NOT_FOUND, CancelAnswer.CANCELLED, CancelAnswer.FINISHED,
    ]  # fmt: skip


@pytest.mark.promise("P-50", "E-29")
async def test_cancelling_with_retention_zero_leaves_no_record(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", keep=Keep(record_ms=0))

    assert await queue.cancel() is CancelAnswer.CANCELLED
    assert await queue.state() is None


@pytest.mark.promise("P-50", "P-32")
async def test_a_cancelled_job_does_not_disturb_the_order_of_the_others(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    await queue.cancel("b")

    assert await queue.claim_ids() == ["a", "c"]


@pytest.mark.promise("P-44", "P-50")
async def test_a_generation_that_is_no_more_cannot_be_cancelled(queue: QueueUnderTest) -> None:
    await queue.finish()
    await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))

    (old,) = await queue.backend.cancel(queue.name, ["j"], 1)
    assert old is CancelAnswer.NOT_FOUND
    assert await queue.state() is State.WAITING

    (new,) = await queue.backend.cancel(queue.name, ["j"], 2)
    assert new is CancelAnswer.CANCELLED
