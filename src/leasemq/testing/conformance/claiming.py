"""Claims: what is handed out, to whom, and what a claim says when it brings little."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.backend import Backend
from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import FENCE_LIMIT, NothingClaimed, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-80")
async def test_a_claim_takes_no_more_than_it_asks_for(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")

    claimed = await queue.claim(2)

    assert [lease.ref.id for lease in claimed.leases] == ["a", "b"]
    assert claimed.reason is None
    assert await queue.state("c") is State.WAITING


@pytest.mark.promise("P-80")
async def test_a_claim_that_brings_less_says_that_the_queue_is_empty(queue: QueueUnderTest) -> None:
    await queue.enqueue("a")

    claimed = await queue.claim(5)
    nothing = await queue.claim(5)

    assert len(claimed.leases) == 1
    assert claimed.reason is nothing.reason is NothingClaimed.EMPTY
    assert nothing.leases == ()


@pytest.mark.promise("P-80")
async def test_a_claim_of_an_unknown_queue_is_empty_and_makes_no_queue(backend: Backend) -> None:
    claimed = await backend.claim("nowhere", 1, LEASE_MS, builders.claimant())

    assert (claimed.leases, claimed.reason) == ((), NothingClaimed.EMPTY)
    assert list(await backend.queues()) == []


@pytest.mark.promise("P-80", "P-83")
async def test_a_claim_of_none_takes_nothing_and_answers_when_the_next_is_due(queue: QueueUnderTest) -> None:
    await queue.enqueue("ready")
    await queue.enqueue("later", delay_ms=SECOND_MS)

    claimed = await queue.claim(0, takes_suspect=True)

    assert (claimed.leases, claimed.next_due_in_ms) == ((), SECOND_MS)
    assert await queue.state("ready") is State.WAITING


@pytest.mark.promise("P-83", "P-31")
async def test_a_claim_answers_how_long_until_the_next_job_is_due(queue: QueueUnderTest) -> None:
    await queue.enqueue("late", delay_ms=9 * SECOND_MS)
    await queue.enqueue("soon", delay_ms=4 * SECOND_MS)
    queue.clock.advance(SECOND_MS)

    soon = await queue.claim()
    await queue.cancel("soon")
    late = await queue.claim()
    await queue.cancel("late")
    never = await queue.claim()

    assert (soon.next_due_in_ms, late.next_due_in_ms) == (3 * SECOND_MS, 8 * SECOND_MS)
    assert never.next_due_in_ms is None


@pytest.mark.promise("P-10", "P-01")
async def test_no_two_claims_at_once_take_the_same_job(queue: QueueUnderTest, second: Backend) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(40)))
    views = [queue.backend, second]

    claims = await asyncio.gather(
        *(
            views[number % 2].claim(queue.name, 3, LEASE_MS, builders.claimant(f"w{number}"))
            for number in range(20)
        )
    )

    taken = [lease.ref.id for claimed in claims for lease in claimed.leases]
    assert len(taken) == len(set(taken)) == 40


@pytest.mark.promise("P-10")
async def test_an_active_job_is_not_handed_out_again_while_it_runs_or_after_its_deadline(
    queue: QueueUnderTest,
) -> None:
    await queue.start()

    running = await queue.claim(worker="B")
    queue.fall_silent()
    overdue = await queue.claim(worker="B")

    assert running.leases == overdue.leases == ()


@pytest.mark.promise("P-10", "E-16")
async def test_each_claim_gives_a_larger_fence_and_its_own_nonce(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    fences = []
    for _ in range(5):
        request = builders.request_id()
        (lease,) = (await queue.claim(request=request)).leases
        assert lease.fence.nonce == request
        fences.append(lease.fence.number)
        await queue.settle(builders.release(lease))

    assert fences == sorted(set(fences))
    assert fences[0] == queue.clock() * 1_000
    assert fences[-1] == fences[0] + 4 < FENCE_LIMIT


@pytest.mark.promise("P-10")
async def test_the_fence_follows_the_clock_when_that_is_ahead(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    first = await queue.lease()
    await queue.settle(builders.release(first))
    queue.clock.advance(SECOND_MS)

    second = await queue.lease()

    assert second.fence.number == first.fence.number + SECOND_MS * 1_000


@pytest.mark.promise("P-10")
async def test_the_fence_changes_at_no_write_but_a_claim(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    await queue.renew(lease)
    await queue.note(builders.progress(lease))
    await queue.cancel()
    assert (await queue.record()).fence == lease.fence.number

    await queue.settle(builders.acknowledge_cancel(lease))
    await queue.replay()

    assert (await queue.record()).fence == lease.fence.number


@pytest.mark.promise("P-10")
async def test_one_claim_gives_every_job_the_same_nonce(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")

    claimed = await queue.claim(3)

    assert len({lease.fence.nonce for lease in claimed.leases}) == 1


@pytest.mark.promise("P-03")
async def test_a_worker_finds_its_own_leases_again_oldest_first(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c", "d")
    first = await queue.claim(2)
    queue.clock.advance(SECOND_MS)
    third = await queue.claim(1)
    await queue.claim(1, worker="B")

    mine = await queue.backend.claimed_by(queue.name, "A-1")

    assert tuple(mine) == first.leases + third.leases


@pytest.mark.promise("P-03")
async def test_a_worker_no_longer_finds_what_it_has_settled_or_lost(queue: QueueUnderTest) -> None:
    await queue.enqueue("ended", "lost")
    ended, _ = (await queue.claim(2)).leases
    await queue.settle(builders.complete(ended))
    queue.fall_silent()
    await queue.sweep()

    assert list(await queue.backend.claimed_by(queue.name, "A-1")) == []


@pytest.mark.promise("P-03")
async def test_another_life_of_the_same_worker_does_not_find_its_leases(queue: QueueUnderTest) -> None:
    await queue.start()

    assert list(await queue.backend.claimed_by(queue.name, "A-2")) == []


@pytest.mark.promise("P-64", "P-62")
async def test_a_claim_shows_as_an_attempt_and_as_an_event(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    record = await queue.record()
    (attempt,) = record.history
    event = (await queue.events())[-1]

    assert (record.attempts, record.state, record.fence) == (1, State.ACTIVE, lease.fence.number)
    assert record.lease_until_ms == queue.clock() + LEASE_MS
    assert (attempt.number, attempt.worker, attempt.incarnation) == (1, "A", "A-1")
    assert (attempt.fence, attempt.claimed_ms, attempt.renewed_ms) == (
        lease.fence.number, queue.clock(), queue.clock(),
    )  # fmt: skip
    assert (attempt.ended_ms, attempt.outcome, attempt.replay) == (None, None, False)
    assert (event.kind, event.state, event.attempt) == (EventKind.CLAIMED, State.ACTIVE, 1)


@pytest.mark.promise("P-02")
async def test_a_lease_lasts_as_long_as_the_claim_asks(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")

    (lease,) = (await queue.claim(lease_ms=2_000)).leases

    queue.clock.advance(1_999)
    assert list(await queue.backend.expired(queue.name, ALL)) == []
    queue.clock.advance(2)
    assert [found.ref for found in await queue.backend.expired(queue.name, ALL)] == [lease.ref]


@pytest.mark.promise("P-64")
async def test_attempts_are_numbered_and_each_tells_how_it_ended(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    retried = await queue.lease(worker="A")
    await queue.settle(builders.retry(retried))
    queue.clock.advance(SECOND_MS)
    completed = await queue.lease(worker="B")
    queue.clock.advance(5)
    assert await queue.settle(builders.complete(completed)) is Settled.APPLIED

    first, last = (await queue.record()).history

    assert (first.number, first.worker, first.outcome, first.error) == (1, "A", "retried", b"boom")
    assert (last.number, last.worker, last.outcome, last.error) == (2, "B", "completed", None)
    assert last.ended_ms == last.claimed_ms + 5


@pytest.mark.promise("P-18")
@pytest.mark.parametrize("lease_ms", [0, -5, True, 2**63])
async def test_a_lease_that_is_no_length_of_time_is_refused(queue: QueueUnderTest, lease_ms: int) -> None:
    await queue.enqueue("j")

    with pytest.raises(InvalidSetting, match="lease_ms"):
        await queue.claim(lease_ms=lease_ms)

    assert await queue.state() is State.WAITING
