"""Events tell what is stored, whatever was lost between a caller and its backend."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from leasemq.protocol.insight import EVENT_AGE_MS, Event, EventKind
from leasemq.protocol.lifecycle import is_legal
from leasemq.protocol.model import Ref, State
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.player import IDS, QUEUES, Call, Player
from leasemq.testing.scripts import script

SEEDS = range(12)
LOST = 0.1  # of all requests, and of all replies
STAYS = frozenset({EventKind.CANCEL_REQUESTED, EventKind.REPLACED, EventKind.RESCHEDULED, EventKind.PROGRESS})


@pytest.mark.promise("P-62", "E-35", "P-03")
@pytest.mark.parametrize("seed", SEEDS)
async def test_events_match_what_is_stored_wherever_a_caller_was_cut_off(
    queue: QueueUnderTest, seed: int
) -> None:
    dice, wire = random.Random(seed), Wire()  # noqa: S311  a seeded die, so that each run is the same
    player = Player(faulty(queue.backend, wire), queue.clock)
    for call in filter(_is_told, script(seed)):
        if dice.random() < LOST:
            wire.lose_request(call.name)
        elif dice.random() < LOST:
            wire.lose_reply(call.name)
        await player.play(call)

    for name in QUEUES:
        told = await _all(queue, name)
        await _check_records(queue, name, told)
        await _check_counts(queue, name, told)
        _check_moves(told)


def _is_told(call: Call) -> bool:
    """Whether all that a call does is still told at the end: events that a week has trimmed are not."""
    return call.name != "renew" and dict(call.arguments).get("by_ms", 0) < EVENT_AGE_MS


async def _all(queue: QueueUnderTest, name: str) -> list[Event]:
    told: list[Event] = []
    cursor = ""
    while events := (await queue.backend.events(name, cursor, 1_000)).events:
        told += events
        cursor = events[-1].cursor
    return told


async def _check_records(queue: QueueUnderTest, name: str, told: list[Event]) -> None:
    last = {event.ref.id: event for event in told}
    for id_, record in zip(IDS, await queue.backend.get(name, IDS), strict=True):
        event = last.get(id_)
        if record is None:
            assert event is None or event.kind is EventKind.REMOVED
        else:
            assert event is not None
            assert (event.ref, event.state, event.attempt) == (record.ref, record.state, record.attempts)


async def _check_counts(queue: QueueUnderTest, name: str, told: list[Event]) -> None:
    counts = await queue.backend.counts(name)
    kinds = Counter(event.kind for event in told)
    last = {event.ref: event.state for event in told}
    stored = Counter(state for state in last.values() if state is not None)
    assert (kinds[EventKind.ENQUEUED], kinds[EventKind.REMOVED]) == (counts.accepted, counts.removed)
    assert {state: stored[state] for state in State} == {state: getattr(counts, state) for state in State}


def _check_moves(told: list[Event]) -> None:
    states: dict[Ref, State | None] = {}
    for event in told:
        before = states.get(event.ref)
        states[event.ref] = event.state
        if event.kind is EventKind.REMOVED:
            assert before is not None
        elif event.state is before:
            assert event.kind in STAYS
        else:
            assert event.state is not None
            assert is_legal(before, event.state), event
