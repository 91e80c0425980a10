"""Waiting for what a worker in another process does: no wait hangs, and each ends as its job did."""

from __future__ import annotations

import random

import pytest

from leasemq import State
from leasemq.errors import WaitTimeout
from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

REPEATS = 200
TOGETHER = 10


@pytest.mark.slow
@pytest.mark.promise("P-60", "E-32", "B57")
def test_two_hundred_waits_for_a_worker_in_another_process_all_return(place: Place) -> None:
    place.hurry()
    place.worker("A", concurrency=TOGETHER, lease_s=30, is_ready=True)
    brief = task_of(place.app, "brief")
    dice = random.Random(1)

    for _ in range(REPEATS):
        job = brief.enqueue_sync(dice.choice([0.0, 0.001, 0.005]))
        assert job.result_sync(timeout=30) == job.id
    jobs = brief.enqueue_many_sync([(dice.random() * 0.1,) for _ in range(REPEATS)])
    assert [job.result_sync(timeout=30) for job in jobs] == [job.id for job in jobs]
    assert set(place.ledger.runs().values()) == {1}


@pytest.mark.slow
@pytest.mark.promise("P-60", "B57")
def test_a_wait_that_times_out_leaves_the_job_alone_and_one_for_a_retried_job_has_its_success(
    place: Place,
) -> None:
    place.worker("A", concurrency=2, lease_s=30, is_ready=True)
    gated = place.enqueue("gated", "gate")
    place.ledger.wait("start", gated.id)
    with pytest.raises(WaitTimeout):
        gated.result_sync(timeout=0.5)
    retried = place.enqueue("first_fails")
    assert retried.result_sync(timeout=30) == "A"
    assert place.record(gated.id).state is State.ACTIVE
    place.open_gate("gate")
    assert gated.result_sync(timeout=30) == "A"
    assert place.ledger.runs() == {gated.id: 1, retried.id: 2}
