"""An operator at the command line, while workers in processes of their own work on the same file."""

from __future__ import annotations

import signal

import pytest

from leasemq import State
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url


@pytest.mark.slow
@pytest.mark.promise("P-52", "B58", "A-20", "A-45")
def test_a_pause_holds_in_every_process_and_over_restarts_until_it_is_lifted(place: Place) -> None:
    for name in ("J", "K"):
        place.enqueue("gated", "gate", id=name)
    workers = [place.worker(name, lease_s=4) for name in ("A", "B")]
    for name in ("J", "K"):
        place.ledger.wait("start", name)
    place.leasemq("pause", "default")

    for n in range(5):
        place.enqueue("quick", id=f"waits-{n}")
        place.enqueue("quick", id=f"delayed-{n}", delay=0.2)
    place.open_gate("gate")
    for name in ("J", "K"):
        place.wait_for_state(name, State.COMPLETED)
    place.wait_for(lambda: place.counts().waiting == 10, "what was delayed has come due")
    for worker in workers:
        worker.signal(signal.SIGTERM)
    assert [worker.exit_code() for worker in workers] == [0, 0]
    place.worker("C", concurrency=4, lease_s=4, is_ready=True)
    counts = place.counts()
    assert (counts.paused, counts.waiting, counts.active, counts.completed) == (True, 10, 0, 2)

    place.leasemq("resume", "default")
    place.wait_for_completed(12)
    for name in ("waits", "delayed"):
        assert [len(place.ledger.starts(f"{name}-{n}")) for n in range(5)] == [1] * 5
