"""Results that outlive their record: kept in the step that takes it, read by life, gone by their clock."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import Change, Slip
from leasemq.protocol.model import Keep, Lease, Ref, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

LONG_RESULT = Keep(result_ms=3 * HOUR_MS, record_ms=1 * HOUR_MS)
ONLY_RESULT = Keep(result_ms=3 * HOUR_MS, record_ms=0)
REUSE = frozenset({State.COMPLETED})


async def slip(queue: QueueUnderTest, job_id: str = "j", generation: int = 1) -> Slip | None:
    """The slip of one life of an id."""
    (found,) = await queue.backend.slips(queue.name, [(job_id, generation)])
    return found


async def finish_with(queue: QueueUnderTest, result: bytes, job_id: str = "j", **fields: object) -> Lease:
    """Enqueue one job into an otherwise idle queue, and complete it with this result."""
    lease = await queue.start(job_id, **fields)
    assert await queue.settle(builders.complete(lease, result)) is Settled.APPLIED
    return lease


@pytest.mark.promise("P-60", "E-29", "E-30")
async def test_a_result_outlives_a_record_that_is_not_kept_at_all(queue: QueueUnderTest) -> None:
    await queue.finish(keep=ONLY_RESULT)
    ended_ms = queue.clock()

    assert await queue.state() is None
    assert await slip(queue) == Slip(
        ref=Ref(queue=queue.name, id="j", generation=1),
        task="tests.send",
        result=b"42",
        until_ms=ended_ms + 3 * HOUR_MS,
    )
    counts = await queue.counts()
    assert (counts.stored, counts.removed) == (0, 1)


@pytest.mark.promise("P-60", "E-29", "E-30")
async def test_a_result_outlives_a_record_that_is_kept_for_less(queue: QueueUnderTest) -> None:
    await queue.finish(keep=LONG_RESULT)
    queue.clock.advance(1 * HOUR_MS - 1)
    await queue.backend.prune(queue.name, ALL)
    assert (await queue.record()).result == b"42"
    assert await slip(queue) is None
    queue.clock.advance(1)

    await queue.backend.prune(queue.name, ALL)

    assert await queue.state() is None
    found = await slip(queue)
    assert found is not None
    assert found.result == b"42"


@pytest.mark.promise("P-60", "E-30")
@pytest.mark.parametrize("keep", [LONG_RESULT, ONLY_RESULT], ids=["shorter record", "no record"])
async def test_a_slip_goes_by_the_results_own_clock_and_not_earlier(
    queue: QueueUnderTest, keep: Keep
) -> None:
    await queue.finish(keep=keep)
    queue.clock.advance(3 * HOUR_MS - 1)
    await queue.backend.prune(queue.name, ALL)
    assert await slip(queue) is not None
    queue.clock.advance(1)

    assert await slip(queue) is None

    assert await queue.backend.prune(queue.name, ALL) == 1
    assert await queue.backend.prune(queue.name, ALL) == 0


@pytest.mark.promise("P-44", "E-8", "E-30")
async def test_a_life_that_makes_way_for_the_next_leaves_its_result(queue: QueueUnderTest) -> None:
    await finish_with(queue, b"first", keep=Keep(result_ms=HOUR_MS))
    await finish_with(queue, b"second", reuse=REUSE)
    await queue.enqueue("j", reuse=REUSE)

    first, second, third, newest = await queue.backend.slips(
        queue.name, [("j", 1), ("j", 2), ("j", 3), ("j", 0)]
    )

    assert (await queue.record()).ref.generation == 3
    assert third is None
    assert first is not None
    assert (first.ref.generation, first.result) == (1, b"first")
    assert second is not None
    assert (second.ref.generation, second.result) == (2, b"second")
    assert newest == second


@pytest.mark.promise("P-44", "E-7", "E-8")
async def test_an_id_whose_record_is_gone_goes_on_after_the_life_whose_result_is_kept(
    queue: QueueUnderTest,
) -> None:
    await finish_with(queue, b"first", keep=ONLY_RESULT)
    await queue.enqueue("another", "j", keep=ONLY_RESULT)

    assert (await queue.record()).ref.generation == 2
    assert (await queue.record("another")).ref.generation == 1
    await queue.backend.cancel(queue.name, ["another"])
    assert await queue.settle(builders.complete(await queue.lease(), b"second")) is Settled.APPLIED
    slips = await queue.backend.slips(queue.name, [("j", 1), ("j", 2), ("another", 0)])
    assert [found and found.result for found in slips] == [b"first", b"second", None]


@pytest.mark.promise("P-44", "P-60")
@pytest.mark.parametrize("end", ["fail", "acknowledge_cancel"])
async def test_only_a_completed_life_leaves_a_result(queue: QueueUnderTest, end: str) -> None:
    lease = await queue.start(keep=Keep(result_ms=3 * HOUR_MS, record_ms=0, dead_ms=0))

    await queue.settle(builders.SETTLEMENTS[end](lease))

    assert await queue.state() is None
    assert await slip(queue) is None


@pytest.mark.promise("P-44", "P-60")
async def test_a_life_whose_result_is_over_leaves_none(queue: QueueUnderTest) -> None:
    await queue.finish("kept 0", keep=Keep(result_ms=0, record_ms=0))
    await queue.finish(keep=Keep(result_ms=HOUR_MS))
    queue.clock.advance(HOUR_MS)
    await queue.enqueue("j", reuse=REUSE)

    assert await queue.backend.slips(queue.name, [("j", 0), ("j", 1), ("kept 0", 1)]) == (None, None, None)


@pytest.mark.promise("P-53", "P-60", "A-26")
async def test_an_operators_removal_leaves_no_result_and_takes_those_of_earlier_lives(
    queue: QueueUnderTest,
) -> None:
    await queue.finish(keep=LONG_RESULT)
    await queue.finish(keep=LONG_RESULT, reuse=REUSE)
    await queue.finish("other", keep=ONLY_RESULT)

    await queue.remove()

    assert await queue.backend.slips(queue.name, [("j", 0), ("j", 1), ("j", 2)]) == (None, None, None)
    assert await slip(queue, "other") is not None


@pytest.mark.promise("P-53", "P-60")
async def test_a_result_without_a_record_can_be_removed_too(queue: QueueUnderTest) -> None:
    await queue.finish(keep=ONLY_RESULT)
    failed = frozenset({State.FAILED})

    (other,) = await queue.backend.remove(queue.name, ["j"], force=False, states=failed)
    first, again = await queue.backend.remove(queue.name, ["j", "j"], force=False)

    assert other.change is Change.NOT_FOUND
    assert (first.change, first.state) == (Change.DONE, State.COMPLETED)
    assert again.change is Change.NOT_FOUND
    assert await slip(queue) is None
    counts = await queue.counts()
    assert (counts.stored, counts.removed) == (0, 1)


@pytest.mark.promise("P-53", "P-60")
async def test_a_purged_record_leaves_no_result(queue: QueueUnderTest) -> None:
    await queue.finish(keep=LONG_RESULT)

    assert await queue.backend.purge(queue.name, frozenset({State.COMPLETED}), 0, ALL) == 1

    assert await slip(queue) is None


@pytest.mark.promise("P-53", "P-60")
async def test_draining_and_purging_take_the_results_of_earlier_lives_and_of_no_other_id(
    queue: QueueUnderTest,
) -> None:
    for job_id in ("ends", "waits", "other"):
        await queue.finish(job_id, keep=ONLY_RESULT)
    await queue.finish("ends")
    await queue.enqueue("waits")

    assert await queue.backend.purge(queue.name, frozenset({State.COMPLETED}), 0, ALL) == 1
    assert await queue.backend.drain(queue.name, ALL) == 1

    assert await slip(queue, "ends", 0) is None
    assert await slip(queue, "waits", 0) is None
    assert await slip(queue, "other", 0) is not None


@pytest.mark.promise("P-53", "P-60")
async def test_obliterating_a_queue_takes_every_result(queue: QueueUnderTest) -> None:
    await queue.finish("gone", keep=ONLY_RESULT)
    await queue.finish("there", keep=LONG_RESULT)

    assert await queue.backend.obliterate(queue.name, force=False) == 1

    assert await queue.backend.slips(queue.name, [("gone", 0), ("there", 0)]) == (None, None)


@pytest.mark.promise("P-01", "P-03")
async def test_a_settlement_repeated_after_the_record_is_gone_changes_nothing(queue: QueueUnderTest) -> None:
    lease = await queue.start(keep=ONLY_RESULT)
    settlement = builders.complete(lease)
    await queue.settle(settlement)
    kept = await slip(queue)

    assert await queue.settle(settlement) is Settled.GONE
    assert await queue.settle(builders.complete(lease, b"other")) is Settled.GONE

    assert await slip(queue) == kept
    assert kept is not None


@pytest.mark.promise("P-60", "E-30")
@pytest.mark.parametrize("pruned", [True, False])
async def test_the_newest_result_is_the_newest_that_is_kept_pruned_or_not(
    queue: QueueUnderTest, pruned: bool
) -> None:
    await finish_with(queue, b"first", keep=ONLY_RESULT)
    await finish_with(queue, b"second", keep=Keep(result_ms=1 * HOUR_MS, record_ms=0))
    newest = await slip(queue, generation=0)
    assert newest is not None
    assert newest.result == b"second"
    queue.clock.advance(1 * HOUR_MS)

    if pruned:
        await queue.backend.prune(queue.name, ALL)

    newest = await slip(queue, generation=0)
    assert newest is not None
    assert (newest.ref.generation, newest.result) == (1, b"first")


@pytest.mark.promise("P-60")
async def test_slips_are_answered_in_the_order_asked_for(queue: QueueUnderTest) -> None:
    for number in range(3):
        await finish_with(queue, b"%d" % number, f"j{number}", keep=ONLY_RESULT)

    found = await queue.backend.slips(queue.name, [("j2", 1), ("nobody", 1), ("j0", 1), ("j1", 2), ("j2", 0)])

    assert [one and one.result for one in found] == [b"2", None, b"0", None, b"2"]
    assert await queue.backend.slips(queue.name, []) == ()
    assert await queue.backend.slips("nowhere", [("j0", 1)]) == (None,)


@pytest.mark.promise("P-34", "E-27", "E-30")
async def test_pruning_is_bounded_by_kind_and_says_when_more_may_be_left(queue: QueueUnderTest) -> None:
    for number in range(3):
        await queue.finish(f"gone{number}", keep=Keep(result_ms=1, record_ms=0))
    for number in range(3):
        await queue.finish(f"there{number}", keep=Keep(result_ms=2, record_ms=HOUR_MS))
    queue.clock.advance(10)

    assert [await queue.backend.prune(queue.name, 2) for _ in range(3)] == [4, 2, 0]

    assert (await queue.record("there0")).result is None


@pytest.mark.promise("E-47")
async def test_a_job_names_the_life_that_created_it_whatever_becomes_of_that(queue: QueueUnderTest) -> None:
    lease = await queue.start("parent")
    await queue.backend.enqueue(queue.name, [builders.new_job("child", creator=lease.ref)])

    await queue.settle(builders.fail(lease))

    child = await queue.record("child")
    assert child.creator == Ref(queue=queue.name, id="parent", generation=1)
    assert child.state is State.WAITING
    await queue.remove("parent")
    assert (await queue.record("child")).creator == child.creator
