"""Plain jobs, which scripts handle many at a time, among others, damaged, and left over from another life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
import redis

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.accepting import packed_terms
from leasemq.backends.redis.keys import queue_prefix
from leasemq.backends.redis.layout import short
from leasemq.backends.redis.leasing import leases
from leasemq.backends.redis.settings import located
from leasemq.errors import CorruptRecord
from leasemq.protocol.model import Acceptance, Keep, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.servers import RedisServer

QUEUE, LEASE_MS, DAY_MS = "mail", 30_000, 86_400_000
PREFIX = queue_prefix("leasemq", QUEUE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def backend(server: RedisServer, clock: ManualClock) -> AsyncIterator[RedisBackend]:
    backend = RedisBackend(replace(located(server.url), clock=clock))
    await backend.prepare()
    yield backend
    await backend.close()


@pytest.fixture
def raw(server: RedisServer) -> Iterator[redis.Redis]:
    with closing(redis.Redis(port=server.port)) as client:
        yield client


@pytest.mark.promise("P-03", "P-40")
async def test_plain_jobs_among_known_ones_and_twins_are_each_answered_for_itself(
    backend: RedisBackend,
) -> None:
    await backend.enqueue(QUEUE, [builders.new_job("known")])

    plain = [builders.new_job(id_) for id_ in ("a", "known", "b", "b", "c")]
    rare = builders.new_job("rare", headers=b"h")
    answers = await backend.enqueue(QUEUE, [*plain, rare, builders.new_job("d")])

    created, existing = Acceptance.CREATED, Acceptance.EXISTING
    assert [answer.acceptance for answer in answers] == [
        created, existing, created, existing, created, created, created
    ]  # fmt: skip
    assert [answer.ref.id for answer in answers] == ["a", "known", "b", "b", "c", "rare", "d"]
    counts = await backend.counts(QUEUE)
    assert (counts.waiting, counts.accepted) == (6, 6)


@pytest.mark.promise("P-03", "P-40")
async def test_twins_in_one_call_are_one_job(backend: RedisBackend) -> None:
    answers = await backend.enqueue(QUEUE, [builders.new_job(id_) for id_ in ("a", "b", "a")])

    created, existing = Acceptance.CREATED, Acceptance.EXISTING
    assert [answer.acceptance for answer in answers] == [created, created, existing]
    assert (await backend.counts(QUEUE)).waiting == 2


@pytest.mark.promise("P-32")
async def test_jobs_keep_their_order_however_many_came_before(backend: RedisBackend) -> None:
    ids = [f"j{number}" for number in range(70)]  # of which the last ones share the second bucket
    await backend.enqueue(QUEUE, [builders.new_job(id_) for id_ in ids])

    twins = ("one by one", "one by one", "another")
    await backend.enqueue(QUEUE, [builders.new_job(id_) for id_ in twins])
    await backend.enqueue(QUEUE, [builders.new_job("at last")])

    leases = (await backend.claim(QUEUE, 100, LEASE_MS, builders.claimant())).leases
    assert [lease.ref.id for lease in leases] == [*ids, "one by one", "another", "at last"]


@pytest.mark.promise("P-32", "P-10")
async def test_plain_jobs_and_others_are_handed_out_in_one_order(backend: RedisBackend) -> None:
    jobs = [
        builders.new_job(f"j{number}", **({"headers": b"h"} if number % 3 == 2 else {}))
        for number in range(8)
    ]
    await backend.enqueue(QUEUE, jobs)

    claimed = await backend.claim(QUEUE, 7, LEASE_MS, builders.claimant())

    assert [lease.ref.id for lease in claimed.leases] == [f"j{number}" for number in range(7)]
    assert [lease.payload for lease in claimed.leases] == [job.payload for job in jobs[:7]]
    answers = await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])
    assert answers == (Settled.APPLIED,) * 7


@pytest.mark.promise("P-03", "P-05")
async def test_a_completion_that_stands_twice_in_one_call_is_applied_once(backend: RedisBackend) -> None:
    await backend.enqueue(QUEUE, [builders.new_job("a"), builders.new_job("b")])
    one, other = (await backend.claim(QUEUE, 2, LEASE_MS, builders.claimant())).leases
    first, second = builders.complete(one), builders.complete(other)

    answers = await backend.settle(QUEUE, [first, first, second, builders.complete(one)])

    assert answers == (Settled.APPLIED, Settled.REPLAYED, Settled.APPLIED, Settled.LOST)
    counts = await backend.counts(QUEUE)
    assert (counts.completed, counts.active, counts.refused) == (2, 0, 1)


@pytest.mark.promise("P-44", "P-99")
async def test_a_run_left_over_from_another_life_counts_for_nothing(
    backend: RedisBackend, raw: redis.Redis
) -> None:
    await backend.enqueue(QUEUE, [builders.new_job("a")])
    (lease,) = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases
    await backend.settle(QUEUE, [builders.complete(lease)])
    key = PREFIX + b"r:" + short("a")
    run = await asyncio.to_thread(raw.get, key)
    await backend.remove(QUEUE, ["a"], force=True)
    await asyncio.to_thread(raw.set, key, run)

    await backend.enqueue(QUEUE, [builders.new_job("a")])

    (record,) = await backend.get(QUEUE, ["a"])
    assert record is not None
    assert (record.state, record.attempts) == (State.WAITING, 0)
    (again,) = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases
    assert again.attempts == 1


@pytest.mark.promise("P-99")
def test_a_lease_whose_id_cannot_be_read_takes_no_other_along() -> None:
    record = bytes(33) + b"\1" + bytes(3) + b"payload"  # of the terms 1; as text it would be an id, too
    run = b"\1" + bytes(91)

    (lease,) = leases(QUEUE, [b"\xff", record, b"other", record], [1, packed_terms(2, Keep(), "send")], run)

    assert (lease.ref.id, lease.task, lease.payload) == ("other", "send", b"payload")


@pytest.mark.promise("P-99", "P-34")
async def test_a_plain_job_whose_run_is_gone_is_ended_once_its_lease_is_over(
    backend: RedisBackend, raw: redis.Redis, clock: ManualClock
) -> None:
    await backend.enqueue(QUEUE, [builders.new_job("a")])
    await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())
    await asyncio.to_thread(raw.delete, PREFIX + b"r:" + short("a"))
    clock.advance(2 * LEASE_MS)

    await backend.advance(QUEUE, 100)

    counts = await backend.counts(QUEUE)
    assert (counts.active, counts.waiting, counts.failed) == (0, 0, 1)


@pytest.mark.promise("P-60", "P-34")
async def test_a_plain_result_lapses_before_its_record(backend: RedisBackend, clock: ManualClock) -> None:
    await backend.enqueue(QUEUE, [builders.new_job("a")])
    (lease,) = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases
    settlement = replace(builders.complete(lease), result=b"r", result_ms=DAY_MS, keep_ms=3 * DAY_MS)
    await backend.settle(QUEUE, [settlement])
    clock.advance(2 * DAY_MS)

    await backend.prune(QUEUE, 100)

    (record,) = await backend.get(QUEUE, ["a"])
    assert record is not None
    assert (record.state, record.result, record.history[0].worker) == (State.COMPLETED, None, "A")


@pytest.mark.promise("P-50")
async def test_a_plain_job_with_a_mark_a_note_or_a_later_lease_is_still_told_by_its_record(
    backend: RedisBackend, clock: ManualClock
) -> None:
    await backend.enqueue(QUEUE, [builders.new_job(id_) for id_ in ("a", "b")])
    marked, noted = (await backend.claim(QUEUE, 2, LEASE_MS, builders.claimant())).leases
    await backend.cancel(QUEUE, ["a"])
    await backend.note(QUEUE, [replace(builders.checkpoint(noted), number=3)])

    answers = await backend.settle(QUEUE, [builders.complete(marked), builders.complete(noted)])

    assert answers == (Settled.CANCEL_REQUESTED, Settled.APPLIED)
    one, other = await backend.get(QUEUE, ["a", "b"])
    assert one is not None
    assert other is not None
    assert (one.state, one.attempts, one.cancel_requested) == (State.ACTIVE, 1, True)
    assert (other.state, other.attempts, other.history[0].fence) == (State.COMPLETED, 1, noted.fence.number)


@pytest.mark.promise("P-85")
@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_record_of_a_newer_release_is_left_alone_wherever_it_lies(
    backend: RedisBackend, raw: redis.Redis, clock: ManualClock, is_plain: bool
) -> None:
    more = {} if is_plain else {"headers": b"h"}
    await backend.enqueue(QUEUE, [builders.new_job("new", **more), builders.new_job("own")])
    await backend.enqueue(QUEUE, [builders.new_job(id_, delay_ms=1) for id_ in ("new later", "own later")])
    await _of_layout(raw, 3, "new", "new later")
    clock.advance(1)

    promoted = (await backend.advance(QUEUE, 100)).promoted
    claimed = await backend.claim(QUEUE, 100, LEASE_MS, builders.claimant())

    assert promoted == 1
    assert [lease.ref.id for lease in claimed.leases] == ["own", "own later"]
    counts = await backend.counts(QUEUE)
    assert (counts.waiting, counts.scheduled, counts.failed) == (1, 1, 0)
    with pytest.raises(CorruptRecord, match="newer release"):
        await backend.get(QUEUE, ["new"])
    await _of_layout(raw, 2 if is_plain else 1, "new")
    (lease,) = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases
    await _of_layout(raw, 3, "new")
    clock.advance(2 * LEASE_MS)
    await backend.advance(QUEUE, 100)
    assert (await backend.counts(QUEUE)).active == 3
    await _of_layout(raw, 2 if is_plain else 1, "new")
    assert await backend.settle(QUEUE, [builders.complete(lease)]) == (Settled.APPLIED,)
    await _of_layout(raw, 3, "new")
    clock.advance(100 * DAY_MS)
    assert await backend.prune(QUEUE, 100) == 0
    assert (await backend.counts(QUEUE)).completed == 1


async def _of_layout(raw: redis.Redis, version: int, *ids: str) -> None:
    for id_ in ids:
        await asyncio.to_thread(raw.setrange, PREFIX + b"j:" + short(id_), 0, bytes((version,)))
