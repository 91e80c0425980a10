"""The feed of events while several sessions write: nothing is passed over, and what follows is told after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import psycopg
import pytest
import pytest_asyncio

from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.functions import Functions
from leasemq.backends.postgres.settings import Settings
from leasemq.protocol.insight import BEGINNING, EVENT_AGE_MS, Event, EventKind
from leasemq.protocol.model import Keep
from leasemq.testing.conformance.builders import claimant, complete, new_job
from leasemq.testing.manual_clock import ManualClock
from tests.backends.postgres.conftest import Operator, becomes, placed, settings_for

QUEUE = "mail"


@pytest.fixture
def clock() -> ManualClock:
    """The backend's clock."""
    return ManualClock()


@pytest.fixture
def settings(postgres_url: str, schema: str, clock: ManualClock) -> Settings:
    """How the test's schema is used."""
    return settings_for(postgres_url, schema, clock=clock)


@pytest_asyncio.fixture
async def backend(settings: Settings) -> AsyncIterator[PostgresBackend]:
    """A backend on the test's schema."""
    made = PostgresBackend(settings)
    await made.prepare()
    yield made
    await made.close()


@pytest.fixture
def slow(postgres_url: str) -> Iterator[Operator]:
    """A session whose transactions stay open until it commits."""
    with psycopg.connect(postgres_url) as connection:
        yield connection


async def told(backend: PostgresBackend, cursor: str = BEGINNING) -> Sequence[Event]:
    """All events after a cursor."""
    return (await backend.events(QUEUE, cursor, 1_000)).events


@pytest.mark.promise("P-62", "P-94")
async def test_an_event_is_told_at_once_and_one_that_is_committed_late_is_not_passed_over(
    backend: PostgresBackend, settings: Settings, slow: Operator
) -> None:
    await backend.enqueue(QUEUE, [new_job("late"), new_job("quick")])
    cancel = Functions(settings.schema).routine("cancel")
    slow.execute(f"SELECT {cancel.qualified}(NULL, NULL, '{QUEUE}', ARRAY['late'], NULL)".encode())
    await backend.cancel(QUEUE, ["quick"])

    first = await backend.events(QUEUE, BEGINNING, 1_000)
    slow.commit()
    rest = await told(backend, first.cursor)

    enqueued = EventKind.ENQUEUED
    assert [(event.ref.id, event.kind) for event in first.events] == [
        ("late", enqueued), ("quick", enqueued), ("quick", EventKind.CANCELLED),
    ]  # fmt: skip
    assert [(event.ref.id, event.kind) for event in rest] == [("late", EventKind.CANCELLED)]
    assert await told(backend) == (*first.events, *rest)


@pytest.mark.promise("P-62")
async def test_a_job_that_waited_for_its_id_is_told_of_after_what_made_way_for_it(
    backend: PostgresBackend, settings: Settings, slow: Operator, operator: Operator
) -> None:
    await backend.enqueue(QUEUE, [new_job("j")])
    slow.execute(placed("DELETE FROM {s}.ready", settings.schema))
    slow.execute(placed("DELETE FROM {s}.job", settings.schema))
    waiting = asyncio.create_task(backend.enqueue(QUEUE, [new_job("j")]))
    await becomes(lambda: _waits(operator, settings.schema), "the enqueue waits for the removal")
    slow.execute(
        placed(
            "INSERT INTO {s}.event (queue, count, seq, at_ms, ids, lives, whats, attempts) SELECT key, 1,"
            " nextval('{s}.event_seq'), 0, ARRAY['j'], ARRAY[1], ARRAY[180], ARRAY[0] FROM {s}.queue",
            settings.schema,
        )
    )
    slow.execute(
        placed(
            "INSERT INTO {s}.tally (queue, removed, waiting) SELECT key, 1, -1 FROM {s}.queue",
            settings.schema,
        )
    )
    slow.commit()
    await waiting

    events = await told(backend)
    (record,) = await backend.get(QUEUE, ["j"])

    assert [event.kind for event in events] == [EventKind.ENQUEUED, EventKind.REMOVED, EventKind.ENQUEUED]
    assert record is not None
    assert await told(backend, record.born) == events[-1:]


def _waits(operator: Operator, name: str) -> bool:
    found = operator.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
        (name,),
    )
    return int(found.fetchall()[0][0]) > 0


