"""A worker process is killed: its job is recovered by another, wherever the kill falls."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from leasemq import State
from tests.end_to_end.apps.hooks import KILL, Hook
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url

LEASE_S = 2.0
RECOVERED_WITHIN_S = LEASE_S + 1  # from the kill: the lease, a sweep and a claim


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-02", "P-23")
def test_the_job_of_a_killed_worker_starts_elsewhere_within_a_lease_and_a_second(place: Place) -> None:
    killed = place.worker("A", lease_s=LEASE_S, is_ready=True)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    place.worker("B", lease_s=LEASE_S, is_ready=True)
    killed_at_s = place.kill(killed)
    second = place.ledger.wait("start", "J", nth=2)
    place.open_gate("gate")
    record = place.wait_for_state("J", State.COMPLETED)

    assert second.at_s - killed_at_s <= RECOVERED_WITHIN_S
    assert (record.attempts, record.stalls, record.failures) == (2, 1, 0)


def _marks(place: Place) -> list[str]:
    with closing(sqlite3.connect(place.folder / "outside.db")) as outside:
        return [row[0] for row in outside.execute("select key from charges")]


def _make_outside(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "outside.db")) as outside, outside:
        outside.execute("create table charges (key text primary key)")


# What happens to the first run, where the process is killed, and what the job has come to in the end.
KILL_POINTS = {
    "K1 claimed, not started": ("none", ("claim", "after"), (1, 1, 0)),
    "K2 before the effect": ("kill", None, (2, 1, 0)),
    "K3 returned, not sent": ("none", ("completed", "before"), (2, 1, 0)),
    "K4 recorded, not noticed": ("none", ("completed", "after"), (1, 0, 0)),
    "K5 raised, not sent": ("raise", ("retried", "before"), (2, 1, 0)),
    "K6 failure recorded": ("raise", ("retried", "after"), (2, 0, 1)),
}


@pytest.mark.slow
@pytest.mark.promise("P-02", "P-03", "P-14", "P-22", "P-23", "B04")
@pytest.mark.parametrize(("fault", "kill", "came_to"), KILL_POINTS.values(), ids=KILL_POINTS)
def test_a_kill_at_each_point_of_a_run_leaves_the_stated_counters(
    place: Place, fault: str, kill: tuple[str, str] | None, came_to: tuple[int, int, int]
) -> None:
    _make_outside(place.folder)
    hook: Hook | None = None
    if kill is not None:
        hook = place.hook(kill[0], "J", KILL, when=kill[1])
    first = place.worker("A", lease_s=LEASE_S, hook=hook, is_ready=True)
    place.enqueue("charge", fault, id="J")
    place.wait_for(lambda: not first.is_alive, "the first worker is dead")
    place.worker("B", lease_s=LEASE_S, is_ready=True)
    record = place.wait_for_state("J", State.COMPLETED)

    starts = place.ledger.starts("J")
    assert (len(starts), record.stalls, record.failures) == came_to
    assert len({line.values["key"] for line in starts}) == 1
    assert _marks(place) == [starts[0].values["key"]]
    assert place.counts().completed == 1
    assert place.leasemq("dead")["jobs"] == []
