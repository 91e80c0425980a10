"""How a worker process stops: what runs may finish, the rest goes back, and no budget is spent."""

from __future__ import annotations

import signal
import time

import pytest

from leasemq import State
from tests.end_to_end.ledger import Line
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

NOBODY_WAITS_FOR_A_LEASE_S = 60.0  # so long that a recovery by its end would fail these tests
# On a busy machine. The exact times are shown in virtual time, by tests/worker/test_shutdown.py.
AT_ONCE_S = 5.0
NO_OPS = tuple(f"no-op-{number}" for number in range(10))


def enqueue_no_ops(place: Place) -> None:
    """Ten jobs that return at once."""
    for id_ in NO_OPS:
        place.enqueue("quick", id=id_)


def held_ms(place: Place, job: str) -> int:
    """How long after its claim the newest attempt of a job was last renewed."""
    attempt = place.record(job).history[-1]
    return attempt.renewed_ms - attempt.claimed_ms


def names(lines: list[Line]) -> list[str]:
    """Which workers wrote them."""
    return [line.values["name"] for line in lines]


@pytest.mark.slow
@pytest.mark.promise("P-80", "P-81", "A-16", "B10", "E-25")
def test_a_job_that_ends_within_the_drain_time_is_finished_and_nothing_else_is_begun(place: Place) -> None:
    lease_s = 1.0  # shorter than the drain: only heartbeats keep the job
    stopping = place.worker("A", lease_s=lease_s, drain_s=10)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    place.worker("B", lease_s=lease_s, is_ready=True)
    stopping.signal(signal.SIGTERM)
    enqueue_no_ops(place)
    place.wait_for_completed(10)
    place.wait_for(lambda: held_ms(place, "J") > 2_000 * lease_s, "heartbeats go on for two leases")
    place.open_gate("gate")
    code = stopping.exit_code()
    place.wait_for_completed(11)

    record = place.record("J")
    assert code == 0
    assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
    assert names(place.ledger.starts("J")) == ["A"]
    assert {name for id_ in NO_OPS for name in names(place.ledger.starts(id_))} == {"B"}
    assert set(place.ledger.runs().values()) == {1}


@pytest.mark.slow
@pytest.mark.promise("P-81", "A-16", "B10", "E-22")
@pytest.mark.parametrize("task", ["gated", "stubborn"])
def test_a_job_that_outlasts_the_drain_time_is_given_back_at_once(place: Place, task: str) -> None:
    stopping = place.worker("A", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, drain_s=1)
    place.enqueue(task, "gate", id="J")
    place.ledger.wait("start", "J")
    place.worker("B", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, is_ready=True)
    told_at_s = time.monotonic()
    stopping.signal(signal.SIGTERM)
    enqueue_no_ops(place)
    second = place.ledger.wait("start", "J", nth=2)
    stopping.exit_code()
    stopped_at_s = time.monotonic()
    place.open_gate("gate")
    place.wait_for_completed(11)

    record = place.record("J")
    assert second.at_s - told_at_s <= 1 + AT_ONCE_S
    assert stopped_at_s - told_at_s <= 1 + AT_ONCE_S
    assert (record.state, record.attempts, record.stalls, record.failures) == (State.COMPLETED, 2, 0, 0)
    assert names(place.ledger.starts("J")) == ["A", "B"]
    assert names(place.ledger.lines("end", "J")) == ["B"]
    assert record.refused_count == 0


@pytest.mark.promise("P-81", "B12")
def test_a_worker_with_nothing_but_a_job_due_in_an_hour_stops_at_once(place: Place) -> None:
    stopping = place.worker("A", is_ready=True)
    place.enqueue("quick", id="later", delay=3_600)
    due_ms = place.record("later").due_ms
    told_at_s = time.monotonic()
    stopping.signal(signal.SIGTERM)
    code = stopping.exit_code()
    took_s = time.monotonic() - told_at_s

    record = place.record("later")
    assert code == 0
    assert took_s <= AT_ONCE_S
    assert (record.state, record.due_ms, record.attempts) == (State.SCHEDULED, due_ms, 0)


@pytest.mark.slow
@pytest.mark.promise("P-81", "B12")
def test_a_second_signal_gives_back_what_runs_within_half_a_second(place: Place) -> None:
    stopping = place.worker("A", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, drain_s=60)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    stopping.signal(signal.SIGTERM)
    place.wait_for(lambda: "Draining" in stopping.output, "the worker drains")
    told_at_s = time.monotonic()
    stopping.signal(signal.SIGTERM)
    code = stopping.exit_code()
    took_s = time.monotonic() - told_at_s
    given_back = place.record("J")
    place.worker("B", lease_s=NOBODY_WAITS_FOR_A_LEASE_S)
    place.open_gate("gate")
    record = place.wait_for_state("J", State.COMPLETED)

    assert code != 0
    assert took_s <= AT_ONCE_S
    assert given_back.state is State.WAITING
    assert (record.attempts, record.stalls, record.failures) == (2, 0, 0)


@pytest.mark.slow
@pytest.mark.promise("P-81")
def test_a_terminal_that_goes_is_one_drain_however_often_it_says_so(place: Place) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have it ignored
    try:
        stopping = place.worker("A", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, drain_s=30, is_ready=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    stopping.signal(signal.SIGHUP)
    place.wait_for(lambda: "Draining" in stopping.output, "it drains")
    stopping.signal(signal.SIGHUP)
    place.open_gate("gate")

    assert stopping.exit_code() == 0
    record = place.record("J")
    assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)