@pytest.mark.promise("P-62")
async def test_readers_that_come_at_the_same_time_are_told_the_same(
    backend: PostgresBackend, settings: Settings
) -> None:
    second = PostgresBackend(settings)
    for number in range(40):
        await backend.enqueue(QUEUE, [new_job(f"j{number}")])
    await second.events(QUEUE, None, 0)
    for number in range(40):
        await backend.cancel(QUEUE, [f"j{number}"])

    one, other = await asyncio.gather(told(backend), told(second))

    assert one == other
    assert len(one) == 80
    await second.close()


@pytest.mark.promise("P-62", "P-43")
async def test_a_sweep_folds_what_was_counted_and_forgets_what_is_old(
    backend: PostgresBackend, settings: Settings, clock: ManualClock, operator: Operator
) -> None:
    for number in range(60):
        await backend.enqueue(QUEUE, [new_job(f"j{number}")])
    await backend.cancel(QUEUE, [f"j{number}" for number in range(50)])
    before = await backend.counts(QUEUE)
    clock.advance(EVENT_AGE_MS)
    await backend.cancel(QUEUE, ["j55"])

    assert await backend.prune(QUEUE, 0) == 0

    counts = await backend.counts(QUEUE)
    assert (counts.accepted, counts.cancelled, counts.waiting) == (
        60,
        before.cancelled + 1,
        before.waiting - 1,
    )
    assert [(event.ref.id, event.kind) for event in (await backend.events(QUEUE, "", 1_000)).events] == [
        ("j55", EventKind.CANCELLED)
    ]
    for table in ("tally", "event"):
        found = operator.execute(placed(f"SELECT count(*) FROM {{s}}.{table}", settings.schema))  # noqa: S608  our names
        assert int(found.fetchall()[0][0]) == 1


@pytest.mark.promise("P-62", "P-94")
async def test_the_feed_is_read_while_a_sweep_is_at_work(
    backend: PostgresBackend, clock: ManualClock, settings: Settings, slow: Operator, operator: Operator
) -> None:
    await backend.enqueue(QUEUE, [new_job("j", keep=Keep(result_ms=2_000, record_ms=1_000))])
    (lease,) = (await backend.claim(QUEUE, 1, 1_000, claimant())).leases
    await backend.settle(QUEUE, [complete(lease)])
    clock.advance(1_500)
    assert await backend.prune(QUEUE, 10) == 1  # the record; its result stays
    clock.advance(1_000)
    await backend.enqueue(QUEUE, [new_job("k")])
    slow.execute(placed("SELECT FROM {s}.slip FOR UPDATE", settings.schema))
    stubborn = PostgresBackend(replace(settings, lock_ms=60_000))  # gives nobody a turn in between
    pruning = asyncio.create_task(stubborn.prune(QUEUE, 10))
    waits = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    await becomes(lambda: operator.execute(waits, (settings.schema,)).fetchall(), "it waits for the result")
    events = await told(backend)
    is_at_work = not pruning.done()
    slow.rollback()

    assert is_at_work
    assert len(events) == 5
    assert await pruning == 1
    await stubborn.close()


@pytest.mark.promise("P-62", "P-94", "B22")
async def test_one_sweep_catches_up_with_more_steps_than_it_takes_at_once(
    backend: PostgresBackend, settings: Settings, schema: str, operator: Operator
) -> None:
    few = PostgresBackend(replace(settings, event_limit=10))
    await backend.enqueue(QUEUE, [new_job("j")])
    for statement in (
        "INSERT INTO {s}.tally (queue, accepted, waiting)"
        " SELECT q.key, 1, 1 FROM {s}.queue AS q, generate_series(1, 110000)",
        "INSERT INTO {s}.event (queue, count, seq, at_ms, ids, lives, whats, attempts)"
        " SELECT q.key, 1, nextval('{s}.event_seq'), 0, '{j}', '{1}', '{12}', '{0}'"
        " FROM {s}.queue AS q, generate_series(1, 110000)",
    ):
        operator.execute(placed(statement, schema))
    await few.prune(QUEUE, 10)
    await few.close()
    left = operator.execute(
        placed("SELECT (SELECT count(*) FROM {s}.tally), (SELECT count(*) FROM {s}.event)", schema)
    ).fetchall()

    assert left[0][0] < 20
    assert left[0][1] <= 10
    assert (await backend.counts(QUEUE)).accepted == 110_001
