"""A job that kills its process every time becomes a dead letter, and takes no other job with it."""

from __future__ import annotations

import pytest

from leasemq import State
from tests.end_to_end.place import Place, Process
from tests.servers.stores import SERVED

pytestmark = pytest.mark.by_url

GOOD = 20
LEASE_S = 1.0


class RestartLoop:
    """Starts a worker again whenever it has died. Owner: the test."""

    def __init__(self, place: Place, concurrency: int) -> None:
        self._place = place
        self._concurrency = concurrency
        self._worker: Process = self._started()
        self.deaths = 0

    def tend(self) -> None:
        """Start the worker again if it has died."""
        if not self._worker.is_alive:
            self.deaths += 1
            self._worker = self._started()

    def _started(self) -> Process:
        return self._place.worker(
            f"life-{len(self._place.processes)}", concurrency=self._concurrency, lease_s=LEASE_S
        )


@pytest.mark.slow
@pytest.mark.promise("P-23", "P-24", "P-54", "A-14", "B07")
@pytest.mark.parametrize("concurrency", [1, 10, 100])
def test_a_poison_job_dies_alone_after_its_last_stall(place: Place, concurrency: int) -> None:
    if place.backend_name in SERVED and concurrency != 10:
        pytest.skip("left out: how many run beside it is the worker's affair, and shown on SQLite")
    place.enqueue("poison", id="P")
    good = [f"good-{number}" for number in range(GOOD)]
    for id_ in good:
        place.enqueue("quick", id=id_)
    loop = RestartLoop(place, concurrency)

    def over() -> bool:
        loop.tend()
        counts = place.counts()
        return counts.completed + counts.failed == GOOD + 1

    place.wait_for(over, "every job has ended", within_s=60)

    poison = place.job("P")
    runs = place.ledger.runs()
    assert (runs["P"], loop.deaths) == (3, 3)
    assert (poison["state"], poison["reason"]) == ("failed", "stalled")
    assert (poison["stalls"], poison["failures"]) == (3, 0)
    assert [job["id"] for job in place.leasemq("dead")["jobs"]] == ["P"]
    assert place.counts().completed == GOOD
    if concurrency == 1:
        assert {id_: runs[id_] for id_ in good} == dict.fromkeys(good, 1)

    (place.folder / "mended").touch()
    place.leasemq("dead", "replay", "P")
    place.wait_for_state("P", State.COMPLETED)
    assert place.leasemq("dead")["jobs"] == []
