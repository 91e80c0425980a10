"""The newest attempt lives in the job's row and moves to the history at the next claim; nobody can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.model import HISTORY_LIMIT, Lease, Outcome, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.conftest import Peek


async def claimed(backend: SqliteBackend, worker: str = "A") -> Lease:
    (lease,) = (await backend.claim("mail", 1, 30_000, builders.claimant(worker))).leases
    return lease


@pytest.mark.promise("P-64")
async def test_a_job_that_succeeds_at_once_writes_no_attempt_row(backend: SqliteBackend, peek: Peek) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    await backend.settle("mail", [builders.complete(await claimed(backend))])

    (record,) = await backend.get("mail", ["a"])
    assert record is not None
    assert [(attempt.number, attempt.outcome) for attempt in record.history] == [(1, Outcome.COMPLETED)]
    assert await peek("SELECT count(*) FROM leasemq_attempt") == [(0,)]


@pytest.mark.promise("P-64")
async def test_each_attempt_keeps_its_own_error_and_worker(
    backend: SqliteBackend, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    for worker, error in (("A", b"first"), ("B", b"second")):
        lease = await claimed(backend, worker)
        await backend.settle("mail", [replace(builders.retry(lease), error=error)])
        clock.advance(1_000)
    await backend.settle("mail", [builders.release(await claimed(backend, "C"))])

    (record,) = await backend.get("mail", ["a"])

    assert record is not None
    told = [(attempt.worker, attempt.error, attempt.outcome) for attempt in record.history]
    assert told == [
        ("A", b"first", Outcome.RETRIED),
        ("B", b"second", Outcome.RETRIED),
        ("C", None, Outcome.RELEASED),
    ]
    assert record.error == b"second"


@pytest.mark.promise("P-21", "P-64")
async def test_the_history_keeps_the_newest_hundred(backend: SqliteBackend, peek: Peek) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    first = builders.release(await claimed(backend))
    await backend.settle("mail", [first])
    for _ in range(HISTORY_LIMIT):
        await backend.settle("mail", [builders.release(await claimed(backend))])

    (record,) = await backend.get("mail", ["a"])

    assert record is not None
    assert [attempt.number for attempt in record.history] == list(range(2, HISTORY_LIMIT + 2))
    assert (await peek("SELECT count(*) FROM leasemq_attempt"))[0][0] == HISTORY_LIMIT - 1
    assert await backend.settle("mail", [first]) == (Settled.LOST,)  # too long ago to be recognised


@pytest.mark.promise("P-03", "P-11")
async def test_a_settlement_is_recognised_after_later_claims(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    settlements = []
    for _ in range(5):
        settlements.append(builders.release(await claimed(backend)))
        await backend.settle("mail", [settlements[-1]])
    await claimed(backend)

    assert await backend.settle("mail", settlements) == (Settled.REPLAYED,) * 5
    (record,) = await backend.get("mail", ["a"])
    assert record is not None
    assert (record.state, record.attempts, record.refused_count) == (State.ACTIVE, 6, 0)


@pytest.mark.promise("P-54", "P-64")
async def test_a_replay_keeps_the_attempts_of_earlier_runs(
    backend: SqliteBackend, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    dead = builders.fail(await claimed(backend))
    await backend.settle("mail", [dead])
    await backend.replay("mail", ["a"], 7)
    again = await claimed(backend)

    (record,) = await backend.get("mail", ["a"])

    assert record is not None
    told = [(attempt.number, attempt.outcome, attempt.replay) for attempt in record.history]
    assert told == [(1, Outcome.FAILED, False), (1, None, True)]
    assert again.fence.number > dead.fence.number
    assert await backend.settle("mail", [dead]) == (Settled.REPLAYED,)
