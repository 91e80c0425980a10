"""A plain completion is written without reading its job; nothing but the number of statements tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.insight import CancelAnswer, EventKind
from leasemq.protocol.model import (
    Acceptance,
    Fence,
    Lease,
    Outcome,
    Settled,
    State,
    Unique,
    UniqueMode,
)
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock


async def claimed(backend: SqliteBackend, limit: int = 1) -> Sequence[Lease]:
    return (await backend.claim("mail", limit, 30_000, builders.claimant())).leases


async def ends(backend: SqliteBackend) -> list[tuple[str, EventKind, int]]:
    page = await backend.events("mail", "", 1_000)
    events = page.events
    return [(one.ref.id, one.kind, one.attempt) for one in events if one.kind is EventKind.COMPLETED]


@pytest.mark.promise("P-10", "P-11", "P-62")
async def test_each_of_a_batch_has_its_own_answer(backend: SqliteBackend, clock: ManualClock) -> None:
    await backend.enqueue("mail", [builders.new_job("retried")])
    (first,) = await claimed(backend)
    await backend.settle("mail", [builders.retry(first)])
    clock.advance(1)
    await backend.advance("mail", 10)
    await backend.enqueue("mail", [builders.new_job(id_) for id_ in ("held", "stale", "old", "over")])
    retried, held, stale, old, over = await claimed(backend, 5)
    over_at_once = builders.complete(over)
    await backend.settle("mail", [over_at_once])
    nobody = replace(builders.complete(held), job_id="nobody")
    batch = [
        builders.complete(retried),
        builders.complete(held),
        replace(builders.complete(stale), fence=replace(stale.fence, nonce="another")),
        replace(builders.complete(old), generation=2),
        over_at_once,
        nobody,
    ]

    answers = await backend.settle("mail", batch)

    assert answers == (
        Settled.APPLIED,
        Settled.APPLIED,
        Settled.LOST,
        Settled.GONE,
        Settled.REPLAYED,
        Settled.GONE,
    )
    completed = EventKind.COMPLETED
    assert sorted(await ends(backend)) == [
        ("held", completed, 1),
        ("over", completed, 1),
        ("retried", completed, 2),
    ]
    counts = await backend.counts("mail")
    assert (counts.active, counts.completed) == (2, 3)


@pytest.mark.promise("P-11")
async def test_a_batch_of_which_nothing_is_held_changes_nothing(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a"), builders.new_job("b")])
    leases = await claimed(backend, 2)
    other = [
        replace(builders.complete(lease), fence=Fence(number=lease.fence.number - 1, nonce=lease.fence.nonce))
        for lease in leases
    ]

    assert await backend.settle("mail", other) == (Settled.LOST,) * 2

    assert (await backend.counts("mail")).active == 2
    assert (
        await backend.settle("mail", [builders.complete(lease) for lease in leases]) == (Settled.APPLIED,) * 2
    )


@pytest.mark.promise("P-44")
async def test_an_old_generation_is_not_completed_under_the_fence_of_the_new(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    (lease,) = await claimed(backend)
    stale = replace(builders.complete(lease), generation=lease.ref.generation + 1)

    assert await backend.settle("mail", [stale]) == (Settled.GONE,)


@pytest.mark.promise("P-50")
async def test_a_completion_that_has_not_seen_the_cancel_request_is_told_of_it(
    backend: SqliteBackend,
) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    (lease,) = await claimed(backend)
    assert await backend.cancel("mail", ["a"]) == (CancelAnswer.CANCELLING,)

    assert await backend.settle("mail", [builders.complete(lease)]) == (Settled.CANCEL_REQUESTED,)

    assert (await backend.counts("mail")).active == 1


@pytest.mark.promise("P-41")
async def test_a_plain_completion_frees_the_key(backend: SqliteBackend) -> None:
    unique = Unique(key="invoice:7", mode=UniqueMode.SKIP)
    await backend.enqueue("mail", [builders.new_job("a", unique=unique)])
    (lease,) = await claimed(backend)
    await backend.settle("mail", [builders.complete(lease)])

    (answer,) = await backend.enqueue("mail", [builders.new_job("b", unique=unique)])

    assert answer.acceptance is Acceptance.CREATED


@pytest.mark.promise("P-110")
async def test_a_plain_completion_tells_its_dependants(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("parent")])
    (lease,) = await claimed(backend)
    (child,) = await backend.enqueue("mail", [builders.with_parent("child", "parent")])
    (attach,) = await backend.outbox("mail", 10)
    await backend.attach("mail", "parent", child.ref, attach.on_failure)
    await backend.outbox_done("mail", [attach.id])

    await backend.settle("mail", [builders.complete(lease)])

    assert [entry.outcome for entry in await backend.outbox("mail", 10)] == [State.COMPLETED]


@pytest.mark.promise("P-62")
async def test_a_plain_completion_is_in_the_trail(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a", trail=10)])
    (lease,) = await claimed(backend)
    await backend.settle("mail", [builders.complete(lease)])

    page = await backend.trail("mail", "a", None, None, 10)

    assert page is not None
    assert [entry.kind for entry in page.entries][-1] is EventKind.COMPLETED


@pytest.mark.promise("P-03", "P-62")
async def test_a_later_attempt_that_completes_is_told_by_its_number(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    (lease,) = await claimed(backend)
    await backend.settle("mail", [builders.release(lease)])
    (again,) = await claimed(backend)

    assert await backend.settle("mail", [builders.complete(again)]) == (Settled.APPLIED,)

    assert await ends(backend) == [("a", EventKind.COMPLETED, 2)]


@pytest.mark.promise("P-05", "P-64")
async def test_a_plain_completion_leaves_the_record_that_the_long_way_leaves(backend: SqliteBackend) -> None:
    """A trail makes it take the long way."""
    await backend.enqueue("mail", [builders.new_job("plain"), builders.new_job("long", trail=10)])
    leases = await claimed(backend, 2)
    settlements = [builders.complete(lease) for lease in leases]
    await backend.settle("mail", settlements)

    plain, long = await backend.get("mail", ["plain", "long"])

    assert plain is not None
    assert long is not None
    assert plain.history[0].outcome is Outcome.COMPLETED
    assert plain == replace(long, ref=plain.ref, trail=0, born=plain.born)
    assert await backend.settle("mail", settlements) == (Settled.REPLAYED,) * 2


@pytest.mark.promise("P-62", "P-92")
async def test_a_mixed_batch_is_told_in_the_order_of_its_settlements(
    backend: SqliteBackend, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job(id_) for id_ in ("retried", "gone", "plain")])
    retried, gone, plain = await claimed(backend, 3)
    start = (await backend.events("mail", None, 1_000)).cursor
    dropped = replace(builders.complete(gone), keep_ms=0)

    await backend.settle("mail", [builders.retry(retried), dropped, builders.complete(plain)])

    told = [(one.ref.id, one.kind) for one in (await backend.events("mail", start, 1_000)).events]
    assert told == [
        ("retried", EventKind.RETRIED),
        ("gone", EventKind.COMPLETED),
        ("gone", EventKind.REMOVED),
        ("plain", EventKind.COMPLETED),
    ]


@pytest.mark.promise("P-92")
async def test_what_ends_in_one_batch_is_pruned_in_the_order_of_its_settlements(
    backend: SqliteBackend, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job("traced", trail=5), builders.new_job("plain")])
    leases = await claimed(backend, 2)
    await backend.settle("mail", [replace(builders.complete(lease), keep_ms=50) for lease in leases])
    clock.advance(100)

    assert await backend.prune("mail", 1) == 1

    records = await backend.get("mail", ["traced", "plain"])
    assert [record is None for record in records] == [True, False]
