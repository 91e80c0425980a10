"""What must hold after every test: the counts add up, equal a full read, and nothing is left over."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from leasemq.backend import Backend
from leasemq.protocol.insight import Filter, JobRecord
from leasemq.protocol.model import FENCE_LIMIT, HISTORY_LIMIT, REFUSED_LIMIT, Outcome, State
from leasemq.testing.conformance.relay import carry_out

PAGE = 500
EVERY_JOB = Filter()


async def every_record(backend: Backend, queue: str, where: Filter = EVERY_JOB) -> list[JobRecord]:
    """Read all jobs of a queue, page by page, newest accepted first."""
    records: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await backend.find(queue, where, cursor, PAGE)
        records.extend(page.jobs)
        if page.cursor is None:
            return records
        assert page.jobs, "a page without jobs promised another one"
        cursor = page.cursor


async def check_books(backend: Backend) -> None:
    """Assert P-43 in every queue, that each record makes sense, and that follow-ups come to an end."""
    queues = await backend.queues()
    assert list(queues) == sorted(queues, key=str.encode)
    for queue in queues:
        await check_queue(backend, queue)
    await carry_out(backend, queues)
    for queue in queues:
        assert not await backend.outbox(queue, PAGE), f"follow-ups of {queue!r} are never done with"
        await check_queue(backend, queue)


async def check_queue(backend: Backend, queue: str) -> None:
    """Assert that one queue's stored counts equal what reading every job finds."""
    records = await every_record(backend, queue)
    counts = await backend.counts(queue)
    found = Counter(record.state for record in records)
    stored = {state: getattr(counts, state.value) for state in State}
    assert stored == {state: found[state] for state in State}, f"counts of {queue!r} are not what is stored"
    assert counts.stored == len(records), f"accepted - removed of {queue!r} is not the number of records"
    assert counts.removed >= 0
    assert counts.refused >= sum(record.refused_count for record in records), "a refused write is not counted"
    ended = Counter(attempt.outcome for record in records for attempt in record.history)
    assert counts.stalls >= ended[Outcome.STALLED], f"a stall in {queue!r} is not counted"
    assert counts.releases >= ended[Outcome.RELEASED], f"a release in {queue!r} is not counted"
    assert len({record.ref.id for record in records}) == len(records), "an id was read twice"
    waits = counts.oldest_waiting_ms is not None
    assert waits == (counts.waiting > 0), "the oldest waiting age is given exactly while something waits"
    for record in records:
        check_record(record)


def check_record(record: JobRecord) -> None:
    """Assert that the fields of one record agree with each other."""
    active = record.state is State.ACTIVE
    assert (record.lease_until_ms is not None) == active, f"only an active job has a lease: {record}"
    assert (record.ended_ms is not None) == record.state.is_terminal, f"only what ended has an end: {record}"
    assert record.fence < FENCE_LIMIT
    assert len(record.history) <= HISTORY_LIMIT
    assert len(record.refused) == min(record.refused_count, REFUSED_LIMIT)
    if record.state is not State.BLOCKED:
        assert not record.open_parents or record.state.is_terminal, f"open parents, yet not blocked: {record}"
    if record.state in {State.SCHEDULED, State.WAITING, State.BLOCKED}:
        assert not record.cancel_requested, f"a job that does not run was not cancelled at once: {record}"
    _check_history(record)


def _check_history(record: JobRecord) -> None:
    for before, after in pairwise(record.history):
        expected = 1 if after.replay else before.number + 1
        assert after.number == expected, f"attempts are not numbered one by one: {record}"
    fences = [attempt.fence for attempt in record.history]
    assert fences == sorted(set(fences)), f"fences do not grow: {record}"
    assert not fences or fences[-1] == record.fence, f"the newest fence is not the last attempt's: {record}"
    running = [attempt for attempt in record.history if attempt.ended_ms is None]
    assert len(running) == (record.state is State.ACTIVE), f"attempts without an end: {record}"
