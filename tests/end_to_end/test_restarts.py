"""A job that outlives many restarts of its workers: it goes on from its last checkpoint."""

from __future__ import annotations

import signal
import time

import pytest

from leasemq import State
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

RESTARTS = 10
NOBODY_WAITS_FOR_A_LEASE_S = 60.0


def restart_during(place: Place, *, steps: int, step_s: float, drain_s: float) -> None:
    """Restart the worker ten times while one job of so many steps runs; no run from zero would end."""
    place.enqueue("in_steps", steps, step_s, id="J")
    for restart in range(1, RESTARTS + 1):
        worker = place.worker(f"release-{restart}", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, drain_s=drain_s)
        place.ledger.wait("start", "J", nth=restart)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    place.worker("last", lease_s=NOBODY_WAITS_FOR_A_LEASE_S)
    record = place.wait_for_state("J", State.COMPLETED, within_s=60 + steps * step_s)

    progress = [line.values["done"] for line in place.ledger.starts("J")]
    assert (record.attempts, record.stalls, record.failures) == (RESTARTS + 1, 0, 0)
    assert record.refused_count == 0
    assert progress == sorted(progress)
    assert progress[-1] > 0


@pytest.mark.slow
@pytest.mark.promise("P-81", "P-63")
def test_ten_restarts_during_one_job_cost_it_nothing(place: Place) -> None:
    restart_during(place, steps=150, step_s=0.02, drain_s=0.05)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-81", "P-63")
def test_ten_restarts_during_a_job_of_twenty_seconds(place: Place) -> None:
    restart_during(place, steps=200, step_s=0.1, drain_s=1)


@pytest.mark.long
@pytest.mark.promise("P-81", "B12")
def test_a_second_signal_during_a_job_of_twenty_seconds(place: Place) -> None:
    worker = place.worker("A", lease_s=NOBODY_WAITS_FOR_A_LEASE_S, drain_s=60)
    place.enqueue("in_steps", 200, 0.1, id="J")
    place.ledger.wait("start", "J")
    worker.signal(signal.SIGTERM)
    place.wait_for(lambda: "Draining" in worker.output, "the worker drains")
    told_at_s = time.monotonic()
    worker.signal(signal.SIGTERM)
    code = worker.exit_code()
    took_s = time.monotonic() - told_at_s

    record = place.record("J")
    assert code != 0
    assert took_s <= 1
    assert (record.state, record.stalls, record.failures) == (State.WAITING, 0, 0)
