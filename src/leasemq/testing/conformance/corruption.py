"""Records that cannot be read: said loudly, never taken for missing, and no hindrance to the others."""

from __future__ import annotations

from contextlib import suppress

import pytest

from leasemq.errors import CorruptRecord
from leasemq.protocol.model import Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.conformance.store import Hooks, Store


def _bad_ids(hooks: Hooks, store: Store) -> list[str]:
    """One id for each way in which a record can be broken."""
    if hooks.plant_corruption is None:
        pytest.skip("the backend's author offers no way to plant corruption")
    if not hooks.plant_corruption:
        pytest.skip("left out: the backend's author says that nothing it stores can be damaged")
    store.readable = False
    return [f"bad job {number}" for number in range(len(hooks.plant_corruption))]


async def _plant(hooks: Hooks, queue: QueueUnderTest, ids: list[str]) -> None:
    for plant, job_id in zip(hooks.plant_corruption or (), ids, strict=True):
        await plant(queue.name, job_id)


@pytest.mark.promise("P-99", "E-58")
async def test_a_corrupt_record_is_named_and_never_read_as_missing(
    queue: QueueUnderTest, hooks: Hooks, store: Store
) -> None:
    bad = _bad_ids(hooks, store)
    await queue.enqueue("good", *bad)
    await _plant(hooks, queue, bad)

    for job_id in bad:
        with pytest.raises(CorruptRecord, match=job_id):
            await queue.backend.get(queue.name, [job_id])
        with pytest.raises(CorruptRecord, match=job_id):
            await queue.backend.standing(queue.name, job_id)
    assert await queue.state("good") is State.WAITING


@pytest.mark.promise("P-99", "P-34", "P-01")
async def test_corrupt_jobs_do_not_stop_their_queue(
    queue: QueueUnderTest, hooks: Hooks, store: Store
) -> None:
    bad = _bad_ids(hooks, store)
    await queue.enqueue(*bad, priority=9)
    await queue.enqueue("good1", "good2")
    await _plant(hooks, queue, bad)

    taken: list[str] = []
    while leases := (await queue.claim(1)).leases:  # no claim says that there is nothing while a job waits
        taken.append(leases[0].ref.id)
        assert len(taken) <= len(bad) + 2
        assert await queue.settle(builders.complete(leases[0])) is Settled.APPLIED

    assert [job_id for job_id in taken if job_id not in bad] == ["good1", "good2"]
    counts = await queue.counts()
    assert (counts.waiting, counts.active) == (0, 0)
    assert counts.completed + counts.failed == 2 + len(bad)


@pytest.mark.promise("P-99", "P-40")
async def test_the_id_of_a_corrupt_job_is_known(queue: QueueUnderTest, hooks: Hooks, store: Store) -> None:
    bad = _bad_ids(hooks, store)
    await queue.enqueue(*bad)
    await _plant(hooks, queue, bad)

    for job_id in bad:
        with suppress(CorruptRecord):
            (answer,) = await queue.enqueue(job_id)
            assert not answer.created
    assert (await queue.counts()).accepted == len(bad)


@pytest.mark.promise("P-99", "P-34")
async def test_corrupt_jobs_do_not_stop_recovery_of_the_others(
    queue: QueueUnderTest, hooks: Hooks, store: Store
) -> None:
    bad = _bad_ids(hooks, store)
    await queue.enqueue(*bad, "good")
    await queue.claim(ALL)
    await _plant(hooks, queue, bad)
    queue.fall_silent()

    for lease in await queue.backend.expired(queue.name, ALL):
        await queue.settle(builders.stall(lease))

    assert await queue.state("good") is State.WAITING


@pytest.mark.promise("P-99", "P-53")
async def test_corrupt_jobs_can_be_removed(queue: QueueUnderTest, hooks: Hooks, store: Store) -> None:
    bad = _bad_ids(hooks, store)
    await queue.enqueue(*bad)
    await _plant(hooks, queue, bad)

    await queue.backend.remove(queue.name, bad, force=True)

    assert list(await queue.backend.get(queue.name, bad)) == [None] * len(bad)
