"""Whatever handlers raise, a thousand times over: the worker is the same afterwards."""

from __future__ import annotations

import itertools
import signal

import pytest

from leasemq import State
from tests.end_to_end.apps.work import ODD, task_of
from tests.end_to_end.place import Place
from tests.end_to_end.waiting import until

SLOTS = 8
FAILING = 1_000


@pytest.mark.slow
@pytest.mark.promise("P-25", "P-80", "P-82", "B39")
def test_after_a_thousand_odd_failures_every_slot_is_free_and_signals_work(place: Place) -> None:
    worker = place.worker("A", concurrency=SLOTS, lease_s=30, is_ready=True)
    for name in ("odd_async", "odd_sync"):
        kinds = itertools.islice(itertools.cycle(ODD), FAILING // 2)
        task_of(place.app, name).enqueue_many_sync([(kind,) for kind in kinds])
    until(lambda: place.counts().failed == FAILING, "all have failed", within_s=60)
    assert worker.is_alive
    for task, gate in (("gated", "loop"), ("stubborn", "threads")):
        jobs = [place.enqueue(task, gate, id=f"{gate}-{n}").id for n in range(SLOTS)]
        until(lambda jobs=jobs: jobs == sorted(set(jobs) & place.ledger.runs().keys()), f"all {gate} at once")
        place.open_gate(gate)
        for job in jobs:
            place.wait_for_state(job, State.COMPLETED)
    worker.signal(signal.SIGTERM)

    assert worker.exit_code() == 0
    counts = place.counts()
    assert (counts.failed, counts.completed) == (FAILING, 2 * SLOTS)
