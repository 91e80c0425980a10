"""Delayed jobs by the real clock: they are in the file, not in a worker's memory."""

from __future__ import annotations

import pytest

from leasemq import State
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

DELAY_S = 2.0
LATEST_S = DELAY_S + 1  # P-31: started within a second after it is due


@pytest.mark.slow
@pytest.mark.calm
@pytest.mark.promise("P-31", "B36")
def test_a_delayed_job_starts_on_time_once_though_two_workers_run(place: Place) -> None:
    for name in ("A", "B"):
        place.worker(name, lease_s=2, is_ready=True)
    accepted_at_s = place.now_s()
    place.enqueue("quick", id="J", delay=DELAY_S)
    record = place.wait_for_state("J", State.COMPLETED)

    (start,) = place.ledger.starts("J")
    assert DELAY_S <= start.at_s - accepted_at_s <= LATEST_S
    assert (record.attempts, record.stalls) == (1, 0)


@pytest.mark.slow
@pytest.mark.calm
@pytest.mark.promise("P-01", "P-31", "B36", "E-10")
def test_a_delayed_job_outlives_the_only_worker_that_waited_for_it(place: Place) -> None:
    killed = place.worker("A", lease_s=2, is_ready=True)
    accepted_at_s = place.now_s()
    place.enqueue("quick", id="J", delay=DELAY_S)
    killed.kill()
    place.worker("B", lease_s=2)
    record = place.wait_for_state("J", State.COMPLETED)

    (start,) = place.ledger.starts("J")
    assert DELAY_S <= start.at_s - accepted_at_s <= LATEST_S
    assert (record.attempts, record.stalls) == (1, 0)
