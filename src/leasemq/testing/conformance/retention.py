"""Retention: each clock of its own, counted from the end, terminal records only."""

from __future__ import annotations

import pytest

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import Keep, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

KEEP = Keep(result_ms=1 * HOUR_MS, record_ms=2 * HOUR_MS, dead_ms=5 * HOUR_MS)
KEPT_FOR = {
    "complete": KEEP.record_ms,
    "acknowledge_cancel": KEEP.record_ms,
    "fail": KEEP.dead_ms,
}


@pytest.mark.promise("P-01", "E-30", "A-34")
@pytest.mark.parametrize("end", KEPT_FOR)
async def test_a_record_is_kept_for_its_time_counted_from_its_end_and_then_pruned(
    queue: QueueUnderTest, end: str
) -> None:
    lease = await queue.start(keep=KEEP)
    queue.clock.advance(10 * HOUR_MS)
    await queue.settle(builders.SETTLEMENTS[end](lease))
    queue.clock.advance(KEPT_FOR[end] - 1)
    await queue.backend.prune(queue.name, ALL)  # of a completed one the result
    assert await queue.backend.prune(queue.name, ALL) == 0
    assert await queue.state() is not None
    queue.clock.advance(2)

    assert await queue.backend.prune(queue.name, ALL) == 1

    assert await queue.state() is None
    assert (await queue.story())[-1] is EventKind.REMOVED
    counts = await queue.counts()
    assert (counts.stored, counts.removed) == (0, 1)


@pytest.mark.promise("P-01", "A-34")
async def test_retention_never_touches_a_job_that_has_not_ended(queue: QueueUnderTest) -> None:
    await queue.start("running", keep=Keep(result_ms=0, record_ms=0, dead_ms=0))
    await queue.enqueue("waiting", keep=KEEP)
    await queue.enqueue("scheduled", keep=KEEP, delay_ms=10_000 * HOUR_MS)
    await queue.put(builders.with_parent("blocked", "p", keep=KEEP))
    queue.clock.advance(1_000 * HOUR_MS)

    assert await queue.backend.prune(queue.name, ALL) == 0
    assert (await queue.counts()).stored == 4


@pytest.mark.promise("P-60", "E-30")
async def test_a_record_outlives_its_result(queue: QueueUnderTest) -> None:
    await queue.finish(keep=KEEP)
    queue.clock.advance(KEEP.result_ms - 1)
    await queue.backend.prune(queue.name, ALL)
    assert (await queue.record()).result == b"42"
    queue.clock.advance(2)

    await queue.backend.prune(queue.name, ALL)

    record = await queue.record()
    assert (record.state, record.result) == (State.COMPLETED, None)


@pytest.mark.promise("P-01")
async def test_a_record_past_its_retention_stays_until_it_is_pruned(queue: QueueUnderTest) -> None:
    settlement = builders.complete(await queue.start(keep=KEEP))
    await queue.settle(settlement)
    queue.clock.advance(3 * HOUR_MS)

    (answer,) = await queue.enqueue("j")

    assert (answer.created, answer.state) == (False, State.COMPLETED)
    assert await queue.settle(settlement) is Settled.REPLAYED


@pytest.mark.promise("P-01", "P-34", "A-36")
async def test_pruning_is_bounded_and_answers_how_many_it_took(queue: QueueUnderTest) -> None:
    for number in range(7):
        await queue.finish(f"j{number}", keep=KEEP)
    queue.clock.advance(3 * HOUR_MS)

    assert [await queue.backend.prune(queue.name, 3) for _ in range(4)] == [3, 3, 1, 0]


@pytest.mark.promise("P-01", "P-34")
async def test_the_longest_lapsed_are_pruned_first(queue: QueueUnderTest) -> None:
    await queue.finish("long", keep=Keep(record_ms=3 * HOUR_MS))
    await queue.finish("short", keep=Keep(record_ms=1 * HOUR_MS))
    queue.clock.advance(4 * HOUR_MS)

    await queue.backend.prune(queue.name, 1)

    assert await queue.state("short") is None
    assert await queue.state("long") is State.COMPLETED


