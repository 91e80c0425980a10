"""Names: what is allowed works everywhere, what is not is refused, and no two names are confused."""

from __future__ import annotations

import pytest

from leasemq.errors import InvalidName, InvalidQueueName
from leasemq.protocol.insight import Filter, Schedule
from leasemq.protocol.model import Settled, State, Unique
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS, new_job
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest

ODD_NAMES = [
    "a", "a:delayed", "a:", "{a}", "a{b}", "mail out", "日本", "q/../x", "q%2Fx", "*", "amq.gen-x", "'; drop",
    "a\\b", '"', "a_", "a%", "A", "e\u0301", "\u00e9", "states", "ids", " a", "a ", "x" * 255, "é" * 128,
]  # fmt: skip
REFUSED = {
    "empty": "",
    "257 bytes": "x" * 257,
    "129 two-byte characters": "é" * 129,
    "NUL": "a\x00",
    "newline": "a\n",
    "C1 control": "a\x85",
    "surrogate": "\udc80",
}


@pytest.mark.promise("P-42", "B47", "A-50")
async def test_odd_queue_names_are_kept_apart_and_each_runs_its_own_jobs(queue: QueueUnderTest) -> None:
    backend = queue.backend
    for name in ODD_NAMES:
        await backend.enqueue(name, [new_job(f"{number}", payload=name.encode()) for number in range(3)])
    assert list(await backend.queues()) == sorted(ODD_NAMES, key=str.encode)

    for name in ODD_NAMES:
        own = QueueUnderTest(backend=backend, clock=queue.clock, name=name)
        assert (await own.counts()).waiting == 3
        leases = (await own.claim(5)).leases
        assert [(lease.ref.queue, lease.payload) for lease in leases] == [(name, name.encode())] * 3
        answers = await backend.settle(name, [builders.complete(lease) for lease in leases])
        assert list(answers) == [Settled.APPLIED] * 3
        assert {event.ref.queue for event in await own.events()} == {name}


@pytest.mark.promise("P-42", "B47", "P-53")
async def test_draining_a_queue_leaves_one_whose_name_begins_alike(queue: QueueUnderTest) -> None:
    for name in ("a", "a:delayed", "{a}", "*"):
        await queue.backend.enqueue(name, [new_job(f"{number}") for number in range(3)])

    assert await queue.backend.drain("a", ALL) == 3

    for name in ("a:delayed", "{a}", "*"):
        assert (await queue.backend.counts(name)).waiting == 3


@pytest.mark.promise("P-42", "A-5", "A-50")
async def test_odd_ids_work_on_every_path(queue: QueueUnderTest) -> None:
    await queue.enqueue(*ODD_NAMES)
    assert await queue.claim_ids() == ODD_NAMES
    queue.fall_silent()
    assert await queue.sweep() == [Settled.APPLIED] * len(ODD_NAMES)
    leases = (await queue.claim(ALL)).leases
    await queue.backend.settle(queue.name, [builders.complete(lease) for lease in leases])

    page = await queue.backend.find(queue.name, Filter(), None, ALL)
    records = await queue.backend.get(queue.name, ODD_NAMES)

    assert [record.ref.id for record in page.jobs] == ODD_NAMES[::-1]
    assert [record and record.state for record in records] == [State.COMPLETED] * len(ODD_NAMES)


@pytest.mark.promise("P-42", "P-41")
async def test_odd_unique_keys_are_kept_apart(queue: QueueUnderTest) -> None:
    jobs = [new_job(f"{number}", unique=Unique(key=key)) for number, key in enumerate(ODD_NAMES)]

    answers = await queue.put(*jobs)

    assert all(answer.created for answer in answers)


@pytest.mark.promise("P-42", "B47")
@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_queue_name_stores_nothing(queue: QueueUnderTest, name: str) -> None:
    with pytest.raises(InvalidQueueName):
        await queue.backend.enqueue(name, [new_job()])

    assert list(await queue.backend.queues()) == []


@pytest.mark.promise("P-42", "P-41")
@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_key_or_task_name_stores_nothing(queue: QueueUnderTest, name: str) -> None:
    with pytest.raises(InvalidName):
        await queue.put(new_job("good"), new_job("bad", unique=Unique(key=name)))
    with pytest.raises(InvalidName):
        await queue.put(new_job("good"), new_job("bad", task=name))

    assert (await queue.counts()).accepted == 0


@pytest.mark.promise("P-42", "P-70")
async def test_odd_schedule_and_worker_names_are_kept_apart(queue: QueueUnderTest) -> None:
    for name in ODD_NAMES:
        await queue.backend.put_schedule(Schedule(name=name, queue="mail", spec=name.encode(), cursor_ms=0))

    kept = await queue.backend.schedules()

    assert [schedule.name for schedule in kept] == sorted(ODD_NAMES, key=str.encode)
    assert all(schedule.spec == schedule.name.encode() for schedule in kept)


@pytest.mark.promise("P-42", "P-70")
@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_schedule_name_is_not_put(queue: QueueUnderTest, name: str) -> None:
    with pytest.raises(InvalidName):
        await queue.backend.put_schedule(Schedule(name=name, queue="mail", spec=b"", cursor_ms=0))
    with pytest.raises(InvalidName):
        await queue.backend.put_schedule(Schedule(name="s", queue=name, spec=b"", cursor_ms=0))

    assert list(await queue.backend.schedules()) == []


@pytest.mark.promise("P-42")
async def test_names_are_compared_by_bytes_and_never_normalised(queue: QueueUnderTest) -> None:
    composed, decomposed = "\u00e9", "e\u0301"

    first, second = await queue.enqueue(composed, decomposed)
    claimed = await queue.backend.claim(queue.name, 2, LEASE_MS, builders.claimant())

    assert first.created
    assert second.created
    assert [lease.ref.id for lease in claimed.leases] == [composed, decomposed]
