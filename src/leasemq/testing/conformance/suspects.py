"""Suspects: a job whose next stall would be its last waits apart and runs alone."""

from __future__ import annotations

import pytest

from leasemq.protocol.model import Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


@pytest.mark.promise("P-24", "B07")
async def test_a_job_becomes_a_suspect_when_its_next_stall_would_be_its_last(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=2)
    await queue.stall_once()
    assert not (await queue.record()).suspect

    await queue.stall_once()

    assert (await queue.record()).suspect


@pytest.mark.promise("P-24")
async def test_a_job_that_may_not_stall_at_all_is_no_suspect(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=0)

    assert not (await queue.lease()).suspect


@pytest.mark.promise("P-24", "B07")
async def test_a_process_that_runs_something_is_not_given_a_suspect(queue: QueueUnderTest) -> None:
    await queue.make_suspect()
    await queue.enqueue("good1", "good2")

    claimed = await queue.claim(10)

    assert [lease.ref.id for lease in claimed.leases] == ["good1", "good2"]
    assert claimed.suspect_waits


@pytest.mark.promise("P-24", "B07")
async def test_a_process_that_runs_nothing_gets_a_suspect_alone_and_before_all_others(
    queue: QueueUnderTest,
) -> None:
    await queue.make_suspect()
    await queue.enqueue("good", priority=100)

    claimed = await queue.claim(10, takes_suspect=True)

    (lease,) = claimed.leases
    assert (lease.ref.id, lease.suspect) == ("j", True)
    assert await queue.state("good") is State.WAITING


@pytest.mark.promise("P-24", "P-32")
async def test_of_two_suspects_one_is_given_by_priority_then_age(queue: QueueUnderTest) -> None:
    for job_id, priority in (("old", 0), ("new", 0), ("high", 7)):
        await queue.make_suspect(job_id, priority=priority)

    order = []
    for _ in range(3):
        (lease,) = (await queue.claim(10, takes_suspect=True)).leases
        order.append(lease.ref.id)

    assert order == ["high", "old", "new"]


@pytest.mark.promise("P-24")
async def test_with_no_suspect_waiting_a_free_process_gets_ordinary_jobs(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")

    claimed = await queue.claim(2, takes_suspect=True)

    assert [lease.ref.id for lease in claimed.leases] == ["a", "b"]
    assert not claimed.suspect_waits


@pytest.mark.promise("P-24")
async def test_one_process_at_a_time_is_told_to_run_empty_for_a_suspect(queue: QueueUnderTest) -> None:
    await queue.make_suspect()

    told = [(await queue.claim(1, worker=worker)).suspect_waits for worker in ("A", "B", "A", "B")]

    assert told == [True, False, True, False]


@pytest.mark.promise("P-24")
async def test_a_process_that_does_not_come_for_the_suspect_is_replaced_after_one_lease(
    queue: QueueUnderTest,
) -> None:
    await queue.make_suspect()
    assert (await queue.claim(1, worker="A")).suspect_waits
    queue.clock.advance(LEASE_MS + 1)

    assert (await queue.claim(1, worker="B")).suspect_waits
    assert not (await queue.claim(1, worker="A")).suspect_waits


@pytest.mark.promise("P-24")
async def test_no_process_is_told_to_run_empty_once_the_suspect_is_taken(queue: QueueUnderTest) -> None:
    await queue.make_suspect()
    await queue.claim(1, worker="A")
    await queue.claim(1, worker="A", takes_suspect=True)

    assert not (await queue.claim(1, worker="B")).suspect_waits


@pytest.mark.promise("P-24", "P-20")
@pytest.mark.parametrize("write", ["retry", "release"])
async def test_a_suspect_that_did_not_stall_waits_apart_again(queue: QueueUnderTest, write: str) -> None:
    await queue.make_suspect()
    lease = await queue.lease(takes_suspect=True)
    await queue.settle(builders.SETTLEMENTS[write](lease))

    assert (await queue.claim(10)).leases == ()
    assert (await queue.lease(takes_suspect=True)).ref.id == "j"


@pytest.mark.promise("P-24", "P-31")
async def test_a_suspect_that_was_snoozed_comes_back_as_one(queue: QueueUnderTest) -> None:
    await queue.make_suspect()
    await queue.settle(builders.snooze(await queue.lease(takes_suspect=True), delay_ms=5))
    queue.clock.advance(5)
    await queue.backend.advance(queue.name, ALL)

    assert (await queue.claim(10)).leases == ()
    assert (await queue.lease(takes_suspect=True)).suspect


@pytest.mark.promise("P-24", "P-50")
async def test_a_suspect_can_complete_and_be_cancelled_like_any_job(queue: QueueUnderTest) -> None:
    await queue.make_suspect("ends")
    lease = await queue.lease(takes_suspect=True)
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED
    await queue.make_suspect("cancelled")
    await queue.cancel("cancelled")

    assert (await queue.claim(10, takes_suspect=True)).leases == ()


@pytest.mark.promise("P-24", "P-54")
async def test_a_replayed_dead_letter_is_no_suspect_any_more(queue: QueueUnderTest) -> None:
    await queue.make_suspect()
    await queue.stall_once(takes_suspect=True)
    await queue.replay()

    lease = await queue.lease()

    assert (lease.stalls, lease.suspect) == (0, False)


@pytest.mark.promise("P-24", "P-53", "P-32")
async def test_a_suspects_priority_can_be_changed_while_it_waits(queue: QueueUnderTest) -> None:
    await queue.make_suspect("old")
    await queue.make_suspect("new")

    await queue.backend.reprioritise(queue.name, ["new"], 9)

    assert (await queue.lease(takes_suspect=True)).ref.id == "new"


@pytest.mark.promise("P-24", "B07", "A-14")
@pytest.mark.parametrize("concurrency", [1, 10, 100])
async def test_a_poison_job_ends_alone_at_any_concurrency(queue: QueueUnderTest, concurrency: int) -> None:
    good = [f"good{number:02}" for number in range(20)]
    await queue.enqueue("poison", *good, max_stalls=2)

    for _ in range(100):
        leases = (await queue.claim(concurrency, takes_suspect=True)).leases
        if not leases:
            break
        if "poison" in {lease.ref.id for lease in leases}:
            queue.fall_silent()  # the process dies, and whatever ran beside the poison with it
            await queue.sweep()
        else:
            await queue.backend.settle(queue.name, [builders.complete(lease) for lease in leases])

    record = await queue.record("poison")
    assert (record.state, record.reason, record.attempts, record.stalls) == (State.FAILED, "stalled", 3, 3)
    assert {await queue.state(job_id) for job_id in good} == {State.COMPLETED}


@pytest.mark.promise("P-24", "P-52")
async def test_a_paused_queue_gives_no_suspect(queue: QueueUnderTest) -> None:
    await queue.make_suspect()
    await queue.backend.pause(queue.name)

    assert (await queue.claim(1, takes_suspect=True)).leases == ()