@pytest.mark.promise("P-30", "E-31")
async def test_an_expired_job_is_kept_as_a_dead_letter(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", ttl_ms=SECOND_MS, keep=KEEP)
    queue.clock.advance(SECOND_MS + 1)
    await queue.backend.advance(queue.name, ALL)
    queue.clock.advance(KEEP.dead_ms - 1)
    assert await queue.backend.prune(queue.name, ALL) == 0
    queue.clock.advance(2)

    assert await queue.backend.prune(queue.name, ALL) == 1


@pytest.mark.promise("B45", "E-29", "P-40")
async def test_with_no_retention_a_failed_id_is_free_at_once(queue: QueueUnderTest) -> None:
    await queue.die(keep=Keep(dead_ms=0))

    (answer,) = await queue.enqueue("j")

    assert answer.created


@pytest.mark.promise("P-01", "P-62")
async def test_pruning_forgets_nothing_that_is_still_running(queue: QueueUnderTest) -> None:
    lease = await queue.start(keep=KEEP)
    await queue.note(builders.progress(lease))
    queue.clock.advance(1_000 * HOUR_MS)
    await queue.backend.prune(queue.name, ALL)

    assert (await queue.record()).progress == b"3/10"
    assert await queue.settle(builders.complete(lease)) is Settled.APPLIED


@pytest.mark.promise("A-34", "P-01", "P-43")
@pytest.mark.parametrize("end", KEPT_FOR)
async def test_of_each_outcome_so_many_records_are_kept_however_young_and_the_longest_ended_go(
    queue: QueueUnderTest, end: str
) -> None:
    await queue.finish("other-done")
    await queue.die("other-dead")
    await queue.enqueue("other-cancelled")
    await queue.backend.cancel(queue.name, ["other-cancelled"])
    queue.clock.advance(1)
    for number in range(5):
        await queue.settle(builders.SETTLEMENTS[end](await queue.start(f"j{number}")))
        queue.clock.advance(1)
    await queue.enqueue("waiting")

    pruned = [await queue.backend.prune(queue.name, 2, newest=2) for _ in range(3)]

    assert sum(pruned) == 4  # one of those that ended the same way before, and three of the five
    assert pruned == [2, 2, 0]
    assert [await queue.state(f"j{number}") is None for number in range(5)] == [True] * 3 + [False] * 2
    others = [await queue.state(f"other-{how}") for how in ("done", "dead", "cancelled")]
    assert others.count(None) == 1
    counts = await queue.counts()
    assert (counts.stored, counts.removed) == (5, 4)
    assert (await queue.story("j2"))[-1] is EventKind.REMOVED


@pytest.mark.promise("A-34", "P-01")
async def test_expired_and_failed_jobs_are_counted_apart(queue: QueueUnderTest) -> None:
    await queue.die("dead")
    await queue.enqueue("old", ttl_ms=SECOND_MS)
    await queue.enqueue("older", ttl_ms=SECOND_MS - 1)
    queue.clock.advance(2 * SECOND_MS)
    await queue.backend.advance(queue.name, ALL)

    assert await queue.backend.prune(queue.name, ALL, newest=1) == 1

    assert await queue.state("dead") is State.FAILED
    assert [await queue.state("old"), await queue.state("older")].count(State.EXPIRED) == 1


@pytest.mark.promise("A-34", "P-60", "P-43")
async def test_what_goes_by_count_takes_its_result_along(queue: QueueUnderTest) -> None:
    for id_ in ("a", "b"):
        await queue.finish(id_, keep=Keep(result_ms=3 * HOUR_MS, record_ms=HOUR_MS))
        queue.clock.advance(1)

    assert await queue.backend.prune(queue.name, ALL, newest=1) == 1

    assert await queue.backend.slips(queue.name, [("a", 0)]) == (None,)
    assert (await queue.record("b")).result == b"42"


@pytest.mark.promise("A-34", "P-60", "P-43")
async def test_results_without_a_record_are_bounded_alike_and_the_first_to_lapse_go(
    queue: QueueUnderTest,
) -> None:
    for number in (3, 1, 2, 5, 4):
        await queue.finish(f"j{number}", keep=Keep(result_ms=number * HOUR_MS, record_ms=0))

    pruned = [await queue.backend.prune(queue.name, 2, newest=2) for _ in range(3)]

    assert pruned == [2, 1, 0]
    slips = await queue.backend.slips(queue.name, [(f"j{number}", 0) for number in range(1, 6)])
    assert [slip and slip.result for slip in slips] == [None, None, None, b"42", b"42"]


@pytest.mark.promise("A-34", "P-01")
async def test_a_replayed_job_counts_by_its_new_end(queue: QueueUnderTest) -> None:
    for id_ in ("first", "second"):
        await queue.die(id_)
        queue.clock.advance(1)
    await queue.backend.replay(queue.name, ["first"], 7)
    assert await queue.backend.prune(queue.name, ALL, newest=1) == 0
    await queue.settle(builders.fail(await queue.lease()))

    assert await queue.backend.prune(queue.name, ALL, newest=1) == 1

    assert await queue.state("first") is State.FAILED
