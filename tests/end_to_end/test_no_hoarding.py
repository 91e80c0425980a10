"""A worker claims what it can start and nothing more, so nothing waits behind a long job."""

from __future__ import annotations

import pytest

from tests.end_to_end.place import Place


@pytest.mark.slow
@pytest.mark.promise("P-80", "B55")
def test_jobs_behind_a_long_one_are_run_by_an_idle_worker(place: Place) -> None:
    place.worker("A", lease_s=10)
    place.enqueue("gated", "gate", id="long")
    place.ledger.wait("start", "long")
    place.worker("B", lease_s=10, is_ready=True)
    began_at_s = place.now_s()
    for number in range(5):
        place.enqueue("quick", id=f"short-{number}")
    place.wait_for_completed(5)
    starts = [start for number in range(5) for start in place.ledger.starts(f"short-{number}")]
    place.open_gate("gate")
    place.wait_for_completed(6)

    assert [start.values["name"] for start in starts] == ["B"] * 5
    assert max(start.at_s for start in starts) - began_at_s <= 5  # half of the lease
