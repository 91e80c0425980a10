"""Time to live and delay: what is too old to start, and what is not due yet."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import DAY_MS, Keep, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

FAR_MS = 3_652 * DAY_MS


@pytest.mark.promise("P-30", "A-10")
async def test_a_claim_never_hands_out_a_job_past_its_ttl(queue: QueueUnderTest) -> None:
    await queue.enqueue("old1", "old2", "old3", ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS + 1)
    await queue.enqueue("fresh", ttl_ms=SECOND_MS)

    taken = []
    for _ in range(4):
        taken += await queue.claim_ids(1)

    assert taken == ["fresh"]
    assert [await queue.state(job_id) for job_id in ("old1", "old2", "old3")] == [State.EXPIRED] * 3


@pytest.mark.promise("P-30", "P-34")
async def test_a_claim_expires_at_most_as_many_as_it_asks_for(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(10)), ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS + 1)

    await queue.claim(3)

    assert (await queue.counts()).expired <= 3


@pytest.mark.promise("P-30")
async def test_a_claim_of_none_expires_none(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS + 1)

    await queue.claim(0)

    assert await queue.state() is State.WAITING


@pytest.mark.promise("P-30", "A-10", "P-62")
async def test_an_expired_job_is_a_dead_letter(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS, keep=Keep(dead_ms=HOUR_MS))
    queue.clock.advance(SECOND_MS + 1)

    moved = await queue.backend.advance(queue.name, ALL)

    record = await queue.record()
    assert moved.expired == 1
    assert (record.state, record.ended_ms) == (State.EXPIRED, queue.clock())
    assert record.keep_until_ms == queue.clock() + HOUR_MS
    assert await queue.story() == [EventKind.ENQUEUED, EventKind.EXPIRED]


@pytest.mark.promise("P-30")
async def test_a_job_within_its_ttl_is_not_expired(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS - 1)

    assert (await queue.backend.advance(queue.name, ALL)).expired == 0
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-30")
async def test_a_ttl_does_not_end_a_job_that_has_started(queue: QueueUnderTest) -> None:
    lease = await queue.start(ttl_ms=SECOND_MS)
    queue.clock.advance(2 * SECOND_MS)

    await queue.backend.advance(queue.name, ALL)

    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("P-30")
async def test_a_retry_that_comes_due_after_the_ttl_expires(queue: QueueUnderTest) -> None:
    lease = await queue.start(ttl_ms=SECOND_MS)
    await queue.settle(builders.retry(lease, delay_ms=2 * SECOND_MS))
    queue.clock.advance(2 * SECOND_MS + 1)

    await queue.backend.advance(queue.name, ALL)

    record = await queue.record()
    assert (record.state, record.failures) == (State.EXPIRED, 1)


@pytest.mark.promise("P-30")
async def test_a_job_released_after_its_ttl_expires_instead_of_starting_again(queue: QueueUnderTest) -> None:
    lease = await queue.start(ttl_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS + 1)
    await queue.settle(builders.release(lease))

    assert await queue.claim_ids() == []
    assert await queue.state() is State.EXPIRED


@pytest.mark.promise("P-30", "P-110")
@pytest.mark.parametrize("state", [State.SCHEDULED, State.BLOCKED])
async def test_what_has_not_started_expires_wherever_it_stands(queue: QueueUnderTest, state: State) -> None:
    if state is State.BLOCKED:
        await queue.put(builders.with_parent("j", "p", ttl_ms=SECOND_MS))
    else:
        await queue.enqueue("j", ttl_ms=SECOND_MS, delay_ms=HOUR_MS)
    queue.clock.advance(SECOND_MS + 1)

    await queue.backend.advance(queue.name, ALL)

    assert await queue.state() is State.EXPIRED


@pytest.mark.promise("P-30", "P-54")
async def test_a_replay_gives_a_fresh_ttl(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS)
    queue.clock.advance(HOUR_MS)
    await queue.backend.advance(queue.name, ALL)

    await queue.replay()

    assert (await queue.record()).expires_ms == queue.clock() + SECOND_MS
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-31", "A-8", "E-10")
async def test_a_delayed_job_is_not_claimed_before_it_is_due(queue: QueueUnderTest) -> None:
    (answer,) = await queue.enqueue("j", delay_ms=5 * SECOND_MS)
    assert answer.state is State.SCHEDULED
    queue.clock.advance(5 * SECOND_MS - 1)

    moved = await queue.backend.advance(queue.name, ALL)

    assert (moved.promoted, moved.next_due_in_ms) == (0, 1)
    assert await queue.claim_ids() == []


@pytest.mark.promise("P-31", "A-8")
async def test_a_delayed_job_waits_once_its_time_has_come(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=5 * SECOND_MS)
    queue.clock.advance(5 * SECOND_MS)

    moved = await queue.backend.advance(queue.name, ALL)

    assert (moved.promoted, moved.next_due_in_ms) == (1, None)
    assert await queue.story() == [EventKind.ENQUEUED, EventKind.PROMOTED]
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-31", "P-34")
async def test_jobs_become_due_in_bounded_steps(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(25)), delay_ms=1)
    queue.clock.advance(1)

    steps = [(await queue.backend.advance(queue.name, 10)).promoted for _ in range(4)]

    assert steps == [10, 10, 5, 0]


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize("delay_ms", [4_294_967_295, 4_294_967_296, 60 * DAY_MS, FAR_MS])
async def test_very_long_delays_are_kept_to_the_millisecond(queue: QueueUnderTest, delay_ms: int) -> None:
    await queue.enqueue("j", delay_ms=delay_ms)
    assert (await queue.record()).due_ms == queue.clock() + delay_ms
    queue.clock.advance(delay_ms - 1)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.state() is State.SCHEDULED
    queue.clock.advance(1)

    await queue.backend.advance(queue.name, ALL)

    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-31", "B36")
async def test_a_due_instant_in_the_past_means_now(queue: QueueUnderTest) -> None:
    (answer,) = await queue.enqueue("j", due_at_ms=queue.clock() - HOUR_MS)

    assert answer.state is State.WAITING
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-31")
async def test_a_due_instant_wins_over_a_delay(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", due_at_ms=queue.clock() + SECOND_MS, delay_ms=HOUR_MS)

    assert (await queue.record()).due_ms == queue.clock() + SECOND_MS


@pytest.mark.promise("P-31", "P-52")
async def test_delayed_jobs_become_due_while_the_queue_is_paused(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=SECOND_MS)
    await queue.backend.pause(queue.name)
    queue.clock.advance(SECOND_MS)

    await queue.backend.advance(queue.name, ALL)

    assert await queue.state() is State.WAITING


@pytest.mark.promise("P-31", "P-20")
async def test_a_retry_with_a_delay_is_not_claimed_early(queue: QueueUnderTest) -> None:
    await queue.settle(builders.retry(await queue.start(), delay_ms=SECOND_MS))

    queue.clock.advance(SECOND_MS - 1)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == []

    queue.clock.advance(1)
    await queue.backend.advance(queue.name, ALL)
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-30", "P-31")
async def test_advancing_an_empty_queue_moves_nothing(queue: QueueUnderTest) -> None:
    moved = await queue.backend.advance(queue.name, ALL)

    assert (moved.promoted, moved.expired, moved.next_due_in_ms) == (0, 0, None)
