"""The command line looks at the file that workers are working on, from a process of its own."""

from __future__ import annotations

import subprocess

import pytest

from leasemq import State
from tests.end_to_end.place import COMMAND, ROOT, Place


@pytest.mark.slow
@pytest.mark.promise("P-43", "P-64", "P-93")
def test_the_command_line_sees_what_workers_do_to_the_same_file(place: Place) -> None:
    place.worker("A", concurrency=2, lease_s=10)
    place.enqueue("gated", "gate", id="running")
    place.enqueue("first_ends_as", "failed", "gate", id="dead")
    place.enqueue("quick", id="later", delay=3_600)
    start = place.ledger.wait("start", "running")
    place.wait_for_state("dead", State.FAILED)
    (queue,) = place.leasemq("queues")["queues"]
    listed = {job["id"]: job["state"] for job in place.leasemq("jobs")["jobs"]}
    running = place.job("running")
    place.open_gate("gate")
    place.wait_for_state("running", State.COMPLETED)
    (letter,) = place.leasemq("dead")["jobs"]
    (worker,) = place.leasemq("workers")["workers"]

    assert {state: queue[state] for state in ("scheduled", "active", "failed", "accepted")} == {
        "scheduled": 1,
        "active": 1,
        "failed": 1,
        "accepted": 3,
    }
    assert listed == {"running": "active", "dead": "failed", "later": "scheduled"}
    assert running["fence"] == start.fence
    assert [attempt["worker"] for attempt in running["history"]] == ["A"]
    assert (letter["id"], letter["failures"]) == ("dead", 1)
    assert place.job("dead")["error"]["message"] == "failed"
    assert (worker["worker"], worker["pid"]) == ("A", start.pid)


@pytest.mark.promise("P-93")
def test_an_unknown_job_is_one_line_and_a_code_other_than_zero(place: Place) -> None:
    place.enqueue("quick", id="known")
    done = subprocess.run(
        [*COMMAND, "job", "unknown", "--url", place.url],
        env=place.environment("cli"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "unknown" in done.stderr
