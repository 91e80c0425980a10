"""Many processes on one file: every job runs once, every id is one job, whoever forks or crowds in."""

from __future__ import annotations

import json
import time

import pytest

from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-93")
def test_twenty_thousand_jobs_by_two_workers_run_once_each(place: Place) -> None:
    began_at_s = time.monotonic()
    for name in ("A", "B"):
        place.worker(name, concurrency=100, lease_s=30)
    producer = place.program("producing", "20000")
    place.wait_for_completed(20_000, within_s=100)
    took_s = time.monotonic() - began_at_s
    runs = place.ledger.runs()

    assert producer.exit_code() == 0
    assert len(runs) == 20_000
    assert set(runs.values()) == {1}
    counts = place.counts()
    assert (counts.accepted, counts.completed, counts.failed) == (20_000, 20_000, 0)
    print(f"20,000 jobs in {took_s:.1f} s, processes started and all")


@pytest.mark.slow
@pytest.mark.promise("P-93", "B24")
def test_eight_workers_on_one_file_meet_no_error(place: Place) -> None:
    workers = [place.worker(f"w{number}", concurrency=4, lease_s=10) for number in range(8)]
    producer = place.program("producing", "500")
    place.wait_for_completed(500, within_s=60)

    assert producer.exit_code() == 0
    assert list(place.ledger.runs().values()) == [1] * 500
    for worker in workers:
        assert "Lost" not in worker.output
        assert "ERROR" not in worker.output


@pytest.mark.slow
@pytest.mark.promise("P-40", "P-41", "P-93", "A-5", "A-6", "B45")
@pytest.mark.parametrize(("processes", "calls"), [(20, 1), (5, 50)])
def test_one_id_or_key_from_many_processes_at_once_is_one_job(
    place: Place, processes: int, calls: int
) -> None:
    crowd = place.program("crowd", str(processes), str(calls))
    code = crowd.exit_code(90)

    assert code == 0, crowd.output
    others = processes * calls - 1
    assert json.loads(crowd.output) == {
        **{f"{way} created": 1 for way in ("id", "skip", "replace", "debounce", "throttle")},
        "id existing": others,
        "skip skipped": others,
        "replace replaced": others,
        "debounce debounced": others,
        "throttle skipped": others,
    }
    assert place.counts().accepted == 5


@pytest.mark.slow
@pytest.mark.promise("P-40", "P-93", "B43")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_a_process_that_is_connected_enqueue_and_work(place: Place, method: str) -> None:
    parent = place.program("forking", method)
    code = parent.exit_code(60)

    runs = place.ledger.runs()
    assert code == 0, parent.output
    assert "malformed" not in parent.output
    assert len(runs) == 1_002
    assert set(runs.values()) == {1}
    assert place.counts().completed == 1_002
