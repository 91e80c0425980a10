"""Batches: none, one and a thousand, answered in order, at a cost that does not grow with the store."""

from __future__ import annotations

from itertools import pairwise

import pytest

from leasemq.protocol.model import Keep, Renewal, Settled
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.conformance.store import Hooks

THOUSAND = [f"j{number:04}" for number in range(1_000)]


@pytest.mark.promise("P-01", "P-43")
async def test_empty_batches_are_answered_with_nothing_and_change_nothing(queue: QueueUnderTest) -> None:
    backend, name = queue.backend, queue.name

    answers = [
        await backend.settle(name, []),
        await backend.cancel(name, []),
        await backend.promote(name, []),
        await backend.reprioritise(name, [], 1),
        await backend.reschedule(name, [], 1),
        await backend.replay(name, [], 1),
        await backend.remove(name, [], force=True),
        await backend.get(name, []),
        await queue.renew_all([]),
    ]
    await backend.outbox_done(name, [])

    assert [list(answer) for answer in answers] == [[]] * len(answers)
    assert list(await backend.queues()) == []


@pytest.mark.promise("P-01", "P-32", "P-43", "A-4")
async def test_a_thousand_jobs_live_in_batches_from_enqueue_to_end(queue: QueueUnderTest) -> None:
    await queue.enqueue(*THOUSAND)
    leases = (await queue.claim(1_000)).leases
    renewed = await queue.renew_all(leases)
    settled = await queue.backend.settle(queue.name, [builders.complete(lease) for lease in leases])
    records = await queue.backend.get(queue.name, THOUSAND)

    assert [lease.ref.id for lease in leases] == THOUSAND
    assert set(renewed) == {Renewal.HELD}
    assert set(settled) == {Settled.APPLIED}
    assert [record and record.ref.id for record in records] == THOUSAND
    assert (await queue.counts()).completed == 1_000


@pytest.mark.promise("P-53", "P-43", "A-36")
async def test_a_thousand_jobs_are_cancelled_replayed_and_removed_in_batches(queue: QueueUnderTest) -> None:
    await queue.enqueue(*THOUSAND, keep=Keep())

    cancelled = await queue.backend.cancel(queue.name, THOUSAND)
    replayed = await queue.backend.replay(queue.name, THOUSAND, 77)
    removed = await queue.backend.remove(queue.name, THOUSAND, force=False)

    assert set(cancelled) == {"cancelled"}
    assert {answer.change for answer in (*replayed, *removed)} == {"done"}
    assert (await queue.counts()).stored == 0


@pytest.mark.promise("P-11")
async def test_one_job_named_twice_in_a_batch_is_answered_twice(queue: QueueUnderTest) -> None:
    lease = await queue.start()
    settlement = builders.complete(lease)

    once, again, other = await queue.backend.settle(
        queue.name, [settlement, settlement, builders.fail(lease)]
    )

    assert (once, again, other) == (Settled.APPLIED, Settled.REPLAYED, Settled.LOST)


@pytest.mark.promise("P-50", "P-53")
async def test_operators_may_name_one_job_twice(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")

    assert list(await queue.backend.cancel(queue.name, ["j", "j"])) == ["cancelled", "finished"]
    removed = await queue.backend.remove(queue.name, ["j", "j"], force=False)
    assert [answer.change for answer in removed] == ["done", "not_found"]


@pytest.mark.promise("P-43", "A-6", "A-37")
async def test_ten_thousand_stored_jobs_do_not_change_what_a_call_costs(
    queue: QueueUnderTest, hooks: Hooks
) -> None:
    if hooks.count_statements is None:
        pytest.skip("the backend's author offers no count of statements")
    await queue.enqueue("filler", priority=-1)
    await _cost(queue, hooks, "first")  # opens connections
    few = await _cost(queue, hooks, "few")
    for start in range(0, 10_000, 1_000):
        await queue.enqueue(*(f"filler{number}" for number in range(start, start + 1_000)), priority=-1)

    assert await _cost(queue, hooks, "many") == few


async def _cost(queue: QueueUnderTest, hooks: Hooks, job_id: str) -> list[int]:
    """Statements sent by each call of one job's life."""
    assert hooks.count_statements is not None
    marks = [hooks.count_statements()]
    await queue.enqueue(job_id)
    marks.append(hooks.count_statements())
    lease = await queue.lease()
    marks.append(hooks.count_statements())
    await queue.settle(builders.complete(lease))
    marks.append(hooks.count_statements())
    await queue.counts()
    marks.append(hooks.count_statements())
    await queue.backend.advance(queue.name, ALL)
    marks.append(hooks.count_statements())
    return [after - before for before, after in pairwise(marks)]
