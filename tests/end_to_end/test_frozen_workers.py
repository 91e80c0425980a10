"""A worker frozen past its lease comes back: whatever it sends is refused, and the newer attempt stands."""

from __future__ import annotations

import signal

import pytest

from leasemq import Retry, State
from leasemq.protocol.insight import EventKind
from tests.end_to_end.apps.hooks import HOLD
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

LEASE_S = 1.0
WRITES = ("renew", "completed", "retried", "failed", "released", "progress", "checkpoint", "offer")
ALIKE = ("retried", "failed", "progress", "offer")  # sent as "completed" or "checkpoint" is
GIVING_UP = ("renew", "released")  # what a worker may send of itself when its lease may have ended


def refused_writes(place: Place, job: str) -> list[str]:
    """The refused writes that the record lists, oldest first."""
    return [entry.write for entry in place.record(job).refused]


@pytest.mark.slow
@pytest.mark.promise("P-02", "P-10", "P-11", "P-23", "B01")
def test_a_worker_frozen_past_its_lease_cannot_finish_its_job_any_more(place: Place) -> None:
    frozen = place.worker("A", lease_s=LEASE_S, hook=place.hook("completed", "J", HOLD))
    place.enqueue("quick", id="J")
    place.ledger.wait("struck", "J", pid=frozen.pid)
    other = place.worker("B", lease_s=LEASE_S, is_ready=True)
    place.freeze_held(frozen)
    place.wait_for_state("J", State.COMPLETED)
    frozen.thaw()
    other.signal(signal.SIGTERM)
    other.exit_code()
    place.enqueue("quick", id="K")
    place.wait_for_state("K", State.COMPLETED)

    job = place.job("J")
    assert (job["state"], job["result"]) == ("completed", "B")
    assert (job["attempts"], job["stalls"], job["failures"]) == (2, 1, 0)
    assert [line.values["name"] for line in place.ledger.starts("J")] == ["A", "B"]
    listed = [entry["write"] for entry in job["refused"]]
    assert listed.count("completed") == 1
    assert set(listed) <= {"completed", "renew"}
    assert frozen.output.count("write=completed answer=lost") == 1
    assert [entry["outcome"] for entry in job["history"]] == ["stalled", "completed"]
    assert place.events("J").count(EventKind.COMPLETED) == 1
    first, second = place.record("J").history
    assert 0 <= second.claimed_ms - (first.renewed_ms + 1_000 * LEASE_S) <= 1_000
    assert frozen.is_alive
    assert [line.values["name"] for line in place.ledger.starts("K")] == ["A"]
    assert place.leasemq("dead")["jobs"] == []


@pytest.mark.slow
@pytest.mark.promise("P-11", "P-17", "P-63", "P-64", "A-11", "B01", "E-17")
@pytest.mark.long_on_servers("write", *ALIKE)
@pytest.mark.parametrize("write", WRITES)
def test_every_write_of_a_stale_attempt_is_refused_while_the_newer_one_runs(place: Place, write: str) -> None:
    frozen = place.worker("A", lease_s=LEASE_S, drain_s=0, hook=place.hook(write, "J", HOLD))
    place.enqueue("first_ends_as", write, "gate", id="J", retry=Retry(0 if write == "failed" else 3))
    stale = place.ledger.wait("start", "J")
    if write == "released":
        frozen.signal(signal.SIGTERM)
    place.ledger.wait("struck", "J")
    place.freeze_held(frozen)
    place.worker("B", lease_s=LEASE_S)
    newer = place.ledger.wait("start", "J", nth=2)
    frozen.thaw()
    place.wait_for(lambda: write in refused_writes(place, "J"), "the stale write is refused")
    before = place.record("J")
    place.open_gate("gate")
    place.wait_for_state("J", State.COMPLETED)

    assert (before.state, before.fence) == (State.ACTIVE, newer.fence)
    job = place.job("J")
    listed = [entry["write"] for entry in job["refused"]]
    assert listed.count(write) == 1
    assert set(listed) <= {write, *GIVING_UP}
    assert {entry["fence"] for entry in job["refused"]} == {stale.fence}
    assert job["result"] == "B"
    assert (job["progress"], job["checkpoint_bytes"], place.counts().accepted) == (None, None, 1)
    assert (job["attempts"], job["stalls"], job["failures"]) == (2, 1, 0)
    assert [(entry["fence"], entry["outcome"]) for entry in job["history"]] == [
        (stale.fence, "stalled"),
        (newer.fence, "completed"),
    ]


@pytest.mark.slow
@pytest.mark.promise("P-15", "P-16", "P-17")
def test_a_worker_frozen_in_the_middle_of_a_job_drops_it_when_it_comes_back(place: Place) -> None:
    frozen = place.worker("A", lease_s=LEASE_S)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J", pid=frozen.pid)
    place.freeze(frozen)
    place.worker("B", lease_s=LEASE_S)
    place.ledger.wait("start", "J", nth=2)
    frozen.thaw()
    place.wait_for(lambda: "Lease" in frozen.output, "the worker says that its lease is gone")
    place.open_gate("gate")
    place.wait_for_state("J", State.COMPLETED)
    place.enqueue("quick", id="K")
    place.wait_for_state("K", State.COMPLETED)

    assert place.job("J")["result"] == "B"
    assert [line.values["name"] for line in place.ledger.lines("end", "J")] == ["B"]
    assert frozen.is_alive
    assert "LoopStalled" not in frozen.output  # nothing here blocked the loop
