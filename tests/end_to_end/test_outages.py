"""The file cannot be written for three leases while fifty jobs run: what that costs, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from leasemq import BackendUnavailable, State
from tests.end_to_end.outages import failing, full, locked, read_only, small_disk
from tests.end_to_end.place import Place, Process
from tests.end_to_end.waiting import never, until

LEASE_S = 1.5
JOBS = {"early": ("gated", 20), "through": ("gated", 15), "thread": ("stubborn", 15)}
Outage = Callable[[Place, Process], AbstractContextManager[None]]


@pytest.fixture
def on_a_small_disk(place: Place) -> Iterator[Place]:
    """The place, with its file on a disk that can be filled."""
    with small_disk(place.folder / "disk") as disk:
        place.file = disk / "jobs.db"
        place.use(f"sqlite:///{place.file}?busy_timeout_ms=700")
        yield place
        place.close()


@pytest.mark.slow
@pytest.mark.promise("P-16", "P-19", "P-82", "P-98", "B24", "A-17")
@pytest.mark.parametrize("outage", [locked, read_only, full, failing])
def test_an_outage_of_three_leases_loses_nothing(on_a_small_disk: Place, outage: Outage) -> None:
    place = on_a_small_disk
    worker = place.worker("A", concurrency=50, lease_s=LEASE_S, is_ready=True)
    jobs = [
        place.enqueue(task, gate, id=f"{gate}-{n}").id
        for gate, (task, count) in JOBS.items()
        for n in range(count)
    ]
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) == len(jobs), "all jobs run")
    with outage(place, worker):
        place.open_gate("early")
        place.ledger.wait_for(
            lambda ledger: len(ledger.lines("end")) == 20, "some jobs end during the outage"
        )
        never(lambda: not worker.is_alive, "the worker ended", for_s=3 * LEASE_S)
        place.open_gate("thread")
    newcomer = place.worker("B", concurrency=50, lease_s=LEASE_S)
    place.open_gate("through")
    place.wait_for_completed(len(jobs))

    records = [place.record(job) for job in jobs]
    assert {(one.state, one.stalls, one.failures) for one in records} == {(State.COMPLETED, 0, 0)}
    assert {one.attempts for one in records if not one.ref.id.startswith("through")} == {1}
    assert worker.is_alive
    assert newcomer.is_alive
    until(lambda: "BackendBack" in worker.output, "the worker says that the file is back")
    assert worker.output.count("\n") <= 40


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-04", "P-19", "P-93", "B24")
def test_a_file_locked_for_thirty_seconds_loses_nothing(place: Place) -> None:
    place.use(f"{place.url}?busy_timeout_ms=2000")
    workers = [place.worker(name, concurrency=10, lease_s=30, is_ready=True) for name in ("A", "B")]
    for number in range(500):
        place.enqueue("gated", "gate", id=f"job-{number}")
    with locked(place, workers[0]):
        place.open_gate("gate")
        with pytest.raises(BackendUnavailable):
            place.enqueue("quick", id="refused")
        never(lambda: not all(worker.is_alive for worker in workers), "a worker ended", for_s=30)
    place.wait_for_completed(500)

    assert place.counts().accepted == 500
    assert list(place.ledger.runs().values()) == [1] * 500
    assert all(worker.output.count("BackendLost") == 1 for worker in workers)
