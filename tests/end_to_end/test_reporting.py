"""What a job tells of itself is read from another process while it runs."""

from __future__ import annotations

import pytest

from leasemq import State
from leasemq.notes import Progress
from leasemq.protocol.insight import EventKind
from tests.end_to_end.place import QUEUE, Place

TASKS = ("reports", "reports_in_a_thread", "reports_in_a_process")
HALF = Progress(current=1, total=2, message="half", data={"rows": 7}, attempt=1)


@pytest.mark.slow
@pytest.mark.promise("A-31", "P-63", "E-37", "E-38")
def test_progress_of_a_running_job_is_read_and_heard_of_in_another_process(place: Place) -> None:
    place.worker("A", concurrency=3, lease_s=30)
    jobs = [place.enqueue(task, "gate", id=task) for task in TASKS]
    for job in jobs:
        place.wait_for(lambda job=job: job.progress_sync() is not None, f"{job} tells how far it is")

        assert (job.state_sync(), job.progress_sync(), job.log_sync()) == (State.ACTIVE, HALF, ("begun",))
        kinds = [entry.kind for entry in job.history_sync().entries]
        assert kinds == ["enqueued", "claimed", "log", "progress"]
        assert place.events(job.id) == [EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.PROGRESS]
    shown = place.job(TASKS[0])
    assert (shown["state"], shown["progress"]["message"], shown["log"]) == ("active", "half", ["begun"])

    first = place.leasemq("job", f"{QUEUE}/{TASKS[0]}", "--history", "--limit", "3")
    assert [entry["kind"] for entry in first["history"]] == ["enqueued", "claimed", "log"]
    rest = place.leasemq("job", TASKS[0], "--history", "--cursor", first["cursor"])
    assert [entry["progress"]["current"] for entry in rest["history"]] == [1]

    place.open_gate("gate")
    for job in jobs:
        place.wait_for_state(job.id, State.COMPLETED)
        assert job.history_sync().entries[-1].kind == "completed"
