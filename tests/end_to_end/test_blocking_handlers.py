"""What blocks the loop keeps its job, what holds the GIL loses it: ten times, always the same."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from leasemq import State
from leasemq.protocol.model import Outcome
from tests.end_to_end.place import Place, Process

LEASE_S = 0.75
REPEATS = tuple(f"J{number}" for number in range(10))
AT_ONCE = 3  # of four workers: one is free, sweeps, and takes what another loses


def start_workers(place: Place) -> list[Process]:
    """Four processes of one slot each."""
    return [place.worker(name, lease_s=LEASE_S, is_ready=True) for name in ("A", "B", "C", "D")]


def waves() -> Iterator[tuple[str, ...]]:
    """The repeats, a few at a time."""
    for first in range(0, len(REPEATS), AT_ONCE):
        yield REPEATS[first : first + AT_ONCE]


def has_been_held_for_three_leases(place: Place, job: str) -> bool:
    """Whether the newest attempt of a job was renewed so long after its claim."""
    attempt = place.record(job).history[-1]
    return attempt.renewed_ms - attempt.claimed_ms > 3_000 * LEASE_S


def check_all_work(place: Place, workers: list[Process]) -> None:
    """Every worker has come back, and nothing has failed."""
    for worker in workers:
        place.enqueue("quick", id=f"K-{worker.pid}")
    place.wait_for_completed(len(REPEATS) + len(workers))
    assert all(worker.is_alive for worker in workers)
    assert place.counts().failed == 0


def warnings(workers: list[Process], job: str) -> list[str]:
    """The warnings that name a job and a blocked time."""
    lines = "".join(worker.output for worker in workers).splitlines()
    return [line for line in lines if "WARNING" in line and f"/{job}#" in line and "blocked_ms=" in line]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.promise("P-15", "P-02", "A-15", "B09", "E-19")
def test_a_function_that_blocks_the_loop_for_three_leases_keeps_its_job(place: Place) -> None:
    workers = start_workers(place)
    for wave in waves():
        for id_ in wave:
            place.enqueue("blocks_the_loop", f"gate-{id_}", id=id_)
        for id_ in wave:
            place.ledger.wait("start", id_)
        for id_ in wave:
            place.wait_for(partial(has_been_held_for_three_leases, place, id_), f"{id_} is held that long")
            place.open_gate(f"gate-{id_}")
        for id_ in wave:
            place.wait_for_state(id_, State.COMPLETED)
    check_all_work(place, workers)
    for id_ in REPEATS:
        record = place.record(id_)
        assert (record.attempts, record.stalls, record.failures) == (1, 0, 0)
        assert len(place.ledger.starts(id_)) == 1
        told = warnings(workers, id_)
        assert len(told) == 1, told
        assert "work.py:" in told[0]
        assert "in blocks_the_loop" in told[0]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.promise("P-15", "P-11", "P-16", "B09", "E-17")
def test_a_function_that_holds_the_gil_loses_its_job_and_its_result_is_refused(place: Place) -> None:
    workers = start_workers(place)
    for wave in waves():
        with ExitStack() as locked:
            for id_ in wave:
                file = locked.enter_context((place.folder / f"lock-{id_}").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
                place.enqueue("holds_the_gil", f"lock-{id_}", id=id_)
            for id_ in wave:
                place.wait_for_state(id_, State.COMPLETED)
        for id_ in wave:
            place.ledger.wait("end", id_, nth=2)
    check_all_work(place, workers)
    told: list[str] = []
    for id_ in REPEATS:
        record = place.record(id_)
        assert (record.attempts, record.stalls, record.failures) == (2, 1, 0)
        assert [one.outcome for one in record.history] == [Outcome.STALLED, Outcome.COMPLETED]
        assert place.app.call_sync(place.app.job("default", id_).result) == 2
        assert len(place.ledger.starts(id_)) == 2
        assert record.refused_count >= 1
        about = warnings(workers, id_)
        assert len(about) <= 1, about
        told += about
    assert all("holds_gil=True" in line for line in told)
    assert len(told) >= len(REPEATS) // 2  # on a busy machine a watchdog without CPU cannot see it
