"""Enqueue and ids: what is stored, what is answered, what a repeat does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasemq.backend import Backend
from leasemq.errors import InvalidJobId, InvalidSetting, Refused
from leasemq.protocol.insight import CancelAnswer
from leasemq.protocol.model import Acceptance, Keep, NewJob, Ref, Settled, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, PAYLOAD, new_job
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.conformance.store import Store

EVERY_BYTE = bytes(range(256))
BAD_IDS = {"empty": "", "257 bytes": "x" * 257, "NUL": "a\x00b", "newline": "a\nb", "surrogate": "\ud800"}


@pytest.mark.promise("P-01", "P-40", "A-2")
async def test_a_stored_job_reads_back_as_it_was_given(queue: QueueUnderTest) -> None:
    creator = Ref(queue="elsewhere", id="maker", generation=3)
    keep = Keep(result_ms=1, record_ms=2, dead_ms=3)
    given = new_job(
        payload=EVERY_BYTE, priority=-7, max_stalls=4, keep=keep, ttl_ms=HOUR_MS, creator=creator,
        overrides=b"\x00\xff", headers=b"trace",
    )  # fmt: skip

    (answer,) = await queue.put(given)

    record = await queue.record()
    assert answer.created
    assert answer.ref == record.ref == Ref(queue="mail", id="j", generation=1)
    assert answer.state is record.state is State.WAITING
    assert (record.task, record.payload, record.priority) == ("tests.send", EVERY_BYTE, -7)
    assert (record.max_stalls, record.keep, record.creator) == (4, keep, creator)
    assert (record.overrides, record.headers) == (b"\x00\xff", b"trace")
    assert record.created_ms == record.due_ms == queue.clock()
    assert record.expires_ms == queue.clock() + HOUR_MS
    assert (record.attempts, record.failures, record.stalls, record.fence) == (0, 0, 0, 0)


@pytest.mark.promise("P-03", "P-40", "B06", "E-5")
async def test_an_enqueue_repeated_after_a_lost_reply_leaves_one_job(queue: QueueUnderTest) -> None:
    jobs = [new_job(f"j{number}") for number in range(100)]
    await queue.put(*jobs)

    again = await queue.put(*jobs)

    assert {answer.acceptance for answer in again} == {Acceptance.EXISTING}
    assert (await queue.counts()).accepted == 100


async def _reach(queue: QueueUnderTest, state: State) -> None:
    """Bring job `j` of an otherwise empty queue into a state."""
    match state:
        case State.SCHEDULED:
            await queue.enqueue("j", delay_ms=HOUR_MS)
        case State.WAITING:
            await queue.enqueue("j")
        case State.ACTIVE:
            await queue.start()
        case State.BLOCKED:
            await queue.put(builders.with_parent("j", "p"))
        case State.COMPLETED:
            await queue.finish()
        case State.FAILED:
            await queue.die()
        case State.CANCELLED:
            await queue.enqueue("j")
            assert await queue.cancel() is CancelAnswer.CANCELLED
        case State.EXPIRED:
            await queue.enqueue("j", ttl_ms=1)
            queue.clock.advance(2)
            await queue.backend.advance(queue.name, 10)
    assert await queue.state() is state


@pytest.mark.promise("P-40", "B45", "E-6")
@pytest.mark.parametrize("state", list(State))
async def test_a_known_id_is_answered_in_every_state_and_nothing_changes(
    queue: QueueUnderTest, state: State
) -> None:
    await _reach(queue, state)
    before, told = await queue.record(), await queue.events()

    (answer,) = await queue.enqueue("j", payload=b"other", priority=9, delay_ms=5)

    assert not answer.created
    assert (answer.ref, answer.acceptance, answer.state) == (before.ref, Acceptance.EXISTING, state)
    assert await queue.record() == before
    assert await queue.events() == told


@pytest.mark.promise("P-40")
async def test_a_known_id_says_whether_the_payload_is_the_same(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")

    (same,) = await queue.enqueue("j")
    (other,) = await queue.enqueue("j", payload=b"other")

    assert same.same_payload
    assert not other.same_payload


@pytest.mark.promise("P-40")
async def test_one_id_twice_in_one_call_is_one_job(queue: QueueUnderTest) -> None:
    first, second = await queue.enqueue("j", "j")

    assert (first.acceptance, second.acceptance) == (Acceptance.CREATED, Acceptance.EXISTING)
    assert (await queue.counts()).accepted == 1


@pytest.mark.promise("P-40", "A-5", "B45")
async def test_twenty_enqueues_of_one_id_at_once_leave_one_job(
    queue: QueueUnderTest, second: Backend
) -> None:
    views = [queue.backend, second]

    answers = await asyncio.gather(
        *(views[number % 2].enqueue(queue.name, [new_job()]) for number in range(20))
    )

    assert sorted(answer.created for (answer,) in answers) == [False] * 19 + [True]
    assert (await queue.counts()).accepted == 1


@pytest.mark.promise("P-40")
async def test_an_id_belongs_to_its_queue(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", payload=b"mail")

    (answer,) = await queue.backend.enqueue("other", [new_job(payload=b"other")])

    assert answer.created
    assert (await queue.record()).payload == b"mail"


@pytest.mark.promise("P-40", "P-32")
async def test_answers_come_in_the_order_asked(queue: QueueUnderTest) -> None:
    await queue.enqueue("b")

    answers = await queue.enqueue("c", "b", "a")

    assert [answer.ref.id for answer in answers] == ["c", "b", "a"]
    assert [answer.created for answer in answers] == [True, False, True]


@pytest.mark.promise("P-43")
async def test_an_empty_batch_is_answered_with_nothing(queue: QueueUnderTest) -> None:
    assert list(await queue.put()) == []
    assert (await queue.counts()).accepted == 0


@pytest.mark.promise("P-32", "A-4")
async def test_a_thousand_jobs_in_one_call_are_all_stored_in_order(queue: QueueUnderTest) -> None:
    ids = [f"j{number:04}" for number in range(1_000)]

    answers = await queue.enqueue(*ids)

    assert all(answer.created for answer in answers)
    assert await queue.claim_ids() == ids


@pytest.mark.promise("P-42", "A-4")
@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
async def test_a_refused_id_leaves_nothing_of_its_batch_stored(queue: QueueUnderTest, bad: str) -> None:
    with pytest.raises(InvalidJobId):
        await queue.enqueue("good", bad)

    assert (await queue.counts()).accepted == 0
    assert await queue.state("good") is None


@pytest.mark.promise("P-32", "P-01", "B55")
@pytest.mark.parametrize("priority", [-101, 101])
async def test_a_priority_out_of_range_is_refused_before_anything_is_stored(
    queue: QueueUnderTest, priority: int
) -> None:
    with pytest.raises(Refused):
        await queue.put(new_job("good"), new_job("bad", priority=priority))

    assert (await queue.counts()).accepted == 0


REFUSED_FIELDS: dict[str, dict[str, Any]] = {  # Any: fields of NewJob
    "negative delay": {"delay_ms": -5},
    "negative ttl": {"ttl_ms": -1},
    "negative stalls": {"max_stalls": -1},
    "debounce without a window": {"unique": Unique(key="k", mode=UniqueMode.DEBOUNCE)},
    "throttle without a window": {"unique": Unique(key="k", mode=UniqueMode.THROTTLE)},
    "negative window": {"unique": Unique(key="k", window_ms=-1)},
}


@pytest.mark.promise("P-31", "P-41", "P-23", "P-30", "B36")
@pytest.mark.parametrize("fields", REFUSED_FIELDS.values(), ids=REFUSED_FIELDS.keys())
async def test_a_number_out_of_range_is_refused_before_anything_is_stored(
    queue: QueueUnderTest, fields: dict[str, Any]
) -> None:
    with pytest.raises(Refused):
        await queue.put(new_job("good"), new_job("bad", **fields))

    assert (await queue.counts()).accepted == 0


@pytest.mark.promise("P-01")
async def test_a_queue_is_known_from_its_first_job_on(queue: QueueUnderTest) -> None:
    assert list(await queue.backend.queues()) == []

    await queue.enqueue("j")
    await queue.backend.enqueue("archive", [new_job()])
    await queue.backend.obliterate("archive", force=False)

    assert list(await queue.backend.queues()) == ["archive", "mail"]


@pytest.mark.promise("P-01")
async def test_what_one_view_enqueued_another_one_runs(queue: QueueUnderTest, store: Store) -> None:
    await queue.enqueue("j")
    other = QueueUnderTest(backend=await store.open(), clock=queue.clock)

    lease = await other.lease(worker="B")

    assert (lease.ref.id, lease.payload) == ("j", PAYLOAD)
    assert await other.settle(builders.complete(lease)) is Settled.APPLIED
    assert await queue.state() is State.COMPLETED


@pytest.mark.promise("P-20")
async def test_a_lease_carries_all_that_running_and_deciding_need(queue: QueueUnderTest) -> None:
    keep = Keep(result_ms=7)
    job = NewJob(id="j", task="t", payload=EVERY_BYTE, max_stalls=5, keep=keep, overrides=b"o", headers=b"h")
    await queue.put(job)

    lease = await queue.lease()

    assert (lease.ref.id, lease.task, lease.payload) == ("j", "t", EVERY_BYTE)
    assert (lease.overrides, lease.headers, lease.keep) == (b"o", b"h", keep)
    assert (lease.attempts, lease.failures, lease.stalls, lease.max_stalls) == (1, 0, 0, 5)
    assert (lease.created_ms, lease.checkpoint, lease.suspect) == (queue.clock(), None, False)
    assert lease.lease_until_ms == queue.clock() + builders.LEASE_MS
    assert (lease.incarnation, lease.cancel_requested) == ("A-1", False)


@pytest.mark.promise("P-41")
@pytest.mark.parametrize("field", ["mode", "until"])
async def test_a_unique_mode_given_as_plain_text_is_refused(queue: QueueUnderTest, field: str) -> None:
    unique = Unique(key="k", **{field: {"mode": "throttle", "until": "start"}[field]})  # type: ignore[arg-type]  # on purpose

    with pytest.raises(InvalidSetting, match="UniqueMode"):
        await queue.enqueue("j", unique=unique)

    assert await queue.state() is None


@pytest.mark.promise("P-31", "P-18", "B36")
@pytest.mark.parametrize("field", ["delay_ms", "ttl_ms", "due_at_ms", "max_stalls"])
@pytest.mark.parametrize("value", [-1, 2**63, 1.5])
async def test_a_number_out_of_its_range_is_refused(queue: QueueUnderTest, field: str, value: int) -> None:
    with pytest.raises(InvalidSetting, match=field):
        await queue.enqueue("j", **{field: value})

    assert await queue.state() is None
