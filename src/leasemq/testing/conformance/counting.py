"""What a queue counts over its whole life: refused writes, stalls and releases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasemq.protocol.insight import Counts
from leasemq.protocol.model import Lease, Note, Noted, Renewal, Settled, Settlement, Side
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

FENCED = tuple(builders.SETTLEMENTS.items())


def growing(counts: Counts) -> tuple[int, int, int]:
    """The counters that only grow: refused writes, stalls, releases."""
    return counts.refused, counts.stalls, counts.releases


async def zombie(queue: QueueUnderTest) -> Lease:
    """The lease of a holder that fell silent, after another took the job."""
    await queue.enqueue("j")
    lost = await queue.stall_once()
    await queue.lease(worker="B")
    return lost


@pytest.mark.promise("P-115", "E-67")
async def test_an_unused_queue_counts_no_refused_write_stall_or_release(queue: QueueUnderTest) -> None:
    assert growing(await queue.counts()) == (0, 0, 0)
    await queue.finish()
    assert growing(await queue.counts()) == (0, 0, 0)


@pytest.mark.promise("P-115", "E-67")
@pytest.mark.parametrize("write", [name for name, _ in FENCED])
async def test_each_refused_settlement_is_counted(queue: QueueUnderTest, write: str) -> None:
    lost = await zombie(queue)
    settlement = builders.SETTLEMENTS[write](lost)

    for number in (1, 2):
        assert await queue.settle(settlement) is Settled.LOST
        assert growing(await queue.counts()) == (number, 1, 0)


@pytest.mark.promise("P-115", "E-67", "P-11")
@pytest.mark.parametrize("note", builders.NOTES.values(), ids=builders.NOTES)
async def test_each_refused_note_is_counted(queue: QueueUnderTest, note: Callable[[Lease], Note]) -> None:
    lost = await zombie(queue)

    assert await queue.note(note(lost)) is Noted.LOST

    assert (await queue.counts()).refused == 1


@pytest.mark.promise("P-115", "E-67", "P-11")
async def test_each_refused_renewal_is_counted(queue: QueueUnderTest) -> None:
    lost = await zombie(queue)

    assert await queue.renew_all([lost, lost]) == (Renewal.LOST, Renewal.LOST)

    assert (await queue.counts()).refused == 2


@pytest.mark.promise("P-115", "P-05")
async def test_a_settlement_that_is_repeated_counts_once(queue: QueueUnderTest) -> None:
    settlement = builders.release(await queue.start())

    assert [await queue.settle(settlement) for _ in range(3)] == [
        Settled.APPLIED,
        Settled.REPLAYED,
        Settled.REPLAYED,
    ]

    assert growing(await queue.counts()) == (0, 0, 1)


@pytest.mark.promise("P-115")
@pytest.mark.parametrize(
    ("settle", "expected"),
    [
        (builders.stall, (0, 0, 0)),  # the lease runs: held
        (builders.complete, (0, 0, 0)),
        (builders.retry, (0, 0, 0)),
        (builders.release, (0, 0, 1)),
        (builders.release_unfit, (0, 0, 1)),
    ],
)
async def test_only_what_was_given_back_counts_as_a_release(
    queue: QueueUnderTest, settle: Callable[[Lease], Settlement], expected: tuple[int, int, int]
) -> None:
    lease = await queue.start()

    await queue.settle(settle(lease))

    assert growing(await queue.counts()) == expected


@pytest.mark.promise("P-115", "P-23")
async def test_the_stall_that_ends_a_job_is_counted_as_the_others_are(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", max_stalls=1)

    await queue.stall_once()
    await queue.stall_once(takes_suspect=True)

    counts = await queue.counts()
    assert (counts.failed, *growing(counts)) == (1, 0, 2, 0)


@pytest.mark.promise("P-115")
async def test_what_a_sweep_lost_to_another_counts_nowhere(queue: QueueUnderTest) -> None:
    lost = await zombie(queue)

    late = builders.stall(lost)
    assert late.side is Side.SWEEP
    assert await queue.settle(late) is Settled.LOST

    assert growing(await queue.counts()) == (0, 1, 0)


@pytest.mark.promise("P-115", "P-43", "E-67")
async def test_counts_are_exact_after_a_scripted_scenario_and_stay_when_the_jobs_are_gone(
    queue: QueueUnderTest,
) -> None:
    lost = await zombie(queue)  # one stall; B runs j
    await queue.settle(builders.complete(lost))
    await queue.renew(lost)
    await queue.note(builders.progress(lost))
    await queue.enqueue("k", priority=1)
    await queue.settle(builders.release(await queue.lease()))
    await queue.settle(builders.fail(await queue.lease()))
    await queue.enqueue("l", delay_ms=5_000)
    await queue.enqueue("m")

    before = await queue.counts()
    assert growing(before) == (3, 1, 1)
    states = (before.scheduled, before.waiting, before.active, before.failed)
    assert (*states, before.accepted, before.removed) == (1, 1, 1, 1, 4, 0)

    assert await queue.backend.obliterate(queue.name, force=True) == 4

    after = await queue.counts()
    assert (after.accepted, after.removed, *growing(after)) == (4, 4, 3, 1, 1)


@pytest.mark.promise("P-115")
async def test_each_queue_counts_its_own(queue: QueueUnderTest) -> None:
    other = QueueUnderTest(backend=queue.backend, clock=queue.clock, name="other")
    await queue.settle(builders.complete(await zombie(queue)))
    await other.settle(builders.release(await other.start()))

    assert growing(await queue.counts()) == (1, 1, 0)
    assert growing(await other.counts()) == (0, 0, 1)
