"""A listener in a process of its own hears what others do, in each job's order, and holds nobody up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from leasemq import State
from tests.end_to_end.place import Place, Process

pytestmark = pytest.mark.by_url

STORIES = {
    "completed": ["enqueued", "claimed", "completed"],
    "failed": ["enqueued", "claimed", "failed"],
    "retried": ["enqueued", "claimed", "retried", "promoted", "claimed", "completed"],
    "progress": ["enqueued", "claimed", "progress", "completed"],
    "stalled": ["enqueued", "claimed", "stalled", "claimed", "completed"],
    "cancelled": ["enqueued", "cancelled"],
    "cancelled while it ran": ["enqueued", "claimed", "cancel_requested", "cancelled"],
}


def told_by(listener: Process) -> list[dict[str, Any]]:
    """What a listener has printed so far."""
    lines = listener.output.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def stories(told: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Each job's events, in the order in which they were told."""
    found: dict[str, list[str]] = {}
    for event in told:
        found.setdefault(event["id"], []).append(event["kind"])
    return found


def run_all(place: Place) -> None:
    """Let each kind of thing happen to a job."""
    first = place.worker("A", is_ready=True)
    place.enqueue("gated", "gate", id="stalled")
    place.wait_for_state("stalled", State.ACTIVE)
    place.kill(first)
    place.worker("B", concurrency=4)
    place.enqueue("quick", id="completed")
    place.enqueue("odd_async", "ValueError", id="failed")
    place.enqueue("first_fails", id="retried")
    place.enqueue("first_ends_as", "progress", "", id="progress")
    place.enqueue("gated", "never", id="cancelled while it ran")
    place.enqueue("quick", id="cancelled", delay=600).cancel_sync()
    place.wait_for_state("cancelled while it ran", State.ACTIVE)
    place.enqueue("quick", id="cancelled while it ran").cancel_sync()
    place.wait_for(lambda: place.record("stalled").stalls == 1, "the job of the dead worker is recovered")
    place.open_gate("gate")
    place.wait_for(lambda: place.counts().waiting + place.counts().active == 0, "all jobs have ended")


@pytest.mark.slow
@pytest.mark.promise("P-62", "A-32", "A-31", "E-35")
def test_a_listener_in_another_process_hears_every_change_in_each_job_s_order(place: Place) -> None:
    listener, slow = place.program("following"), place.program("following")
    place.ledger.wait("opened")
    place.enqueue("quick", id="cancelled first").cancel_sync()
    place.wait_for(lambda: told_by(slow) and told_by(listener), "both listeners hear")
    place.freeze(slow)
    run_all(place)  # which a listener that does not read must not hold up

    place.wait_for(lambda: STORIES.items() <= stories(told_by(listener)).items(), "all is told")
    (progress,) = [event["progress"] for event in told_by(listener) if event["kind"] == "progress"]
    assert (progress["current"], progress["total"]) == (1, 2)
    slow.thaw()
    whole = told_by(listener)
    place.wait_for(lambda: stories(told_by(slow)) == stories(whole), "the slow one is told it all, too")
    resumed = place.program("following", whole[3]["cursor"])
    place.wait_for(lambda: told_by(resumed) == whole[4:], "another process goes on from a cursor")
