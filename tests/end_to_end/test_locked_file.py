"""Somebody else holds the file's write lock: an outage, which costs no job and no budget."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from leasemq import BackendUnavailable, State
from tests.end_to_end.place import Place
from tests.end_to_end.waiting import never, until


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """Hold the write lock in a transaction from outside."""
    with closing(sqlite3.connect(place.file, timeout=10, isolation_level=None)) as outside:
        outside.execute("begin immediate")
        yield
        outside.execute("rollback")


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-93", "B24")
def test_a_file_locked_for_three_seconds_surfaces_nowhere(place: Place) -> None:
    workers = [place.worker(name, concurrency=4, lease_s=10, is_ready=True) for name in ("A", "B")]
    producer = place.program("producing", "500")
    place.ledger.wait("start")
    with locked(place):
        never(lambda: not producer.is_alive and producer.exit_code() != 0, "the producer failed", for_s=3)
    place.wait_for_completed(500)

    assert producer.exit_code() == 0, producer.output
    assert list(place.ledger.runs().values()) == [1] * 500
    assert all(worker.is_alive for worker in workers)


@pytest.mark.slow
@pytest.mark.promise("P-04", "P-19", "P-82", "B24")
def test_an_outage_longer_than_the_patience_is_told_and_then_over(place: Place) -> None:
    place.use(f"{place.url}?busy_timeout_ms=2000")
    worker = place.worker("A", lease_s=30, is_ready=True)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    with locked(place):
        began_at_s = time.monotonic()
        with pytest.raises(BackendUnavailable):
            place.enqueue("quick", id="K")
        took_s = time.monotonic() - began_at_s
        place.open_gate("gate")
        place.ledger.wait("end", "J")
        until(lambda: "BackendLost" in worker.output, "the worker says that the file is out of reach")
    record = place.wait_for_state("J", State.COMPLETED)
    place.enqueue("quick", id="K")
    place.wait_for_state("K", State.COMPLETED)

    assert took_s <= 2 + 4  # a busy machine's
    assert place.counts().accepted == 2
    assert worker.is_alive
    assert (record.attempts, record.stalls, record.failures) == (1, 0, 0)
    until(lambda: "BackendBack" in worker.output, "the worker says that the file is back")
    assert worker.output.count("BackendLost") == worker.output.count("BackendBack") == 1
