"""Transactions: what is enqueued and settled in one is true with its commit, and never was without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, InvalidSession
from leasemq.operations import Joined
from leasemq.protocol.insight import CancelAnswer, EventKind
from leasemq.protocol.model import Acceptance, Renewal, Settled, State, Unique, UniqueMode, Wake
from leasemq.sessions import run_through
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.manual_clock import ManualClock

IDLE_MS = 30_000
_PUSHED_WITHIN_MS = 5_000


@asynccontextmanager
async def open_transaction(backend: Backend) -> AsyncIterator[Joined]:
    """A transaction of the backend's own, or the test is left out."""
    if not (await backend.prepare()).transactions:
        pytest.skip("left out: the backend does not declare transactions")
    async with backend.transaction(blocks=False, idle_ms=IDLE_MS) as joined:
        yield joined


@pytest.mark.promise("P-114")
async def test_a_job_shows_with_the_commit_of_its_transaction_and_not_before(queue: QueueUnderTest) -> None:
    async with open_transaction(queue.backend) as joined:
        (enqueued,) = await joined.enqueue(queue.name, [builders.new_job("j")])
        before = await queue.state("j"), await queue.events("j")
        await joined.commit()

    assert enqueued.created
    assert before == (None, [])
    assert await queue.state("j") is State.WAITING
    assert await queue.story("j") == [EventKind.ENQUEUED]
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-114", "P-43")
@pytest.mark.parametrize("end", ["rolled back", "left"])
async def test_a_transaction_that_is_not_committed_leaves_nothing_behind(
    queue: QueueUnderTest, end: str
) -> None:
    unique = Unique(key="k", mode=UniqueMode.SKIP)
    async with open_transaction(queue.backend) as joined:
        jobs = [builders.new_job("j", unique=unique), builders.new_job("other", delay_ms=5_000)]
        await joined.enqueue(queue.name, jobs)
        if end == "rolled back":
            assert await joined.roll_back()

    assert (await queue.counts()).accepted == 0
    assert await queue.events() == []
    (enqueued,) = await queue.enqueue("another", unique=unique)
    assert enqueued.created


@pytest.mark.promise("P-114", "P-40", "P-41")
async def test_ids_and_keys_mean_the_same_inside_of_a_transaction(queue: QueueUnderTest) -> None:
    unique = Unique(key="k", mode=UniqueMode.SKIP)
    await queue.enqueue("held", unique=unique)
    await queue.enqueue("known")
    async with open_transaction(queue.backend) as joined:
        jobs = [
            builders.new_job("known", payload=b"another"),
            builders.new_job("skipped", unique=unique),
            builders.new_job("twice"),
            builders.new_job("twice"),
        ]
        known, skipped, first, second = await joined.enqueue(queue.name, jobs)
        await joined.commit()

    assert (known.acceptance, known.same_payload) == (Acceptance.EXISTING, False)
    assert (skipped.acceptance, skipped.ref.id) == (Acceptance.SKIPPED, "held")
    assert (first.acceptance, second.acceptance) == (Acceptance.CREATED, Acceptance.EXISTING)
    assert (await queue.counts()).accepted == 3


@pytest.mark.promise("P-114", "P-11")
async def test_a_settlement_is_true_with_the_commit_of_its_transaction(queue: QueueUnderTest) -> None:
    lease = await queue.start("j")
    settlement = builders.complete(lease)
    async with open_transaction(queue.backend) as joined:
        assert await joined.check(queue.name, "j", lease.fence) is Renewal.HELD
        assert await joined.settle(queue.name, settlement) is Settled.APPLIED
        before = await queue.state("j")
        await joined.enqueue("after", [builders.new_job("child", creator=lease.ref)])
        await joined.commit()

    record = await queue.record("j")
    assert before is State.ACTIVE
    assert (record.state, record.result, record.refused) == (State.COMPLETED, b"42", ())
    assert await queue.settle(settlement) is Settled.REPLAYED
    assert (await queue.backend.counts("after")).waiting == 1


@pytest.mark.promise("P-114")
async def test_a_settlement_that_is_rolled_back_has_not_been(queue: QueueUnderTest) -> None:
    lease = await queue.start("j")
    settlement = builders.complete(lease)
    async with open_transaction(queue.backend) as joined:
        assert await joined.settle(queue.name, settlement) is Settled.APPLIED

    assert await queue.state("j") is State.ACTIVE
    assert await queue.renew(lease) is Renewal.HELD
    assert await queue.settle(settlement) is Settled.APPLIED


