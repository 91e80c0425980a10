"""Producers, workers, sweeps and operators on the same few jobs at the same time: the books stay right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from leasemq.backends.postgres import PostgresBackend
from leasemq.protocol.insight import EVENT_AGE_MS, Event, EventKind
from leasemq.protocol.lifecycle import is_legal
from leasemq.protocol.model import Acceptance, NewJob, Ref, State, Unique
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.books import check_books
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import IDS, QUEUES, Call, Player
from leasemq.testing.scripts import script
from tests.backends.postgres.conftest import Operator, becomes, placed, settings_for

PROCESSES = 4
STAYS = {EventKind.CANCEL_REQUESTED, EventKind.REPLACED, EventKind.RESCHEDULED, EventKind.PROGRESS}


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all of them."""
    return ManualClock()


@pytest_asyncio.fixture
async def backends(
    postgres_url: str, schema: str, clock: ManualClock
) -> AsyncIterator[list[PostgresBackend]]:
    """Backends of several imitated processes."""
    settings = settings_for(postgres_url, schema, clock=clock)
    made = [PostgresBackend(settings) for _ in range(PROCESSES)]
    for backend in made:
        await backend.prepare()
    yield made
    for backend in made:
        await backend.close()


@pytest.mark.promise("P-43", "P-62", "P-94")
@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(2, marks=pytest.mark.slow),
        pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
async def test_whoever_races_counts_equal_what_is_stored_and_events_tell_it(
    backends: list[PostgresBackend], clock: ManualClock, scripts: int
) -> None:
    await asyncio.gather(
        *(_play(backend, clock, place * scripts, scripts) for place, backend in enumerate(backends))
    )

    for queue in QUEUES:
        told = await _told(backends[0], queue)
        last = {event.ref.id: event for event in told}
        for id_, record in zip(IDS, await backends[0].get(queue, IDS), strict=True):
            event = last.get(id_)
            if record is None:
                assert event is None or event.kind is EventKind.REMOVED
            else:
                assert event is not None
                assert (event.ref, event.state, event.attempt) == (record.ref, record.state, record.attempts)
        _check_moves(told)
    await check_books(backends[0])


async def _play(backend: PostgresBackend, clock: ManualClock, seed: int, scripts: int) -> None:
    for number in range(seed, seed + scripts):
        player = Player(backend, clock)
        for call in filter(_is_told, script(number)):
            await player.play(call)


def _is_told(call: Call) -> bool:
    """Whether its events are still there at the end, and it asks for no more than a race can answer."""
    return call.name != "renew" and abs(dict(call.arguments).get("by_ms", 0)) < EVENT_AGE_MS // 1_000


async def _told(backend: PostgresBackend, queue: str) -> list[Event]:
    told: list[Event] = []
    cursor = ""
    while events := (await backend.events(queue, cursor, 1_000)).events:
        told += events
        cursor = events[-1].cursor
    return told


def _check_moves(told: list[Event]) -> None:
    """Assert that each job's events are in an order that its life can have."""
    states: dict[Ref, State | None] = {}
    for event in told:
        before = states.get(event.ref)
        states[event.ref] = event.state
        if event.kind is EventKind.REMOVED:
            assert before is not None, event
        elif event.state is before:
            assert event.kind in STAYS, event
        else:
            assert event.state is not None, event
            assert is_legal(before, event.state), event


@pytest.mark.promise("P-94")
async def test_batches_that_bring_the_same_new_keys_in_different_orders_stand_in_one_line(
    backends: list[PostgresBackend], postgres_url: str, operator: Operator, schema: str
) -> None:
    one, other, *_ = backends
    await one.enqueue("q", [builders.new_job("first", unique=Unique(key="k"))])
    taken = "INSERT INTO {s}.hold SELECT queue, 'm', 'x', 1 FROM {s}.hold"
    waiting = (
        "SELECT pg_blocking_pids(pid) FROM pg_stat_activity"
        " WHERE application_name = %s AND wait_event_type = 'Lock'"
    )
    with psycopg.connect(postgres_url) as third:  # has the key in the middle for now
        pid = third.info.backend_pid
        third.execute(placed(taken, schema))
        batches = [
            asyncio.create_task(backend.enqueue("q", [_keyed(key, name) for key in keys]))
            for backend, name, keys in ((one, "one", "amz"), (other, "other", "zma"))
        ]

        def waiters() -> list[list[int]]:
            return [pids for (pids,) in operator.execute(waiting, (schema,)).fetchall()]

        await becomes(lambda: len(waiters()) == len(batches), "both wait")
        behind = waiters()
        third.rollback()
    told = [answer.acceptance for batch in batches for answer in await batch]

    assert sum(pid in pids for pids in behind) == 1
    assert sorted(told) == [*[Acceptance.CREATED] * 3, *[Acceptance.SKIPPED] * 3]


@pytest.mark.promise("P-94")
async def test_a_known_id_in_a_batch_leaves_its_new_key_to_others(
    backends: list[PostgresBackend], operator: Operator, schema: str
) -> None:
    (backend, *_) = backends
    await backend.enqueue("q", [builders.new_job("one-a")])
    batch = [_keyed("a", "one"), _keyed("z", "one")]
    told = [answer.acceptance for answer in await backend.enqueue("q", batch)]
    held = operator.execute(placed("SELECT key FROM {s}.hold", schema)).fetchall()
    (later,) = await backend.enqueue("q", [_keyed("a", "other")])

    assert told == [Acceptance.EXISTING, Acceptance.CREATED]
    assert held == [("z",)]
    assert later.acceptance is Acceptance.CREATED


def _keyed(key: str, name: str) -> NewJob:
    return builders.new_job(f"{name}-{key}", unique=Unique(key=key))
