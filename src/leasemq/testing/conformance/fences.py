"""Fences: a stale holder is refused every write, and it leaves no trace but a bounded note."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import (
    REFUSED_LIMIT,
    Fence,
    Lease,
    Noted,
    Renewal,
    Settled,
    State,
)
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

RENEW = "renew"
WRITES = (RENEW, *builders.SETTLEMENTS, *builders.NOTES)
NOTED_AS = {  # how a refused write is named on the record
    "complete": "completed",
    "retry": "retried",
    "fail": "failed",
    "release": "released",
    "snooze": "snoozed",
    "acknowledge_cancel": "cancelled",
}


async def _write(queue: QueueUnderTest, lease: Lease, write: str) -> str:
    """Make one write under a lease; answers what became of it."""
    if write == RENEW:
        return await queue.renew(lease)
    if write in builders.NOTES:
        return await queue.note(builders.NOTES[write](lease))
    return await queue.settle(builders.SETTLEMENTS[write](lease))


async def _recovered(queue: QueueUnderTest) -> Lease:
    await queue.enqueue("j")
    return await queue.stall_once()


async def _taken_over(queue: QueueUnderTest) -> Lease:
    stale = await _recovered(queue)
    await queue.lease(worker="B")
    return stale


async def _ended_by_another(queue: QueueUnderTest) -> Lease:
    stale = await _recovered(queue)
    newer = await queue.lease(worker="B")
    await queue.settle(builders.complete(newer, b"by B"))
    return stale


async def _released(queue: QueueUnderTest) -> Lease:
    lease = await queue.start()
    await queue.settle(builders.release(lease))
    return lease


async def _dead_and_replayed(queue: QueueUnderTest) -> Lease:
    lease = await queue.die()
    await queue.replay()
    return lease


async def _ended_and_reused(queue: QueueUnderTest) -> Lease:
    lease = await queue.finish()
    await queue.enqueue("j", reuse=frozenset({State.COMPLETED}))
    return lease


async def _snoozed(queue: QueueUnderTest) -> Lease:
    lease = await queue.start()
    await queue.settle(builders.snooze(lease))
    return lease


Becomes = Callable[[QueueUnderTest], Awaitable[Lease]]
STALE: dict[str, Becomes] = {
    "recovered": _recovered,
    "taken over": _taken_over,
    "ended by another": _ended_by_another,
    "released": _released,
    "dead and replayed": _dead_and_replayed,
    "ended and reused": _ended_and_reused,
    "snoozed": _snoozed,
}


def _without_refusals(record: JobRecord) -> JobRecord:
    return replace(record, refused=(), refused_count=0)


@pytest.mark.promise("P-11", "B01", "E-17", "A-11")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("becomes", STALE.values(), ids=STALE.keys())
async def test_a_stale_holder_is_refused_every_write_and_changes_nothing(
    queue: QueueUnderTest, becomes: Becomes, write: str
) -> None:
    stale = await becomes(queue)
    before, told, owed = await queue.record(), await queue.events(), await _outbox(queue)

    answer = await _write(queue, stale, write)

    after = await queue.record()
    of_another_life = becomes is _ended_and_reused and write in builders.SETTLEMENTS
    assert answer == ("gone" if of_another_life else "lost")
    assert _without_refusals(after) == _without_refusals(before)
    assert await queue.events() == told
    assert await _outbox(queue) == owed


async def _outbox(queue: QueueUnderTest) -> list[object]:
    return list(await queue.backend.outbox(queue.name, 100))


@pytest.mark.promise("P-11", "P-64")
@pytest.mark.parametrize("write", WRITES)
async def test_a_refused_write_is_noted_on_the_job(queue: QueueUnderTest, write: str) -> None:
    stale = await _taken_over(queue)
    queue.clock.advance(7)

    await _write(queue, stale, write)

    record = await queue.record()
    (refused,) = record.refused
    assert (refused.at_ms, refused.fence) == (queue.clock(), stale.fence.number)
    assert (refused.write, refused.answer) == (NOTED_AS.get(write, write), Settled.LOST)
    assert record.refused_count == 1


@pytest.mark.promise("P-11", "P-64")
async def test_only_the_newest_refused_writes_are_kept_and_all_are_counted(queue: QueueUnderTest) -> None:
    stale = await _taken_over(queue)
    for _ in range(REFUSED_LIMIT + 5):
        queue.clock.advance(1)
        await queue.renew(stale)

    record = await queue.record()

    assert record.refused_count == REFUSED_LIMIT + 5
    assert len(record.refused) == REFUSED_LIMIT
    assert record.refused[-1].at_ms == queue.clock()
    assert record.refused[0].at_ms == queue.clock() - REFUSED_LIMIT + 1


@pytest.mark.promise("P-10", "P-11")
@pytest.mark.parametrize("write", WRITES)
async def test_the_right_number_with_another_nonce_is_refused(queue: QueueUnderTest, write: str) -> None:
    lease = await queue.start()
    forged = replace(lease, fence=Fence(number=lease.fence.number, nonce=builders.request_id()))

    answer = await _write(queue, forged, write)

    assert answer == "lost"
    assert await queue.state() is State.ACTIVE


@pytest.mark.promise("P-10", "P-11")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("off_by", [-1, 1])
async def test_the_right_nonce_with_another_number_is_refused(
    queue: QueueUnderTest, write: str, off_by: int
) -> None:
    lease = await queue.start()
    forged = replace(lease, fence=Fence(number=lease.fence.number + off_by, nonce=lease.fence.nonce))

    answer = await _write(queue, forged, write)

    assert answer == "lost"
    assert await queue.state() is State.ACTIVE


@pytest.mark.promise("P-11", "P-03")
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_about_a_removed_job_does_not_bring_it_back(queue: QueueUnderTest, write: str) -> None:
    lease = await queue.start()
    await queue.remove(force=True)

    answer = await _write(queue, lease, write)

    assert answer == ("gone" if write in builders.SETTLEMENTS else "lost")
    assert await queue.state() is None


@pytest.mark.promise("P-10", "P-11")
async def test_the_nonce_tells_lives_of_one_id_apart_where_the_numbers_are_equal(
    queue: QueueUnderTest,
) -> None:
    first = await queue.start()
    await queue.remove(force=True)
    second = await queue.start()
    assert first.fence.number == second.fence.number

    answer = await queue.settle(builders.complete(first, b"of the first life"))

    assert answer is Settled.LOST
    assert await queue.state() is State.ACTIVE
    assert await queue.settle(builders.complete(second)) is Settled.APPLIED


@pytest.mark.promise("P-11")
async def test_the_holder_may_write_as_long_as_it_is_the_newest(queue: QueueUnderTest) -> None:
    lease = await queue.start()

    assert await queue.renew(lease) is Renewal.HELD
    for make in builders.NOTES.values():
        assert await queue.note(make(lease)) is Noted.HELD
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED
    assert (await queue.record()).refused_count == 0


@pytest.mark.promise("P-12", "P-11")
@pytest.mark.parametrize("write", WRITES)
async def test_a_holder_past_its_deadline_that_nobody_replaced_is_still_the_holder(
    queue: QueueUnderTest, write: str
) -> None:
    lease = await queue.start()
    queue.fall_silent()

    assert await _write(queue, lease, write) in ("held", "applied")


@pytest.mark.promise("P-11", "P-22")
async def test_a_batch_refuses_only_what_is_stale(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    a, b, c = (await queue.claim(3)).leases
    queue.fall_silent()
    await queue.renew(a)
    await queue.renew(c)
    await queue.sweep()

    answers = await queue.backend.settle(queue.name, [builders.complete(lease) for lease in (a, b, c)])

    assert list(answers) == [Settled.APPLIED, Settled.LOST, Settled.APPLIED]
    assert [await queue.state(job_id) for job_id in "abc"] == [
        State.COMPLETED, State.WAITING, State.COMPLETED,
    ]  # fmt: skip


@pytest.mark.promise("P-11")
async def test_renewals_of_a_batch_are_answered_in_order(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    a, b, c = (await queue.claim(3)).leases
    await queue.settle(builders.complete(b))
    await queue.cancel("c")

    answers = await queue.renew_all([a, b, c])

    assert list(answers) == [Renewal.HELD, Renewal.LOST, Renewal.CANCEL_REQUESTED]