@pytest.mark.promise("P-114", "P-10", "P-11")
async def test_a_stale_fence_is_told_by_the_check_which_notes_nothing(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    stale = await queue.stall_once()
    newer = await queue.lease(worker="B")
    async with open_transaction(queue.backend) as joined:
        assert await joined.check(queue.name, "j", stale.fence) is Renewal.LOST
        assert await joined.check(queue.name, "j", newer.fence) is Renewal.HELD
        assert await joined.check(queue.name, "unknown", newer.fence) is Renewal.LOST
        assert await joined.check("unheard of", "j", newer.fence) is Renewal.LOST
        assert await joined.settle(queue.name, builders.complete(stale)) is Settled.LOST

    record = await queue.record("j")
    assert (record.state, record.fence, record.refused_count) == (State.ACTIVE, newer.fence.number, 0)


@pytest.mark.promise("P-114")
async def test_an_ended_job_is_lost_to_the_check(queue: QueueUnderTest) -> None:
    lease = await queue.finish("j")
    async with open_transaction(queue.backend) as joined:
        assert await joined.check(queue.name, "j", lease.fence) is Renewal.LOST


@pytest.mark.promise("P-114", "P-50")
async def test_a_cancellation_is_told_by_the_check_and_by_the_settlement(queue: QueueUnderTest) -> None:
    lease = await queue.start("j")
    assert await queue.cancel("j") is CancelAnswer.CANCELLING
    async with open_transaction(queue.backend) as joined:
        assert await joined.check(queue.name, "j", lease.fence) is Renewal.CANCEL_REQUESTED
        assert await joined.settle(queue.name, builders.complete(lease)) is Settled.CANCEL_REQUESTED

    assert await queue.settle(builders.acknowledge_cancel(lease)) is Settled.APPLIED


@pytest.mark.promise("P-114")
async def test_nobody_recovers_a_job_that_a_transaction_has_checked(
    queue: QueueUnderTest, second: Backend, clock: ManualClock
) -> None:
    lease = await queue.start("j")
    async with open_transaction(queue.backend) as joined:
        assert await joined.check(queue.name, "j", lease.fence) is Renewal.HELD
        clock.advance(LEASE_MS + 1)
        sweeping = asyncio.create_task(second.settle(queue.name, [builders.stall(lease)]))
        await asyncio.wait({sweeping}, timeout=1)  # one that waits for the lock goes on waiting
        assert await joined.settle(queue.name, builders.complete(lease)) is Settled.APPLIED
        await joined.commit()
        (swept,) = await asyncio.gather(sweeping, return_exceptions=True)

    assert swept in ((Settled.HELD,), (Settled.LOST,)) or isinstance(swept, BackendUnavailable)
    record = await queue.record("j")
    assert (record.state, record.stalls) == (State.COMPLETED, 0)


@pytest.mark.promise("P-114", "P-62", "P-83")
async def test_listeners_hear_of_a_transaction_once_it_is_committed(
    queue: QueueUnderTest, second: Backend
) -> None:
    await queue.needs("push")
    async with second.listen([queue.name]) as listener, open_transaction(queue.backend) as joined:
        await joined.enqueue(queue.name, [builders.new_job("j")])
        await joined.commit()
        heard = Wake()
        async with asyncio.timeout(_PUSHED_WITHIN_MS / 1_000):
            while queue.name not in heard.queues:
                heard = await listener.wait(_PUSHED_WITHIN_MS)

    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-114")
async def test_a_session_of_somebody_else_is_joined_too(queue: QueueUnderTest) -> None:
    async with open_transaction(queue.backend) as owner:
        joined = queue.backend.joined(owner.session)
        await joined.enqueue(queue.name, [builders.new_job("j")])
        assert joined.is_async
        await owner.commit()

    assert await queue.state("j") is State.WAITING


@pytest.mark.promise("P-114")
async def test_where_a_session_blocks_nothing_suspends(queue: QueueUnderTest) -> None:
    lease = await queue.start("j")
    backend = queue.backend
    async with open_transaction(queue.backend):
        pass  # they are declared

    async def complete() -> Settled:
        async with backend.transaction(blocks=True, idle_ms=IDLE_MS) as joined:
            assert not joined.is_async
            assert await joined.check(queue.name, "j", lease.fence) is Renewal.HELD
            await backend.joined(joined.session).enqueue(queue.name, [builders.new_job("k")])
            answer = await joined.settle(queue.name, builders.complete(lease))
            await joined.commit()
        return answer

    assert await asyncio.to_thread(lambda: run_through(complete())) is Settled.APPLIED
    assert (await queue.state("j"), await queue.state("k")) == (State.COMPLETED, State.WAITING)


@pytest.mark.promise("P-114")
async def test_what_is_no_session_is_refused(queue: QueueUnderTest) -> None:
    async with open_transaction(queue.backend):
        pass  # they are declared

    with pytest.raises(InvalidSession, match="builtins"):
        queue.backend.joined(object())
